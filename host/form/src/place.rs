//! Where a value may stand: every slot finds what it names, and what is signed can be taken apart in one way only.

use std::collections::BTreeSet;

use crate::field::{Field, Writing};
use crate::file::{Computed, FormFile, StepClass};
use crate::load::Form;
use crate::request::RequestTemplate;
use crate::slot::{AmountForm, Piece, Slot, Source, Text};
use crate::step::Step;

impl Form {
    pub(crate) fn load_computed(&mut self, file: &FormFile) -> Result<(), String> {
        for (name, computed) in &file.computed {
            let key = |at: &str| format!("computed.{name}.{at}");
            let known_secret = |at: &str, secret: &String| match file.secrets.contains(secret) {
                true => Ok(()),
                false => Err(format!("{} is {secret:?}, expected one of [secrets]", key(at))),
            };
            let known_key = |used: &String| match file.keys.contains(used) {
                true => Ok(()),
                false => Err(format!("{} is {used:?}, expected one of [keys]", key("key"))),
            };
            match computed {
                Computed::Basic { user, password } => {
                    known_secret("user", user)?;
                    known_secret("password", password)?;
                }
                Computed::Encrypt { key: used, secret } => {
                    known_key(used)?;
                    known_secret("secret", secret)?;
                }
                Computed::Envelope { key: used } => known_key(used)?,
                Computed::Hmac { key: used, over, .. } | Computed::Sign { key: used, over, .. } => {
                    known_key(used)?;
                    let text = Text::parse(over).map_err(|problem| format!("{}: {problem}", key("over")))?;
                    if let Some(problem) = self.ambiguous(&text) {
                        return Err(format!("{}: {problem}", key("over")));
                    }
                    self.over.insert(name.clone(), text);
                }
            }
        }
        Ok(())
    }

    /// Two payments must not be signed by one text: values are kept apart by constants that they cannot hold.
    pub(crate) fn ambiguous(&self, text: &Text) -> Option<String> {
        text.0.windows(2).find_map(|pair| match pair {
            [Piece::Slot(left), Piece::Slot(right)] => {
                Some(format!("{} and {} stand side by side, expected a separator", left.text, right.text))
            }
            [Piece::Slot(slot), Piece::Const(separator)] | [Piece::Const(separator), Piece::Slot(slot)] => {
                let first = separator.chars().next()?;
                self.may_hold(slot, first).then(|| {
                    format!("{} may hold {first:?}, expected a separator that it cannot hold", slot.text)
                })
            }
            _ => None,
        })
    }

    pub(crate) fn may_hold(&self, slot: &Slot, char: char) -> bool {
        let field = |field: Option<&Field>| field.is_some_and(|field| field.may_hold(char));
        match &slot.source {
            _ if slot.table.is_some() => true,
            Source::Key(_) => char.is_ascii_alphanumeric() || char == '-',
            Source::Amount { .. } => char.is_ascii_digit() || char == '.',
            Source::Currency => char.is_ascii_uppercase(),
            Source::Date | Source::Time => char.is_ascii_digit() || "-+:TZ".contains(char),
            Source::Destination { part, .. } => field(self.parts.get(part)) || char == '+',
            Source::Narrative => field(self.narrative.as_ref()),
            Source::Payload(name) => field(self.payload.get(name).map(|(_, field)| field)),
            Source::Adapter(name) => field(self.variables.get(name).map(|(_, field)| field)),
            Source::Captured(name) => self
                .steps
                .values()
                .flat_map(|step| &step.replies)
                .flat_map(|(_, rule)| rule.captures())
                .any(|(found, field)| found == name && field.may_hold(char)),
            Source::Setting(name) => self.settings.get(name).is_some_and(|value| value.contains(char)),
            _ => true,
        }
    }

    /// Every slot finds what it names, and stands where it may.
    pub(crate) fn check_slots(&self, file: &FormFile) -> Result<(), String> {
        let mut used: BTreeSet<&String> = BTreeSet::new();
        for step in self.steps.values() {
            for (at, text) in step.request.iter().flat_map(RequestTemplate::texts) {
                for slot in text.slots() {
                    let wrong = |why: String| format!("steps.{}.{at}: {} {why}", step.name, slot.text);
                    self.check_slot(file, slot).map_err(wrong)?;
                    if step.class == StepClass::Session && is_of_payment(slot) {
                        return Err(wrong("is a payment's, expected none in a session".to_owned()));
                    }
                    if matches!(slot.source, Source::Body | Source::Base) {
                        return Err(wrong("stands where it does not belong".to_owned()));
                    }
                    if slot.optional && text.slots().count() > 1 {
                        return Err(wrong(
                            "is optional beside another value, which would go with it".to_owned(),
                        ));
                    }
                    if at == "headers.content-type" {
                        return Err(wrong("says how the body is read, expected a constant".to_owned()));
                    }
                    if at == "path" && ['/', '\\', '%'].into_iter().any(|char| self.may_hold(slot, char)) {
                        return Err(wrong(
                            "may hold a slash, a backslash or a percent sign, expected none in a path"
                                .to_owned(),
                        ));
                    }
                    let in_address = at.starts_with("path") || at.starts_with("query");
                    if slot.is_secret() && in_address && !self.is_signature(slot) {
                        return Err(wrong("is a secret, expected none in an address".to_owned()));
                    }
                    if let Source::Adapter(name) = &slot.source {
                        if step.class == StepClass::Session || in_address || at.starts_with("headers") {
                            return Err(wrong("is the adapter's, expected that in bodies only".to_owned()));
                        }
                        used.insert(name);
                    }
                    let over_body =
                        matches!(&slot.source, Source::Computed(name, _) if self.needs_body(name));
                    if over_body && !at.starts_with("headers") {
                        return Err(wrong("is made of the body, expected it in a header".to_owned()));
                    }
                }
            }
        }
        for (name, text) in &self.over {
            for slot in text.slots() {
                let wrong = |why: String| format!("computed.{name}.over: {} {why}", slot.text);
                self.check_slot(file, slot).map_err(wrong)?;
                if slot.optional {
                    return Err(wrong("is optional, expected what is signed to be there".to_owned()));
                }
                if matches!(slot.source, Source::Computed(..) | Source::Base) {
                    return Err(wrong("stands where it does not belong".to_owned()));
                }
            }
        }
        let slots: Vec<&Slot> = self.steps.values().flat_map(Step::slots).collect();
        let is_written = |name: &&String| {
            slots.iter().any(|slot| matches!(&slot.source, Source::Computed(found, _) if found == *name))
        };
        if let Some(name) = self.computed.keys().find(|name| !is_written(name)) {
            return Err(format!("computed.{name} is in no request, expected {{computed.{name}}} in one"));
        }
        match self.variables.keys().find(|name| !self.is_mock && !used.contains(name)) {
            Some(name) => {
                Err(format!("variables.{name} is in no request, expected {{adapter.{name}}} in one"))
            }
            None => Ok(()),
        }
    }

