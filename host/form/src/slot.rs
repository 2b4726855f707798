//! Slots: `{…}` in a template, and what the host puts there.
//!
//! | slot | what stands there |
//! |---|---|
//! | `{key:uuid}`, `:hex`, `:hex32`, `:digits20`, `:letters14`, `:alnum13` | the payment's key |
//! | `{amount:decimal}`, `:whole`, `:minor`, `:number`, `:whole:number`, `:minor:number` | the amount, as a text or as a JSON number |
//! | `{currency}` | ISO 4217 |
//! | `{destination.PART}`, and of phone numbers `:national`, `:local`, `:plus` | a part of the payee |
//! | `{narrative}`, `{payload.NAME}` | what the payment says, by the fields of the file |
//! | `{setting.NAME}` | a constant of the file |
//! | `{date}`, `{time}`, `{time:http}`, `{time:unix}` | of the request: by the file's `utc_offset`, as in the header `date`, in seconds |
//! | `{accepted:date}`, `{accepted:time}` | when the payment was accepted: the same in every request of it |
//! | `{challenge}` | what the rail wants signed before it looks at the request |
//! | `{secret.NAME}`, `{token.NAME}`, `{computed.NAME}`, `{callback}` | what only the host knows |
//! | `{captured.NAME}` | what the host read in an earlier reply about this payment |
//! | `{adapter.NAME}` | a variable of the adapter |
//!
//! `|TABLE` looks the value up in a table of the file; `?` leaves out the member, element, header or parameter where there is no
//! value. `{{` is a brace.

use payment::KeyForm;

use crate::field::Writing;

/// One `{…}` of a template, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Where its value comes from.
    pub source: SlotSource,
    /// A table of the file through which the value goes.
    pub table: Option<String>,
    /// Left out where there is no value.
    pub optional: bool,
    /// As written, for messages.
    pub text: String,
}

/// Where the value of a slot comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotSource {
    /// The payment's key, in this form.
    Key(KeyForm),
    /// The payment's amount.
    Amount {
        /// In which unit it is written.
        form: AmountForm,
        /// Written as a JSON number instead of a text. Then it may have 15 digits at most.
        is_number: bool,
    },
    /// The payment's currency by ISO 4217.
    Currency,
    /// A part of the payee.
    Destination {
        /// Its name in `[destination.parts]`.
        part: String,
        /// How it is written; only phone numbers have a choice.
        writing: Writing,
    },
    /// The payment's note. A blank one counts as none.
    Narrative,
    /// A value of the payload, by its name in `[payload]`.
    Payload(String),
    /// A constant of the file, by its name in `[settings]`.
    Setting(String),
    /// The day of the request by `utc_offset` of the file: `2026-01-15`.
    Date,
    /// The moment of the request.
    Time(TimeForm),
    /// Of the payment's acceptance.
    AcceptedDate,
    /// The moment of the payment's acceptance: by RFC 3339, to the second.
    AcceptedTime,
    /// What the rail wants an answer to.
    Challenge,
    /// By its name in `[secrets]`.
    Secret(String),
    /// By its name in `[tokens]`.
    Token(String),
    /// By name, and which of its values where it has more than one.
    Computed(String, Option<String>),
    /// The address to which the rail may send news of this payment.
    Callback,
    /// What an earlier reply about this payment brought, by its name.
    Captured(String),
    /// What the adapter gave, by its name in `[variables]`.
    Adapter(String),
    /// The finished body; in signatures only.
    Body,
    /// Where the rail is; at the front of a request only.
    Base,
}

/// How a moment is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeForm {
    /// RFC 3339, by the file's `utc_offset`.
    Local,
    /// As in the header `date`.
    Http,
    /// Seconds since 1970.
    Unix,
}

/// In which unit an amount is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmountForm {
    /// With the decimals of its currency: `10.50`.
    Decimal,
    /// Without decimals; a payment that has some is refused.
    Whole,
    /// In the unit that the file states for the currency.
    Minor,
}

