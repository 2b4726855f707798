//! Airtel's messages, as types.

use rail_sdk::{Instruction, settings};
use serde::Serialize;
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

/// `POST /standard/v2/disbursements/`, `POST /standard/v3/disbursements`.
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

/// The three shapes of a reply. They are read as Airtel writes them: a code is a text or a number, and what is not there is left
/// out, empty, or an empty list.
#[derive(Debug)]
pub(crate) enum Envelope {
    /// Of the product itself, with any HTTP status.
    Business {
        /// The authority, where it is given.
        response_code: Option<String>,
        /// Deprecated, and sometimes the only one.
        result_code: Option<String>,
        transaction: Option<Outcome>,
    },
    /// Of the gateway.
    Gateway { status_code: String },
    /// About credentials.
    Credentials { error: String },
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub id: Option<String>,
    pub status: Option<String>,
    /// Airtel's name for the payment.
    pub reference: Option<String>,
}

impl Envelope {
    /// None: no reply of Airtel's.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let reply: Value = serde_json::from_slice(body).ok()?;
        if let Some(status) = reply.get("status").filter(|status| status.is_object()) {
            return Some(Self::Business {
                response_code: plain(status.get("response_code")),
                result_code: plain(status.get("result_code")),
                transaction: Outcome::read(reply.get("data"))?,
            });
        }
        let gateway = plain(reply.get("status_code")).map(|status_code| Self::Gateway { status_code });
        gateway.or_else(|| plain(reply.get("error")).map(|error| Self::Credentials { error }))
    }
}

impl Outcome {
    /// None: there is something that is not a transaction. A reply without one has `Some(None)`.
    fn read(data: Option<&Value>) -> Option<Option<Self>> {
        let Some(data) = data.filter(|data| !is_empty(data)) else { return Some(None) };
        let Some(transaction) = data.as_object()?.get("transaction").filter(|found| !is_empty(found)) else {
            return Some(None);
        };
        let told = |name: &str| plain(transaction.get(name));
        transaction.is_object().then(|| {
            Some(Self {
                id: told("id"),
                status: told("status"),
                // The first is what the payee and Airtel's portal have; the other is made of our own id.
                reference: told("reference_id").or_else(|| told("airtel_money_id")),
            })
        })
    }
}

/// A text or a number. Airtel writes `false` for what it does not have.
fn plain(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn business(body: &str) -> (Option<String>, Option<String>, Option<Outcome>) {
        match Envelope::read(body.as_bytes()) {
            Some(Envelope::Business { response_code, result_code, transaction }) => {
                (response_code, result_code, transaction)
            }
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn a_clear_refusal_is_read_whatever_stands_beside_it() {
        for data in ["[]", "\"\"", "null", "{}", "false", r#"{"transaction":[]}"#, r#"{"transaction":null}"#]
        {
            let body = format!(
                r#"{{"data":{data},"status":{{"response_code":"DP00900001012","code":400,"result_code":521002,"success":false}}}}"#
            );
            let (response_code, result_code, transaction) = business(&body);
            assert_eq!(response_code.as_deref(), Some("DP00900001012"), "{body}");
            assert_eq!(result_code.as_deref(), Some("521002"), "{body}");
            assert!(transaction.is_none(), "{body}");
        }
        let (_, _, transaction) = business(
            r#"{"data":{"transaction":{"id":false,"status":"TF","message":7}},"status":{"response_code":"DP00900001007"}}"#,
        );
        let transaction = transaction.expect("a transaction");
        assert_eq!((transaction.id, transaction.status.as_deref()), (None, Some("TF")));
    }

    #[test]
    fn the_reference_is_the_one_that_the_payee_has_too() {
        let told = |ids: &str| {
            let body = format!(r#"{{"data":{{"transaction":{{{ids}}}}},"status":{{}}}}"#);
            business(&body).2.expect("a transaction").reference
        };
        assert_eq!(
            told(r#""airtel_money_id":"disbursement-1","reference_id":"CI250506.1824.H00006""#).as_deref(),
            Some("CI250506.1824.H00006")
        );
        assert_eq!(told(r#""reference_id":133412377178"#).as_deref(), Some("133412377178"));
        assert_eq!(
            told(r#""reference_id":"","airtel_money_id":"disbursement-1""#).as_deref(),
            Some("disbursement-1")
        );
        assert_eq!(told(r#""status":"TIP""#), None);
    }

    #[test]
    fn what_is_not_airtels_is_not_read() {
        for body in [
            "",
            "[]",
            "<html></html>",
            r#"{"status":"FAILED"}"#,
            r#"{"status":{"response_code":"DP00900001012"},"data":[{"transaction":{"status":"TS"}}]}"#,
            r#"{"status":{"response_code":"DP00900001012"},"data":{"transaction":"TS"}}"#,
        ] {
            assert!(Envelope::read(body.as_bytes()).is_none(), "{body}");
        }
    }
}
