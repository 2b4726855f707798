//! MTN's messages, as types.

use rail_sdk::Instruction;
use rail_sdk::msisdn::Msisdn;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `POST /disbursement/v1_0/transfer`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Transfer {
    /// Major units.
    amount: String,
    currency: String,
    external_id: String,
    payee: Party,
    /// Left out where there is no note: an empty one is not known to be taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    payer_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payee_note: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Party {
    party_id_type: &'static str,
    /// Digits with the country code, no plus sign.
    party_id: String,
}

impl Transfer {
    pub(crate) fn of(instruction: &Instruction, payee: Msisdn<'_>) -> Self {
        let note = instruction.narrative.clone().filter(|note| !note.trim().is_empty());
        Self {
            amount: instruction.amount.amount.clone(),
            currency: instruction.amount.currency.clone(),
            external_id: instruction.key.uuid.clone(),
            payee: Party { party_id_type: "MSISDN", party_id: payee.international().to_owned() },
            payer_message: note.clone(),
            payee_note: note,
        }
    }
}

/// `GET /disbursement/v1_0/transfer/{referenceId}`, as far as it decides anything.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub status: String,
    pub external_id: Option<String>,
    financial_transaction_id: Option<Value>,
    reason: Option<Value>,
}

impl Status {
    /// MTN's name for the payment, on a success.
    pub(crate) fn transaction_id(&self) -> Option<String> {
        match self.financial_transaction_id.as_ref()? {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// An object with a code in MTN's documents, a plain text on its wire.
    pub(crate) fn reason(&self) -> Option<&str> {
        let reason = self.reason.as_ref()?;
        reason.as_str().or_else(|| reason.get("code")?.as_str()).filter(|code| !code.is_empty())
    }
}

/// What MTN says with a status of 400 or more, unless it is a page of its gateway.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    pub code: String,
}

#[cfg(test)]
mod tests {
    use rail_sdk::{Destination, Money, RailKey};

    use super::*;

    fn sent(narrative: Option<&str>) -> Value {
        let instruction = Instruction {
            outbox_id: String::new(),
            instruction_id: String::new(),
            participant_id: String::new(),
            sequence_id: 1,
            key: RailKey { hex: String::new(), hex32: String::new(), uuid: "k".to_owned() },
            amount: Money { amount: "5.00".to_owned(), currency: "ZMW".to_owned() },
            destination: Destination { plain: None, fields: Vec::new() },
            narrative: narrative.map(ToOwned::to_owned),
            payload: String::new(),
            attempt: 1,
            deadline_ms: 1000,
        };
        let payee = Msisdn::read("260961234567", "260").expect("a number");
        serde_json::to_value(Transfer::of(&instruction, payee)).expect("it serialises")
    }

    #[test]
    fn a_note_is_sent_where_there_is_one_and_left_out_where_there_is_none() {
        for none in [None, Some(""), Some("  ")] {
            let sent = sent(none);
            assert!(sent.get("payerMessage").is_none() && sent.get("payeeNote").is_none(), "{sent}");
        }
        let sent = sent(Some("Wages of May"));
        assert_eq!(
            (&sent["payerMessage"], &sent["payeeNote"]),
            (&"Wages of May".into(), &"Wages of May".into())
        );
    }
}