impl Slot {
    fn parse(text: &str) -> Result<Self, String> {
        let (inner, optional) = text.strip_suffix('?').map_or((text, false), |inner| (inner, true));
        let (inner, table) =
            inner.split_once('|').map_or((inner, None), |(inner, table)| (inner, Some(table.to_owned())));
        let mut parts = inner.split(':');
        let name = parts.next().unwrap_or_default();
        let words: Vec<&str> = parts.collect();
        let source = source(name, &words).ok_or_else(|| match name.split('.').next().unwrap_or_default() {
            "key" => format!(
                "{{{text}}} is not a slot; expected {{key:FORM}}: uuid, hex, hex32, digitsN (N from 20), lettersN (from 14), alnumN (from 13)"
            ),
            "amount" => format!(
                "{{{text}}} is not a slot; expected {{amount:decimal}}, :whole, :minor, :number, :whole:number or :minor:number"
            ),
            "destination" => format!("{{{text}}} is not a slot; expected {{destination.PART}}, and of phone numbers :national, :local or :plus"),
            _ => format!("{{{text}}} is not a known slot"),
        })?;
        Ok(Self { source, table, optional, text: format!("{{{text}}}") })
    }

    /// It is a JSON number, and stands alone.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.source, SlotSource::Amount { is_number: true, .. })
    }

    /// It must not be seen by anybody but the rail.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self.source, SlotSource::Secret(_) | SlotSource::Token(_) | SlotSource::Computed(..))
    }
}

fn source(name: &str, words: &[&str]) -> Option<SlotSource> {
    let named = |text: &str| {
        let sound = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        sound.then(|| text.to_owned())
    };
    if let Some((kind, name)) = name.split_once('.') {
        return match (kind, words) {
            ("destination", []) => {
                Some(SlotSource::Destination { part: named(name)?, writing: Writing::Plain })
            }
            ("destination", [writing]) => {
                Some(SlotSource::Destination { part: named(name)?, writing: Writing::parse(writing)? })
            }
            ("payload", []) => Some(SlotSource::Payload(named(name)?)),
            ("setting", []) => Some(SlotSource::Setting(named(name)?)),
            ("secret", []) => Some(SlotSource::Secret(named(name)?)),
            ("token", []) => Some(SlotSource::Token(named(name)?)),
            ("captured", []) => Some(SlotSource::Captured(named(name)?)),
            ("adapter", []) => Some(SlotSource::Adapter(named(name)?)),
            ("computed", []) => Some(match name.split_once('.') {
                Some((name, value)) => SlotSource::Computed(named(name)?, Some(named(value)?)),
                None => SlotSource::Computed(named(name)?, None),
            }),
            _ => None,
        };
    }
    match (name, words) {
        ("key", [form]) => KeyForm::parse(form).map(SlotSource::Key),
        ("amount", words) => {
            let (form, is_number) = match words {
                ["decimal"] => (AmountForm::Decimal, false),
                ["number"] => (AmountForm::Decimal, true),
                ["whole"] => (AmountForm::Whole, false),
                ["whole", "number"] => (AmountForm::Whole, true),
                ["minor"] => (AmountForm::Minor, false),
                ["minor", "number"] => (AmountForm::Minor, true),
                _ => return None,
            };
            Some(SlotSource::Amount { form, is_number })
        }
        ("currency", []) => Some(SlotSource::Currency),
        ("narrative", []) => Some(SlotSource::Narrative),
        ("date", []) => Some(SlotSource::Date),
        ("time", []) => Some(SlotSource::Time(TimeForm::Local)),
        ("time", ["http"]) => Some(SlotSource::Time(TimeForm::Http)),
        ("time", ["unix"]) => Some(SlotSource::Time(TimeForm::Unix)),
        ("accepted", ["date"]) => Some(SlotSource::AcceptedDate),
        ("accepted", ["time"]) => Some(SlotSource::AcceptedTime),
        ("challenge", []) => Some(SlotSource::Challenge),
        ("callback", []) => Some(SlotSource::Callback),
        ("body", []) => Some(SlotSource::Body),
        ("base", []) => Some(SlotSource::Base),
        _ => None,
    }
}