    /// It proves a secret and does not tell it.
    fn is_signature(&self, slot: &Slot) -> bool {
        let Source::Computed(name, _) = &slot.source else { return false };
        matches!(self.computed.get(name), Some(Computed::Hmac { .. } | Computed::Sign { .. }))
    }

    pub(crate) fn needs_body(&self, name: &str) -> bool {
        match self.computed.get(name) {
            Some(Computed::Envelope { .. }) => true,
            Some(_) => {
                self.over.get(name).is_some_and(|text| text.slots().any(|slot| slot.source == Source::Body))
            }
            None => false,
        }
    }

    pub(crate) fn check_slot(&self, file: &FormFile, slot: &Slot) -> Result<(), String> {
        let known = |is_known: bool, section: &str| match is_known {
            true => Ok(()),
            false => Err(format!("is not in {section}")),
        };
        if slot.table.is_some() && matches!(slot.source, Source::Key(_) | Source::Amount { .. }) {
            return Err("goes through a table, expected the host's own value".to_owned());
        }
        if let Some(table) = &slot.table {
            let table = self.tables.get(table).ok_or("names a table that is not in [tables]")?;
            let lacking = self.currencies.iter().find(|code| !table.contains_key(*code));
            if slot.source == Source::Currency
                && let Some(code) = lacking
            {
                return Err(format!("goes through a table without {code}"));
            }
        }
        match &slot.source {
            Source::Destination { part, writing } => {
                let field = self.parts.get(part).ok_or("is not in destination.parts")?;
                if *writing != Writing::Plain && !field.is_msisdn() {
                    return Err("is written as a phone number and is none".to_owned());
                }
                match field.optional == slot.optional
                    || self.destination.one_of.contains(part) && slot.optional
                {
                    true => Ok(()),
                    false => Err("has a ? and is not optional, or the other way round".to_owned()),
                }
            }
            Source::Narrative => {
                known(self.narrative.is_some(), "[narrative]")?;
                known(slot.optional, "every payment, expected {narrative?}")
            }
            Source::Payload(name) => {
                let (_, field) = self.payload.get(name).ok_or("is not in [payload]")?;
                known(field.optional == slot.optional, "step with its optional: both or neither have it")
            }
            Source::Setting(name) => known(self.settings.contains_key(name) || slot.optional, "[settings]"),
            Source::Secret(name) => known(file.secrets.contains(name), "[secrets]"),
            Source::Token(name) => known(file.tokens.contains_key(name), "[tokens]"),
            Source::Computed(name, value) => match (self.computed.get(name), value.as_deref()) {
                (Some(Computed::Envelope { .. }), Some("body" | "key")) => Ok(()),
                (Some(Computed::Envelope { .. }), _) => {
                    Err("is an envelope, expected .body or .key".to_owned())
                }
                (found, None) => known(found.is_some(), "[computed]"),
                (_, Some(_)) => Err("has one value only".to_owned()),
            },
            Source::Adapter(name) => {
                let (_, field) = self.variables.get(name).ok_or("is not in [variables]")?;
                known(field.optional == slot.optional, "step with its optional: both or neither have it")
            }
            Source::Amount { form: AmountForm::Minor, .. } => {
                match self.currencies.iter().find(|code| !self.amount.minor.contains_key(*code)) {
                    Some(code) => Err(format!("needs amount.minor.{code}, how many of them one {code} is")),
                    None => Ok(()),
                }
            }
            Source::Callback => known(slot.optional, "every host, expected {callback?}"),
            Source::Captured(name) => {
                let is_there = self.steps.values().any(|step| step.captures().any(|found| found == name));
                known(is_there, "the capture of a step")?;
                known(!slot.optional, "every payment, expected it without ?")
            }
            _ => Ok(()),
        }
    }
}

fn is_of_payment(slot: &Slot) -> bool {
    matches!(
        slot.source,
        Source::Key(_)
            | Source::Amount { .. }
            | Source::Currency
            | Source::Destination { .. }
            | Source::Narrative
            | Source::Payload(_)
            | Source::Adapter(_)
            | Source::Captured(_)
            | Source::Callback
            | Source::Token(_)
    )
}
