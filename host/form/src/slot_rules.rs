//! Where a value may stand: every slot finds what it names, and stands where it may.

use crate::field::Writing;
use crate::file::{Computed, FormFile, StepClass};
use crate::form::Form;
use crate::request::RequestTemplate;
use crate::slot::{AmountForm, Slot, SlotSource, Text};
use crate::step::Step;

/// A slot in a request: of which step, where in it, and with which text around it.
struct SlotAt<'s> {
    step: &'s Step,
    at: &'s str,
    text: &'s Text,
    slot: &'s Slot,
}

impl SlotAt<'_> {
    fn is_in_header(&self) -> bool {
        self.at.starts_with("headers")
    }

    fn is_in_address(&self) -> bool {
        self.at.starts_with("path") || self.at.starts_with("query")
    }

    /// It does not go with what stands around it.
    fn check_text(&self) -> Result<(), String> {
        if matches!(self.slot.source, SlotSource::Body | SlotSource::Base) {
            return Err("stands where it does not belong".to_owned());
        }
        if self.slot.optional && self.text.slots().count() > 1 {
            return Err("is optional beside another value, which would go with it".to_owned());
        }
        match self.at == "headers.content-type" {
            true => Err("determines how the body is read; expected a constant".to_owned()),
            false => Ok(()),
        }
    }

    fn check_adapter(&self) -> Result<(), String> {
        let is_in_body = !self.is_in_address() && !self.is_in_header();
        let is_allowed = self.step.class.is_of_payment() && is_in_body;
        match matches!(self.slot.source, SlotSource::Adapter(_)) && !is_allowed {
            true => Err("comes from the adapter; allowed in bodies only".to_owned()),
            false => Ok(()),
        }
    }
}

impl Form {
    /// Every slot finds what it names, and stands where it may.
    pub(crate) fn check_slots(&self, file: &FormFile) -> Result<(), String> {
        for step in self.steps.values() {
            for (at, text) in step.request.iter().flat_map(RequestTemplate::texts) {
                for slot in text.slots() {
                    let slot_at = SlotAt { step, at: &at, text, slot };
                    self.check_slot(file, slot)
                        .and_then(|()| self.check_slot_at(file, &slot_at))
                        .map_err(|why| format!("steps.{}.{at}: {} {why}", step.name, slot.text))?;
                }
            }
        }
        self.check_signed(file)?;
        self.check_all_used()
    }

    fn check_slot_at(&self, file: &FormFile, at: &SlotAt<'_>) -> Result<(), String> {
        self.check_class(file, at)?;
        self.check_challenge(at)?;
        at.check_text()?;
        self.check_address(at)?;
        at.check_adapter()?;
        self.check_made_of(at)
    }

    /// Not every step may carry every value.
    fn check_class(&self, file: &FormFile, at: &SlotAt<'_>) -> Result<(), String> {
        let SlotAt { step, slot, .. } = at;
        if !step.class.is_of_payment() && is_of_payment(slot) {
            return Err("belongs to a payment; not allowed here".to_owned());
        }
        if step.class != StepClass::Session {
            return Ok(());
        }
        // A token is not fetched with a token; a key may be, and so may a balance.
        let brings_key = file.fetched.values().any(|name| *name == step.name);
        if matches!(slot.source, SlotSource::Token(_)) && !brings_key {
            return Err("is a token; not allowed in the step that fetches tokens".to_owned());
        }
        let key = match &slot.source {
            SlotSource::Computed(name, _) => self.computed.get(name).and_then(Computed::key),
            _ => None,
        };
        match key.is_some_and(|key| file.fetched.contains_key(key)) {
            true => Err("needs a key that is fetched, expected none in a session".to_owned()),
            false => Ok(()),
        }
    }

    fn check_challenge(&self, at: &SlotAt<'_>) -> Result<(), String> {
        if !self.answers_challenge(at.slot) {
            return Ok(());
        }
        if at.step.challenge.is_none() {
            return Err("answers a challenge, expected steps.….challenge".to_owned());
        }
        match at.slot.optional && at.is_in_header() {
            true => Ok(()),
            false => Err("answers a challenge, expected it with a ? and in a header".to_owned()),
        }
    }

    fn check_address(&self, at: &SlotAt<'_>) -> Result<(), String> {
        if at.at == "path" && ['/', '\\', '%'].into_iter().any(|char| self.may_hold(at.slot, char)) {
            return Err("may hold a slash, a backslash or a percent sign, expected none in a path".to_owned());
        }
        match at.slot.is_secret() && at.is_in_address() && !self.is_signature(at.slot) {
            true => Err("is a secret, expected none in an address".to_owned()),
            false => Ok(()),
        }
    }

    /// What is made of headers or body is written after them.
    fn check_made_of(&self, at: &SlotAt<'_>) -> Result<(), String> {
        let SlotSource::Computed(name, _) = &at.slot.source else { return Ok(()) };
        if at.is_in_header() {
            return Ok(());
        }
        if self.signs_headers(name) {
            return Err("is made of the headers, expected it in a header".to_owned());
        }
        match self.needs_body(name) {
            true => Err("is made of the body, expected it in a header".to_owned()),
            false => Ok(()),
        }
    }

