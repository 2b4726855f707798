//! A payment as a rail is told of it: exact money, one key, a destination. No I/O.
//!
//! - `money`: amounts without floats
//! - `key`: the one key of a payment, in the forms that rails ask for

mod key;
mod money;

use serde_json::{Map, Value};
use uuid::Uuid;

pub use key::{KeyForm, RailKey};
pub use money::{Money, same_amount};

/// Something that keeps a payment from being sent, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub field: String,
    pub problem: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl Violation {
    pub(crate) fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}

/// Whom to pay: by a single text, by named parts, or both ways empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destination {
    pub plain: Option<String>,
    /// In the order of the payload. A part that is no text there is JSON here.
    pub fields: Vec<(String, String)>,
}

impl Destination {
    /// The part with this name, or the whole where the payment names the payee by a single text.
    pub fn part(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
        field.or(self.plain.as_deref())
    }
}

/// Where a payment stands in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub outbox_id: Uuid,
    pub instruction_id: String,
    pub participant_id: String,
    pub sequence_id: u64,
}

/// One payment, complete and checked as far as no rail is needed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    pub origin: Origin,
    pub key: RailKey,
    pub money: Money,
    pub destination: Destination,
    pub narrative: Option<String>,
    /// The payload as it was accepted.
    pub payload: Value,
    /// 1 for the first attempt.
    pub attempt: u32,
}

impl Instruction {
    /// Reads a payload and names everything that is wrong with it.
    pub fn read(origin: Origin, payload: Value, attempt: u32) -> Result<Self, Vec<Violation>> {
        let empty = Map::new();
        let fields = payload.as_object().unwrap_or(&empty);
        let mut violations = Vec::new();

        let money = match Money::read(fields.get("amount"), fields.get("currency")) {
            Ok(money) => Some(money),
            Err(found) => {
                violations.extend(found);
                None
            }
        };
        let destination = match fields.get("destination") {
            Some(Value::String(plain)) if !plain.trim().is_empty() => {
                Some(Destination { plain: Some(plain.clone()), fields: Vec::new() })
            }
            Some(Value::Object(parts)) if !parts.is_empty() => {
                Some(Destination { plain: None, fields: parts.iter().map(text_of).collect() })
            }
            _ => {
                violations.push(Violation::new("destination", "must be a text or an object, and not empty"));
                None
            }
        };
        let narrative = match fields.get("narrative") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                violations.push(Violation::new("narrative", "must be a text"));
                None
            }
        };

        match (money, destination) {
            (Some(money), Some(destination)) if violations.is_empty() => Ok(Self {
                key: RailKey::of(origin.outbox_id),
                origin,
                money,
                destination,
                narrative,
                payload,
                attempt,
            }),
            _ => Err(violations),
        }
    }
}

fn text_of((name, value): (&String, &Value)) -> (String, String) {
    match value {
        Value::String(text) => (name.clone(), text.clone()),
        other => (name.clone(), other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(payload: Value) -> Result<Instruction, Vec<Violation>> {
        let origin = Origin {
            outbox_id: Uuid::nil(),
            instruction_id: "i".into(),
            participant_id: "p".into(),
            sequence_id: 1,
        };
        Instruction::read(origin, payload, 1)
    }

    #[test]
    fn a_good_payload_becomes_an_instruction() {
        let read = read(json!({ "amount": "10.5", "currency": "ZMW", "destination": {"msisdn": "26096", "tier": 2}, "note": 1 }))
            .expect("it is good");
        assert_eq!((read.money.amount(), read.money.currency()), ("10.50", "ZMW"));
        assert_eq!(read.destination.part("msisdn"), Some("26096"));
        assert_eq!(read.destination.part("tier"), Some("2"));
        assert_eq!(read.payload["note"], 1, "unknown fields are kept");
    }

    #[test]
    fn every_violation_is_named_at_once() {
        let refused =
            read(json!({ "amount": "-1", "currency": "XYZ1", "narrative": 5 })).expect_err("all is wrong");
        let fields: Vec<_> = refused.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["amount", "currency", "destination", "narrative"]);
    }
}
