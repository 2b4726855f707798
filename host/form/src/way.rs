//! Which requests pay: whatever way a payment goes, key, amount, currency and payee are in them, and the host writes them.

use std::collections::BTreeSet;

use payment::{Instruction, KeyForm, Violation};

use crate::codes::Operation;
use crate::field::Field;
use crate::file::{StepClass, WayFile};
use crate::fit::{payload, payload_text};
use crate::form::Form;
use crate::reply::ReplyRule;
use crate::request::RequestTemplate;
use crate::slot::{Slot, SlotSource};
use crate::step::Step;

/// The step that pays, and those that prepare it.
struct Paying<'w> {
    money: &'w Step,
    before: &'w [&'w Step],
}

impl Paying<'_> {
    /// The steps that bring what the paying one names.
    fn made_by(&self) -> impl Iterator<Item = &Step> {
        let captured = self.money.carries();
        let brings = move |step: &&Step| step.captures().any(|name| captured.contains(name));
        self.before.iter().copied().filter(brings)
    }

    /// The rail has read it back of the resource that is paid.
    fn repeated(&self, of: &str) -> bool {
        self.made_by().any(|step| step.repeats().contains(of))
    }

    fn writes(&self, wanted: impl Fn(&SlotSource) -> bool) -> bool {
        self.money.money_slots().iter().any(|slot| !slot.optional && wanted(&slot.source))
    }

    fn unwritten(&self, what: &str) -> String {
        format!(
            "steps.{} pays and does not write {what}, expected the host to fill it in, or a step before it to read it back \
             from what this one names",
            self.money.name
        )
    }

    fn is_keyed(&self) -> bool {
        self.money.slots().iter().any(|slot| !slot.optional && is_key(slot))
    }

    fn check_key(&self) -> Result<(), String> {
        match self.is_keyed() || self.made_by().any(|step| step.slots().iter().any(is_key)) {
            true => Ok(()),
            false => Err(format!(
                "steps.{} pays and does not write the key, expected {{key:…}} in it, or in a step before it whose capture it names",
                self.money.name
            )),
        }
    }

    /// What a step carries was captured by one before it.
    fn check_captures(&self) -> Result<(), String> {
        for (at, step) in self.before.iter().chain([&self.money]).enumerate() {
            let earlier = |name: &&str| {
                self.before[..at].iter().any(|step| step.captures().any(|found| found == *name))
            };
            if let Some(name) = step.carries().into_iter().find(|name| !earlier(name)) {
                return Err(format!(
                    "steps.{} carries {{captured.{name}}}, expected a step before it to bring it",
                    step.name
                ));
            }
        }
        Ok(())
    }

    fn check_one_resource(&self) -> Result<(), String> {
        match self.before.iter().find(|step| step.again && !self.is_keyed()) {
            Some(step) => Err(format!(
                "steps.{} is made again and steps.{} does not write the key, expected one payment to have one resource",
                step.name, self.money.name
            )),
            None => Ok(()),
        }
    }

    fn check_one_unit(&self) -> Result<(), String> {
        let form = |slot: &Slot| match &slot.source {
            SlotSource::Amount { form, .. } => Some(format!("{form:?}").to_lowercase()),
            _ => None,
        };
        let forms: BTreeSet<String> = self.money.slots().iter().filter_map(form).collect();
        match forms.len() > 1 {
            true => Err(format!(
                "steps.{} writes the amount in two units ({}), expected one",
                self.money.name,
                forms.into_iter().collect::<Vec<_>>().join(", ")
            )),
            false => Ok(()),
        }
    }
}

fn is_key(slot: &Slot) -> bool {
    matches!(slot.source, SlotSource::Key(_))
}

impl Form {
    /// Key, amount, currency and every part of the payee are in a request that pays, and the host writes them; or the rail has
    /// repeated them, as instructed, of the resource that the request names.
    pub(crate) fn check_money(&self) -> Result<(), String> {
        for way in &self.ways {
            let steps: Vec<&Step> = way.steps.iter().filter_map(|name| self.steps.get(name)).collect();
            let Some((money, before)) = steps.split_last() else { continue };
            if money.request.is_some() {
                self.check_way(&Paying { money, before })?;
            }
        }
        let paying =
            || self.steps.values().filter(|step| step.class == StepClass::Money && step.request.is_some());
        for part in self.parts.keys() {
            if paying().next().is_some()
                && !paying().any(|step| step.writes_part(part))
                && !self.is_repeated(part)
            {
                return Err(format!(
                    "no step that pays writes {{destination.{part}}}, expected the host to fill it in; a part without use \
                     is listed as unused"
                ));
            }
        }
        match self.parts.is_empty() && !self.is_mock {
            true => Err("destination.parts is empty; it must say who is paid".to_owned()),
            false => Ok(()),
        }
    }

    /// What is compared with the payment is a part of it.
    pub(crate) fn check_echoes(&self) -> Result<(), String> {
        let is_part =
            |of: &str| of.strip_prefix("destination.").is_none_or(|part| self.parts.contains_key(part));
        let unknown = self.rules().flat_map(ReplyRule::compares).find(|of| !self.is_mock && !is_part(of));
        match unknown {
            Some(of) => Err(format!(
                "echo.of is {of:?}, expected amount, currency or one of destination.parts: {}",
                self.parts.keys().cloned().collect::<Vec<_>>().join(", ")
            )),
            None => Ok(()),
        }
    }

