//! A payment as a rail is told of it: exact money, one key, a destination. No I/O.
//!
//! - `money`: amounts without floats
//! - `private`: what is never shown
//! - `key`: the one key of a payment, in the forms that rails ask for
//! - `plain`: texts without what a terminal would obey
//!
//! ```
//! use payment::{Instruction, KeyForm, PaymentIds};
//!
//! let ids = PaymentIds {
//!     outbox_id: "00000000-0000-4000-8000-000000000001".parse()?,
//!     instruction_id: "salary-7".to_owned(),
//!     participant_id: "acme".to_owned(),
//!     sequence_id: 1,
//! };
//! let payload = r#"{ "amount": "10.5", "currency": "ZMW", "destination": { "msisdn": "260961234567" } }"#;
//! let payment = Instruction::read(ids, payload, 1).expect("nothing is wrong with it");
//! assert_eq!(payment.money.amount(), "10.50");
//! assert_eq!(payment.key.form(KeyForm::Uuid), "11e594f4-8195-4c10-a301-5d0bf0447a22");
//! assert!(!format!("{payment:?}").contains("260961234567"), "the payee is shown to nobody");
//! # Ok::<(), uuid::Error>(())
//! ```

#![warn(missing_docs)]

mod key;
mod money;
mod plain;
mod private;
mod violation;

use std::fmt;

use serde_json::{Map, Value};
use uuid::Uuid;

pub use key::{KeyForm, RailKey};
pub use money::{Money, decimals, same_amount};
pub use plain::{is_unsafe, plain};
pub use private::Private;
pub use violation::Violation;

/// Whom to pay: by a single text, by named parts, or both ways empty. Shown to nobody: `Debug` masks it.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The payee as one text. None where the payload names the payee by parts.
    pub plain: Option<String>,
    /// In the order of the payload. A number is its text here.
    pub fields: Vec<(String, String)>,
}

impl Destination {
    /// The part with this name, or the whole where the payment names the payee by a single text.
    pub fn part(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
        field.or(self.plain.as_deref())
    }

    /// A text as it may be shown: of our values, and of numbers that end like one of them, only the last characters are left.
    pub fn masked_in(&self, text: &str) -> String {
        let values: Vec<&str> =
            self.fields.iter().map(|(_, value)| value).chain(&self.plain).map(String::as_str).collect();
        let mut long: Vec<_> =
            values.iter().filter(|value| value.chars().count() >= MASKED_CHARS_MIN).collect();
        long.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let text = long.into_iter().fold(text.to_owned(), |text, value| match text.contains(value) {
            true => text.replace(value, &masked(value)),
            false => text,
        });
        let ends: Vec<String> =
            values.iter().flat_map(|value| numbers(value)).map(|number| end(&number)).collect();
        numbers(&text)
            .into_iter()
            .filter(|number| ends.contains(&end(number)))
            .fold(text.clone(), |text, number| text.replace(&number, &masked(&number)))
    }
}

/// Shorter values are names of networks and countries, not accounts.
const MASKED_CHARS_MIN: usize = 6;
const SHOWN_CHARS: usize = 3;

fn masked(value: &str) -> String {
    let shown = value.char_indices().rev().nth(SHOWN_CHARS - 1).map_or(0, |(at, _)| at);
    format!("***{}", &value[shown..])
}

/// The long runs of digits in a text, and the one that it is if it is a number written with gaps.
fn numbers(text: &str) -> Vec<String> {
    let whole: String =
        text.chars().filter(|char| !matches!(char, ' ' | '-' | '+' | '(' | ')' | '.')).collect();
    let runs = text.split(|char: char| !char.is_ascii_digit()).chain([whole.as_str()]);
    runs.filter(|run| run.len() >= MASKED_CHARS_MIN && run.bytes().all(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
        .collect()
}

/// A number is known by its end: with and without the country it is the same.
fn end(number: &str) -> String {
    number[number.len() - MASKED_CHARS_MIN..].to_owned()
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = f.debug_map();
        if let Some(plain) = &self.plain {
            parts.entry(&"plain", &masked(plain));
        }
        parts.entries(self.fields.iter().map(|(name, value)| (name, masked(value)))).finish()
    }
}

/// Where a payment stands in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentIds {
    /// Id of the row in the outbox. The rail key is made of it, so it never changes.
    pub outbox_id: Uuid,
    /// The caller's id of the payment. Together with the caller's idempotency key it is unique in the outbox.
    pub instruction_id: String,
    /// Id of the participant for whom the payment is made.
    pub participant_id: String,
    /// Number of the payment among those of its participant: from 1 on, without gaps.
    pub sequence_id: u64,
}