    /// The same of what is signed.
    fn check_signed(&self, file: &FormFile) -> Result<(), String> {
        let headers = self.protected.iter().flat_map(|(name, template)| {
            let texts = template.all_texts().into_iter();
            texts.map(move |(_, text)| (format!("computed.{name}.header"), text))
        });
        let over = self.over.iter().map(|(name, text)| (format!("computed.{name}.over"), text));
        for (key, text) in over.chain(headers) {
            for slot in text.slots() {
                let wrong = |why: String| format!("{key}: {} {why}", slot.text);
                self.check_slot(file, slot).map_err(wrong)?;
                if slot.optional {
                    return Err(wrong("is optional, expected what is signed to be there".to_owned()));
                }
                let in_header = key.ends_with(".header");
                let is_misplaced = match slot.source {
                    SlotSource::Computed(..) | SlotSource::Base | SlotSource::Token(_) => true,
                    SlotSource::Adapter(_) | SlotSource::Secret(_) | SlotSource::Challenge => in_header,
                    _ => false,
                };
                if is_misplaced {
                    return Err(wrong("stands where it does not belong".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// What is computed or asked of the adapter is written somewhere.
    fn check_all_used(&self) -> Result<(), String> {
        let is_written = |is_it: &dyn Fn(&SlotSource) -> bool| {
            self.steps.values().flat_map(Step::slots).any(|slot| is_it(&slot.source))
        };
        let computed = |name: &String| {
            is_written(&|source| matches!(source, SlotSource::Computed(found, _) if found == name))
        };
        if let Some(name) = self.computed.keys().find(|name| !computed(name)) {
            return Err(format!("computed.{name} is in no request, expected {{computed.{name}}} in one"));
        }
        let variable = |name: &String| {
            is_written(&|source| matches!(source, SlotSource::Adapter(found) if found == name))
        };
        match self.variables.keys().find(|name| !self.is_mock && !variable(name)) {
            Some(name) => {
                Err(format!("variables.{name} is in no request, expected {{adapter.{name}}} in one"))
            }
            None => Ok(()),
        }
    }

    fn check_slot(&self, file: &FormFile, slot: &Slot) -> Result<(), String> {
        self.check_table(slot)?;
        match &slot.source {
            SlotSource::Destination { part, writing } => self.check_part(slot, part, *writing),
            SlotSource::Narrative => {
                known(self.narrative.is_some(), "[narrative]")?;
                known(slot.optional, "every payment, expected {narrative?}")
            }
            SlotSource::Payload(name) => {
                let (_, field) = self.payload.get(name).ok_or("is not in [payload]")?;
                known(field.optional == slot.optional, "step with its optional: both or neither have it")
            }
            SlotSource::Setting(name) => {
                known(self.settings.contains_key(name) || slot.optional, "[settings]")
            }
            SlotSource::Secret(name) => known(file.secrets.contains(name), "[secrets]"),
            SlotSource::Token(name) => known(file.tokens.contains_key(name), "[tokens]"),
            SlotSource::Computed(name, value) => {
                let found = self.computed.get(name).ok_or("is not in [computed]")?;
                check_value_name(found, value.as_deref())
            }
            SlotSource::Adapter(name) => {
                let (_, field) = self.variables.get(name).ok_or("is not in [variables]")?;
                known(field.optional == slot.optional, "step with its optional: both or neither have it")
            }
            SlotSource::Amount { form: AmountForm::Minor, .. } => {
                match self.currencies.iter().find(|code| !self.amount.minor.contains_key(*code)) {
                    Some(code) => Err(format!("needs amount.minor.{code}, how many of them one {code} is")),
                    None => Ok(()),
                }
            }
            SlotSource::Callback => known(slot.optional, "every host, expected {callback?}"),
            SlotSource::Captured(name) => {
                let is_there = self.steps.values().any(|step| step.captures().any(|found| found == name));
                known(is_there, "the capture of a step")?;
                known(!slot.optional, "every payment, expected it without ?")
            }
            _ => Ok(()),
        }
    }

    fn check_table(&self, slot: &Slot) -> Result<(), String> {
        let Some(table) = &slot.table else { return Ok(()) };
        if matches!(slot.source, SlotSource::Key(_) | SlotSource::Amount { .. }) {
            return Err("goes through a table, expected the host's own value".to_owned());
        }
        let table = self.tables.get(table).ok_or("names a table that is not in [tables]")?;
        let lacking = self.currencies.iter().find(|code| !table.contains_key(*code));
        match lacking.filter(|_| slot.source == SlotSource::Currency) {
            Some(code) => Err(format!("goes through a table without {code}")),
            None => Ok(()),
        }
    }

    fn check_part(&self, slot: &Slot, part: &String, writing: Writing) -> Result<(), String> {
        let field = self.parts.get(part).ok_or("is not in destination.parts")?;
        if writing != Writing::Plain && !field.is_msisdn() {
            return Err("is written as a phone number but is not one".to_owned());
        }
        let is_one_of = self.destination.one_of.contains(part);
        match field.optional == slot.optional || is_one_of && slot.optional {
            true => Ok(()),
            false => Err("must have a ? if and only if it is optional".to_owned()),
        }
    }
}

fn known(is_known: bool, section: &str) -> Result<(), String> {
    match is_known {
        true => Ok(()),
        false => Err(format!("is not in {section}")),
    }
}

/// One of several values is named, and only then.
fn check_value_name(computed: &Computed, value: Option<&str>) -> Result<(), String> {
    match (computed.values(), value) {
        ([], None) => Ok(()),
        ([], Some(_)) => Err("has only one value".to_owned()),
        (values, Some(value)) if values.contains(&value) => Ok(()),
        (values, _) => Err(format!("has several values, expected .{}", values.join(" or ."))),
    }
}

fn is_of_payment(slot: &Slot) -> bool {
    matches!(
        slot.source,
        SlotSource::Key(_)
            | SlotSource::Amount { .. }
            | SlotSource::Currency
            | SlotSource::Destination { .. }
            | SlotSource::Narrative
            | SlotSource::Payload(_)
            | SlotSource::Adapter(_)
            | SlotSource::Captured(_)
            | SlotSource::Callback
            | SlotSource::AcceptedDate
            | SlotSource::AcceptedTime
            | SlotSource::Challenge
    )
}
