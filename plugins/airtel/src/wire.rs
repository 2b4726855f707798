//! Airtel's messages, as types.

use rail_sdk::{Instruction, settings};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// `POST /auth/oauth2/token`.
#[derive(Debug, Serialize)]
pub(crate) struct TokenRequest {
    pub client_id: String,
    pub client_secret: String,
    pub grant_type: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Version {
    V2,
    V3,
}

/// `POST /standard/{version}/disbursements/`.
#[derive(Debug, Serialize)]
pub(crate) struct Disbursement {
    payee: Payee,
    reference: String,
    /// RSA-encrypted, in base64.
    pin: String,
    transaction: Transaction,
}

#[derive(Debug, Serialize)]
struct Payee {
    /// Without the country code.
    msisdn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wallet_type: Option<String>,
}

#[derive(Debug, Serialize)]
struct Transaction {
    amount: Number,
    id: String,
    r#type: &'static str,
}

impl Disbursement {
    pub(crate) fn new(
        version: Version,
        instruction: &Instruction,
        msisdn: &str,
        amount: Number,
        pin: String,
    ) -> Self {
        let wallet = || settings::get("wallet_type").unwrap_or_else(|| "NORMAL".to_owned());
        let (currency, wallet_type) = match version {
            Version::V2 => (Some(instruction.amount.currency.clone()), None),
            Version::V3 => (None, Some(wallet())),
        };
        Self {
            payee: Payee { msisdn: msisdn.to_owned(), currency, wallet_type },
            reference: instruction.key.hex32.clone(),
            pin,
            transaction: Transaction { amount, id: instruction.key.hex.clone(), r#type: "B2C" },
        }
    }
}

/// The three shapes of a reply.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Envelope {
    /// Of the product itself, with any HTTP status.
    Business {
        status: Status,
        #[serde(default)]
        data: Option<Data>,
    },
    /// Of the gateway.
    Gateway { status_code: String },
    /// About credentials.
    Credentials { error: String },
}

#[derive(Debug, Deserialize)]
pub(crate) struct Status {
    /// The authority, where it is given.
    pub response_code: Option<String>,
    /// Deprecated, and sometimes the only one.
    pub result_code: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Data {
    pub transaction: Option<Outcome>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Outcome {
    pub id: Option<String>,
    pub status: Option<String>,
    /// Given with a success only.
    pub airtel_money_id: Option<Value>,
    pub reference_id: Option<Value>,
}

impl Outcome {
    /// Airtel's name for the payment.
    pub(crate) fn reference(&self) -> Option<String> {
        [&self.airtel_money_id, &self.reference_id].into_iter().flatten().find_map(|value| match value {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
    }
}