/// A text with slots in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub Vec<Piece>);

/// A part of a text: either a constant or a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Written as it is. `{{` of the template is one brace here.
    Const(String),
    /// Replaced by its value.
    Slot(Slot),
}

impl Text {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut constant, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            constant.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                constant.push_str(brace);
                rest = after;
            } else if brace == "{" {
                let (slot, after) = rest.split_once('}').ok_or("a slot without its closing brace")?;
                if !constant.is_empty() {
                    pieces.push(Piece::Const(std::mem::take(&mut constant)));
                }
                pieces.push(Piece::Slot(Slot::parse(slot)?));
                rest = after;
            } else {
                return Err("a closing brace without a slot; a brace itself is written }}".to_owned());
            }
        }
        constant.push_str(rest);
        if !constant.is_empty() {
            pieces.push(Piece::Const(constant));
        }
        let text = Self(pieces);
        match text.0.len() > 1 && text.slots().any(Slot::is_number) {
            true => Err("a number slot must stand alone, without text around it".to_owned()),
            false => Ok(text),
        }
    }

    /// Its slots, from left to right.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Slot(slot) => Some(slot),
            Piece::Const(_) => None,
        })
    }

    /// Something in it must not be seen by anybody but the rail.
    pub(crate) fn hides(&self) -> bool {
        self.slots().any(|slot| slot.is_secret() || slot.source == SlotSource::Callback)
    }

    /// The constant that it is, if it has no slot.
    pub(crate) fn constant(&self) -> Option<&str> {
        match &self.0[..] {
            [] => Some(""),
            [Piece::Const(text)] => Some(text),
            _ => None,
        }
    }

    /// It is a JSON number.
    pub(crate) fn is_number(&self) -> bool {
        matches!(&self.0[..], [Piece::Slot(slot)] if slot.is_number())
    }

    /// With every slot replaced by its value, each written by `write`. None where an optional one has none.
    pub(crate) fn fill<E>(
        &self,
        value: &mut dyn FnMut(&Slot) -> Result<Option<String>, E>,
        write: impl Fn(&str) -> String,
    ) -> Result<Option<String>, E> {
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Const(text) => filled.push_str(text),
                Piece::Slot(slot) => match value(slot)? {
                    Some(value) => filled.push_str(&write(&value)),
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(filled))
    }

    /// As it is written in the file.
    pub(crate) fn shown(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Const(text) => text.replace('{', "{{").replace('}', "}}"),
            Piece::Slot(slot) => slot.text.clone(),
        };
        self.0.iter().map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_constants_stand_side_by_side() {
        let text = Text::parse("a{{b}}{key:uuid}/{destination.msisdn:national|banks?}.").expect("a template");
        assert_eq!(text.shown(), "a{{b}}{key:uuid}/{destination.msisdn:national|banks?}.");
        let sources: Vec<_> = text.slots().map(|slot| slot.source.clone()).collect();
        let part = SlotSource::Destination { part: "msisdn".into(), writing: Writing::National };
        assert_eq!(sources, [SlotSource::Key(KeyForm::Uuid), part]);
        assert!(
            text.slots().last().is_some_and(|slot| slot.optional && slot.table.as_deref() == Some("banks"))
        );
    }

    #[test]
    fn what_is_no_slot_is_named() {
        for (text, problem) in [
            ("{key}", "{key} is not a"),
            ("{key:short}", "{key:short} is not a"),
            ("{amount}", "{amount} is not a"),
            ("{amount:float}", "{amount:float} is not a"),
            ("{destination.}", "is not a"),
            ("{destination.a b}", "is not a"),
            ("{unheard.of}", "{unheard.of} is not a"),
            ("{currency", "without its closing brace"),
            ("currency}", "closing brace without a slot"),
            ("K{amount:number}", "a number slot must stand alone, without text around it"),
        ] {
            let refused = Text::parse(text).expect_err(text);
            assert!(refused.contains(problem), "{refused}");
        }
    }
}
