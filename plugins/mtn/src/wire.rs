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
    payer_message: String,
    payee_note: String,
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
        let note = instruction.narrative.clone().unwrap_or_default();
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