/// One payment, complete and checked as far as no rail is needed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The row of the outbox that it was read from.
    pub ids: PaymentIds,
    /// SHA-256 of `ids.outbox_id`: the same in every attempt.
    pub key: RailKey,
    /// What to pay: more than zero, in a currency of ISO 4217.
    pub money: Money,
    /// Whom to pay. It has a text or at least one part; whether they fit is for the rail's form to say.
    pub destination: Destination,
    /// The note that goes with the payment. None where the payload has none or null.
    pub narrative: Option<String>,
    /// The payload as it was accepted, in JSON.
    pub payload: Private<String>,
    /// How often the payment was taken up, put back ones included: 1 at the first.
    pub attempt: u32,
}

impl Instruction {
    /// Reads a payload, JSON, and names everything that is wrong with it.
    pub fn read(ids: PaymentIds, payload: &str, attempt: u32) -> Result<Self, Vec<Violation>> {
        let read: Value = serde_json::from_str(payload)
            .map_err(|error| vec![Violation::new("payload", error.to_string())])?;
        let empty = Map::new();
        let fields = read.as_object().unwrap_or(&empty);
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
            Some(Value::Object(parts)) if parts.values().any(|part| !part.is_null()) => {
                let mut fields = Vec::new();
                for (name, part) in parts.iter().filter(|(_, part)| !part.is_null()) {
                    match part {
                        Value::String(text) => fields.push((name.clone(), text.clone())),
                        Value::Number(digits) => fields.push((name.clone(), digits.to_string())),
                        _ => violations.push(Violation::new(
                            &format!("destination.{name}"),
                            "must be a text or a number",
                        )),
                    }
                }
                Some(Destination { plain: None, fields })
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
                key: RailKey::of(ids.outbox_id),
                ids,
                money,
                destination,
                narrative,
                payload: Private(payload.to_owned()),
                attempt,
            }),
            _ => Err(violations),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(payload: Value) -> Result<Instruction, Vec<Violation>> {
        let ids = PaymentIds {
            outbox_id: Uuid::nil(),
            instruction_id: "i".into(),
            participant_id: "p".into(),
            sequence_id: 1,
        };
        Instruction::read(ids, &payload.to_string(), 1)
    }

    #[test]
    fn a_good_payload_becomes_an_instruction() {
        let read = read(json!({ "amount": "10.5", "currency": "ZMW", "destination": {"msisdn": "26096", "tier": 2}, "note": 1 }))
            .expect("it is good");
        assert_eq!((read.money.amount(), read.money.currency()), ("10.50", "ZMW"));
        assert_eq!(read.destination.part("msisdn"), Some("26096"));
        assert_eq!(read.destination.part("tier"), Some("2"));
        assert!(read.payload.contains("\"note\":1"), "unknown fields are kept");
    }

    #[test]
    fn a_part_of_a_payee_is_a_text_or_a_number_and_nothing_is_not_there() {
        let to = |destination: Value| {
            read(json!({ "amount": "1", "currency": "ZMW", "destination": destination }))
        };
        let read = to(json!({ "account": null, "name": "Jo" })).expect("it is good");
        assert_eq!((read.destination.part("account"), read.destination.part("name")), (None, Some("Jo")));
        for odd in [json!(true), json!([1]), json!({ "first": "Jo" })] {
            let refused = to(json!({ "name": odd })).expect_err("it is no text");
            assert_eq!(refused[0].field, "destination.name");
        }
        assert_eq!(to(json!({ "account": null })).expect_err("nobody")[0].field, "destination");
    }

    #[test]
    fn no_account_number_is_shown() {
        let read = read(
            json!({ "amount": "1", "currency": "ZMW", "destination": {"account": "0123456789", "bic": "ZNCOZMLU"} }),
        )
        .expect("it is good");
        let shown = format!("{read:?}");
        assert!(!shown.contains("0123456789") && !shown.contains("ZNCOZMLU"), "{shown}");
        assert!(shown.contains("***789"), "{shown}");
        let said = read.destination.masked_in("no account 0123456789 at ZNCOZMLU");
        assert_eq!(said, "no account ***789 at ***MLU");
        let spaced = Destination { plain: Some("+260 96 1234567".to_owned()), fields: Vec::new() };
        assert_eq!(
            spaced.masked_in("0961234567 is barred since 20260101"),
            "***567 is barred since 20260101"
        );
        let nested = Destination {
            plain: None,
            fields: vec![("to".into(), r#"{"iban":"GB29 NWBK","no":"60161331926819"}"#.into())],
        };
        assert_eq!(nested.masked_in("60161331926819: closed"), "***819: closed");
    }

    #[test]
    fn every_violation_is_named_at_once() {
        let refused =
            read(json!({ "amount": "-1", "currency": "XYZ1", "narrative": 5 })).expect_err("all is wrong");
        let fields: Vec<_> = refused.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["amount", "currency", "destination", "narrative"]);
    }
}
