//! What a hostile participant and a hostile adapter choose, and what then has to stand in the place of each slot.

use std::collections::BTreeMap;

use fastrand::Rng;
use payment::{Instruction, KeyForm, PaymentIds};
use serde_json::json;
use uuid::Uuid;

use crate::rail::Rail;

/// What others choke on, or read as something else.
const NASTY: [&str; 40] = [
    "",
    " ",
    "260961234567",
    "+260961234567",
    "0961234567",
    "٢٦٠٩٦١٢٣٤٥٦٧",
    "a\u{202e}b",
    "\u{200f}",
    "\u{feff}x",
    "x\u{0}y",
    "\"",
    "\\\"",
    "\\u0022",
    "',\"amount\":\"1",
    "</InstdAmt><InstdAmt Ccy=\"ZMW\">1",
    "<!-- x -->",
    "<![CDATA[1]]>",
    "]]>",
    "&amp;",
    "&#49;",
    "%",
    "%31",
    "%2F..%2F",
    "../..",
    "a/b",
    "?amount=1",
    "&amount=1",
    ";amount=1",
    "=",
    "a+b",
    "#",
    "\r\nx-amount: 1",
    "\n",
    "\t",
    "{amount:decimal}",
    "{{",
    "${1}",
    "é",
    "\u{1f4b8}",
    "\u{fffe}",
];

pub(crate) struct Dice(pub(crate) Rng);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0.usize(..count)
    }

    fn nasty(&mut self) -> String {
        match self.below(12) {
            0 => "x".repeat(10_000),
            1 => char::from_u32(self.below(0x11_0000) as u32).map(String::from).unwrap_or_default(),
            many => (0..=many % 4).map(|_| NASTY[self.below(NASTY.len())]).collect(),
        }
    }

    /// Mostly what fits, so that one odd field at a time is looked at, and often several.
    fn text(&mut self, sound: &str) -> String {
        match self.below(4) {
            0 => self.nasty(),
            1 => format!("{sound}{}", self.nasty()),
            _ => sound.to_owned(),
        }
    }
}

/// What a participant and an adapter chose, and what the payment is.
pub(crate) struct Case {
    amount: String,
    destination: BTreeMap<String, String>,
    narrative: Option<String>,
    pub(crate) free: Option<String>,
    id: Uuid,
}

impl Case {
    pub(crate) fn draw(dice: &mut Dice, rail: &Rail) -> Self {
        let minor = 1 + dice.below(99_999_999);
        let parts = rail.table["destination"]["parts"].as_table().expect("parts");
        let mut destination = BTreeMap::new();
        for (name, field) in parts {
            let sound = match (name.as_str(), field.get("kind").and_then(toml::Value::as_str)) {
                (_, Some("msisdn")) => "260961234567",
                (_, Some("bic")) => "AAAAZMLX",
                ("bank_code", _) => "210003",
                ("country", _) => "ZM",
                _ => "A1b2",
            };
            let is_optional = field.get("optional").and_then(toml::Value::as_bool) == Some(true);
            let skipped =
                is_optional && name != "bic" && dice.below(4) > 0 || name == "name" && dice.below(8) == 0;
            if !skipped {
                destination.insert(name.clone(), dice.text(sound));
            }
        }
        if dice.below(50) == 0 {
            destination.insert("unheard_of".to_owned(), dice.nasty());
        }
        Self {
            amount: format!("{}.{:02}", minor / 100, minor % 100),
            destination,
            narrative: (dice.below(3) > 0).then(|| dice.text("Wages of May")),
            free: (dice.below(3) > 0).then(|| dice.text("free")),
            id: Uuid::from_u128(dice.0.u128(..)),
        }
    }

    pub(crate) fn payment(&self) -> Option<Instruction> {
        let mut payload =
            json!({ "amount": self.amount, "currency": "ZMW", "destination": self.destination });
        if let Some(narrative) = &self.narrative {
            payload["narrative"] = narrative.clone().into();
        }
        let ids = PaymentIds {
            outbox_id: self.id,
            instruction_id: "i".to_owned(),
            participant_id: "p".to_owned(),
            sequence_id: 1,
        };
        Instruction::read(ids, &payload.to_string(), 1).ok()
    }

    /// What must stand in the place of a slot; the error is a value that only the host knows, or a time.
    fn value(&self, slot: &str, payment: &Instruction, rail: &Rail) -> Result<Option<String>, ()> {
        let slot = slot.trim_end_matches('?');
        let (name, form) = slot.split_once(':').unwrap_or((slot, ""));
        Ok(match name {
            "key" => Some(payment.key.form(KeyForm::parse(form).expect("a form"))),
            "amount" if form.starts_with("minor") => {
                Some(self.amount.replace('.', "").trim_start_matches('0').to_owned())
            }
            "amount" => Some(self.amount.clone()),
            "currency" => Some("ZMW".to_owned()),
            "narrative" => self.narrative.clone().filter(|text| !text.trim().is_empty()),
            "date" | "time" | "accepted" => return Err(()),
            "callback" => None,
            _ => match name.split_once('.').expect("a kind and a name") {
                ("destination", part) => {
                    let text = self.destination.get(part).cloned();
                    let digits = |text: String| match rail.table["destination"]["parts"][part].get("kind") {
                        Some(kind) if kind.as_str() == Some("msisdn") => {
                            let digits = text.trim_start_matches('+').to_owned();
                            if form == "national" { digits[3..].to_owned() } else { digits }
                        }
                        _ => text,
                    };
                    text.map(digits)
                }
                ("setting", name) => {
                    rail.table["settings"].get(name).map(|text| text.as_str().expect("a text").to_owned())
                }
                ("adapter", _) => self.free.clone(),
                // No payment here has any.
                ("payload", _) => None,
                _ => return Err(()),
            },
        })
    }

    /// A text of the file with its slots filled in. None: it is left out; the error: nobody here can know.
    pub(crate) fn filled(
        &self,
        text: &str,
        payment: &Instruction,
        rail: &Rail,
    ) -> Result<Option<String>, ()> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (slot, after) = after.split_once('}').expect("a slot");
            filled.push_str(before);
            match self.value(slot, payment, rail)? {
                Some(value) => filled.push_str(&value),
                None => return Ok(None),
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(Some(filled))
    }
}