    /// A payment is asked about by a name under which it was sent.
    pub(crate) fn check_key_forms(&self) -> Result<(), String> {
        let sent = self.key_forms();
        let told = self.callback.iter().flat_map(|callback| callback.key_forms());
        if let Some(form) = told.into_iter().find(|form| !self.is_mock && !sent.contains(form)) {
            return Err(format!(
                "callback has the key as {form}, expected a form in which the payment is sent"
            ));
        }
        for step in self.steps.values().filter(|step| step.class.is_of_payment()) {
            let asked = step.request.iter().flat_map(RequestTemplate::key_forms);
            let read = step.replies.iter().flat_map(|(_, rule)| rule.key_forms());
            if let Some(form) = asked.chain(read).find(|form| !self.is_mock && !sent.contains(form)) {
                return Err(format!(
                    "steps.{} has the key as {form}, expected a form in which the payment is sent: {}",
                    step.name,
                    sent.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Where the key of a payment stands, and in which form: what the rail knows a payment by. None of a mock.
    pub fn key_places(&self) -> Option<String> {
        let mut places = Vec::new();
        for step in self.steps_of(Operation::Disburse) {
            for (at, text) in step.request.iter().flat_map(RequestTemplate::texts) {
                let form = |slot: &Slot| match slot.source {
                    SlotSource::Key(form) => Some(format!("{} {at} {form}", step.name)),
                    _ => None,
                };
                places.extend(text.slots().filter_map(form));
            }
        }
        places.sort();
        (!places.is_empty()).then(|| places.join(", "))
    }

    /// The forms of the key under which this rail may know a payment.
    pub fn key_forms(&self) -> Vec<KeyForm> {
        let mut forms: Vec<KeyForm> = self
            .steps_of(Operation::Disburse)
            .filter_map(|step| step.request.as_ref())
            .flat_map(RequestTemplate::key_forms)
            .collect();
        forms.sort_by_key(ToString::to_string);
        forms.dedup();
        forms
    }

    pub(crate) fn is_repeated(&self, part: &str) -> bool {
        let of = format!("destination.{part}");
        self.steps.values().any(|step| step.repeats().contains(of.as_str()))
    }

    fn check_way(&self, paying: &Paying<'_>) -> Result<(), String> {
        paying.check_key()?;
        paying.check_captures()?;
        self.check_one_source(paying)?;
        paying.check_one_resource()?;
        self.check_written(paying)?;
        paying.check_one_unit()
    }

    /// What is captured on this way is captured by no other step.
    fn check_one_source(&self, paying: &Paying<'_>) -> Result<(), String> {
        for step in paying.before {
            let shared = self
                .steps
                .values()
                .filter(|other| other.name != step.name)
                .find_map(|other| other.captures().find(|name| step.captures().any(|own| own == *name)));
            if let Some(name) = shared {
                return Err(format!(
                    "steps.{} captures {name}, which another step also captures; expected one source",
                    step.name
                ));
            }
        }
        Ok(())
    }

    /// Amount, currency and payee are written, or were read back before.
    fn check_written(&self, paying: &Paying<'_>) -> Result<(), String> {
        if !paying.writes(|source| matches!(source, SlotSource::Amount { .. })) && !paying.repeated("amount")
        {
            return Err(paying.unwritten("the amount, {amount:…}"));
        }
        let of_currency =
            paying.writes(|source| matches!(source, SlotSource::Currency)) || paying.repeated("currency");
        if !of_currency && self.currencies.len() != 1 {
            return Err(paying.unwritten("the currency, {currency}, and has more than one"));
        }
        let always =
            |(part, field): &(&String, &Field)| !field.optional && !self.destination.one_of.contains(part);
        for (part, _) in self.parts.iter().filter(always) {
            if !paying.money.writes_part(part) && !paying.repeated(&format!("destination.{part}")) {
                let what = format!("{{destination.{part}}}; a part without use is listed as unused");
                return Err(paying.unwritten(&what));
            }
        }
        Ok(())
    }

    /// The requests that a payment is paid by, in order.
    pub fn way(&self, payment: &Instruction) -> Result<Vec<&Step>, Violation> {
        let given = |name: &str| match name.split_once('.') {
            Some(("destination", part)) => self.part(&payment.destination, part).is_some(),
            Some(("payload", name)) => self
                .payload
                .get(name)
                .is_some_and(|(at, _)| matches!(payload_text(&payload(payment), at), Ok(Some(_)))),
            _ => false,
        };
        let currency = payment.money.currency();
        let fits = |way: &&WayFile| {
            way.when.given.as_deref().is_none_or(given)
                && (way.when.currencies.is_empty() || way.when.currencies.iter().any(|code| code == currency))
        };
        let way =
            self.ways.iter().find(fits).ok_or_else(|| {
                Violation::new("destination", "matches none of disburse.ways in the rail file")
            })?;
        let steps: Vec<&Step> = way.steps.iter().filter_map(|name| self.steps.get(name)).collect();
        // What a payment says of its payee is written, or the payment is not sent.
        let written = |part: &String| {
            let repeated = || {
                let of = format!("destination.{part}");
                steps.iter().any(|step| step.repeats().contains(of.as_str()))
            };
            self.is_mock || steps.last().is_some_and(|money| money.writes_part(part)) || repeated()
        };
        let unwritten =
            self.parts.keys().find(|part| self.part(&payment.destination, part).is_some() && !written(part));
        match unwritten {
            Some(part) => Err(Violation::new(
                &format!("destination.{part}"),
                "is not sent by the way (disburse.ways) that this payment takes",
            )),
            None => Ok(steps),
        }
    }
}
