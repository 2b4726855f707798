//! Which requests pay: whatever way a payment goes, key, amount, currency and payee are in them, and the host writes them.

use std::collections::BTreeSet;

use payment::{Instruction, KeyForm, Violation};

use crate::codes::Operation;
use crate::file::{FormFile, StepClass, WayFile};
use crate::fit::payload;
use crate::fit::payload_text;
use crate::form::Form;
use crate::reply::ReplyRule;
use crate::request::RequestTemplate;
use crate::slot::{Slot, Source};
use crate::step::Step;

impl Form {
    pub(crate) fn check_operations(&self, file: &FormFile) -> Result<(), String> {
        let class = |name: &String| self.steps.get(name).map(|step| step.class);
        let ways = self.ways.iter().flat_map(|way| way.steps.iter().map(|name| ("disburse", name)));
        let questions = self.query_status.iter().map(|name| ("query-status", name));
        if let Some((operation, name)) = ways.chain(questions).find(|(_, name)| class(name).is_none()) {
            return Err(format!("{operation} has the step {name:?}, expected one of [steps]"));
        }
        if self.ways.is_empty() {
            return Err("disburse.steps is empty, expected a money step".to_owned());
        }
        for way in &self.ways {
            let classes: Vec<Option<StepClass>> = way.steps.iter().map(class).collect();
            let sound = matches!(&classes[..], [before @ .., Some(StepClass::Money)]
                if before.iter().all(|class| *class == Some(StepClass::Prepare)));
            if !sound {
                return Err(format!(
                    "disburse has the steps {}, expected any that prepare, then exactly one money step",
                    way.steps.join(", ")
                ));
            }
            let unknown = way.when.given.iter().find(|given| match given.split_once('.') {
                Some(("destination", part)) => !self.parts.contains_key(part),
                Some(("payload", name)) => !self.payload.contains_key(name),
                _ => true,
            });
            if let Some(given) = unknown {
                return Err(format!(
                    "disburse.ways.when.given is {given:?}, expected destination.PART or payload.NAME of this file"
                ));
            }
            if let Some(code) = way.when.currencies.iter().find(|code| !self.currencies.contains(code)) {
                return Err(format!(
                    "disburse.ways.when.currencies has {code:?}, expected one of currencies"
                ));
            }
        }
        if !file.query_status.ways.is_empty() {
            return Err("query-status.ways is given, expected that of disburse only".to_owned());
        }
        let fleeting: BTreeSet<&str> =
            self.steps.values().filter(|step| step.again).flat_map(Step::captures).collect();
        let asks_by = |name: &&String| {
            self.steps
                .get(*name)
                .is_some_and(|step| step.carries().iter().any(|name| fleeting.contains(name)))
        };
        if let Some(name) = self.query_status.iter().find(asks_by) {
            return Err(format!(
                "query-status.steps has {name:?}, which asks by what is made again for every attempt, expected one name of the payment"
            ));
        }
        if let Some(name) = self.query_status.iter().find(|name| class(name) != Some(StepClass::Read)) {
            return Err(format!("query-status.steps has {name:?}, expected steps of class read"));
        }
        for (token, step) in &file.tokens {
            if class(step) != Some(StepClass::Session) {
                return Err(format!("tokens.{token}.step is {step:?}, expected a step of class session"));
            }
        }
        for (key, step) in &file.fetched {
            if class(step) != Some(StepClass::Session) {
                return Err(format!("keys.{key}.fetch.step is {step:?}, expected a step of class session"));
            }
        }
        for (code, float) in &self.float {
            if class(&float.step) != Some(StepClass::Balance) {
                return Err(format!(
                    "float.{code}.step is {:?}, expected a step of class balance",
                    float.step
                ));
            }
        }
        if let Some(step) = self.steps.values().find(|step| step.challenge.is_some()) {
            let answered = step.slots().iter().any(|slot| self.answers_challenge(slot));
            if !answered {
                return Err(format!(
                    "steps.{}.challenge has no answer, expected {{challenge?}} or a signature over it",
                    step.name
                ));
            }
        }
        let used = |name: &&String| {
            self.ways.iter().any(|way| way.steps.contains(name))
                || self.query_status.contains(name)
                || file.tokens.values().chain(file.fetched.values()).any(|step| step == *name)
                || self.float.values().any(|float| float.step == **name)
        };
        match self.steps.keys().find(|name| !used(name)) {
            Some(name) => Err(format!("steps.{name} is in no operation and brings no token, key or balance")),
            None => Ok(()),
        }
    }

    /// Key, amount, currency and every part of the payee are in a request that pays, and the host writes them; or the rail has
    /// repeated them, as instructed, of the resource that the request names.
    pub(crate) fn check_money(&self) -> Result<(), String> {
        for way in &self.ways {
            let steps: Vec<&Step> = way.steps.iter().filter_map(|name| self.steps.get(name)).collect();
            let Some((money, before)) = steps.split_last() else { continue };
            if money.request.is_some() {
                self.check_way(money, before)?;
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
            true => Err("destination.parts is empty, expected whom to pay".to_owned()),
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
                    Source::Key(form) => Some(format!("{} {at} {form}", step.name)),
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

    pub(crate) fn check_way(&self, money: &Step, before: &[&Step]) -> Result<(), String> {
        let captured = money.carries();
        let made_by: Vec<&&Step> =
            before.iter().filter(|step| step.captures().any(|name| captured.contains(name))).collect();
        let repeated = |of: &str| made_by.iter().any(|step| step.repeats().contains(of));
        let has = |wanted: &dyn Fn(&Source) -> bool| {
            money.money_slots().iter().any(|slot| !slot.optional && wanted(&slot.source))
        };
        let wrong = |what: &str| {
            Err(format!(
                "steps.{} pays and does not write {what}, expected the host to fill it in, or a step before it to read it back \
                 from what this one names",
                money.name
            ))
        };
        let key = |source: &Source| matches!(source, Source::Key(_));
        let is_keyed = money.slots().iter().any(|slot| !slot.optional && key(&slot.source));
        if !is_keyed && !made_by.iter().any(|step| step.slots().iter().any(|slot| key(&slot.source))) {
            return Err(format!(
                "steps.{} pays and does not write the key, expected {{key:…}} in it, or in a step before it whose capture it names",
                money.name
            ));
        }
        for (at, step) in before.iter().chain([&money]).enumerate() {
            let earlier = |name: &&str| {
                before[..at.min(before.len())].iter().any(|step| step.captures().any(|found| found == *name))
            };
            if let Some(name) = step.carries().into_iter().find(|name| !earlier(name)) {
                return Err(format!(
                    "steps.{} carries {{captured.{name}}}, expected a step before it to bring it",
                    step.name
                ));
            }
        }
        for step in before {
            let shared = self
                .steps
                .values()
                .filter(|other| other.name != step.name)
                .find_map(|other| other.captures().find(|name| step.captures().any(|own| own == *name)));
            if let Some(name) = shared {
                return Err(format!(
                    "steps.{} captures {name}, which another step captures too, expected one source of it",
                    step.name
                ));
            }
        }
        if let Some(step) = before.iter().find(|step| step.again && !is_keyed) {
            return Err(format!(
                "steps.{} is made again and steps.{} does not write the key, expected one payment to have one resource",
                step.name, money.name
            ));
        }
        if !has(&|source| matches!(source, Source::Amount { .. })) && !repeated("amount") {
            return wrong("the amount, {amount:…}");
        }
        let of_currency = has(&|source| matches!(source, Source::Currency)) || repeated("currency");
        if !of_currency && self.currencies.len() != 1 {
            return wrong("the currency, {currency}, and has more than one");
        }
        let always = |part: &&String| {
            self.parts.get(*part).is_some_and(|field| !field.optional)
                && !self.destination.one_of.contains(part)
        };
        for part in self.parts.keys().filter(always) {
            if !money.writes_part(part) && !repeated(&format!("destination.{part}")) {
                return wrong(&format!("{{destination.{part}}}; a part without use is listed as unused"));
            }
        }
        let forms: BTreeSet<String> = money
            .slots()
            .iter()
            .filter_map(|slot| match &slot.source {
                Source::Amount { form, .. } => Some(format!("{form:?}").to_lowercase()),
                _ => None,
            })
            .collect();
        match forms.len() > 1 {
            true => Err(format!(
                "steps.{} writes the amount in two units ({}), expected one",
                money.name,
                forms.into_iter().collect::<Vec<_>>().join(", ")
            )),
            false => Ok(()),
        }
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
        let way = self.ways.iter().find(fits).ok_or_else(|| {
            Violation::new("destination", "goes none of the ways to pay that the rail's file has")
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
                "is not written on the way that this payment goes",
            )),
            None => Ok(steps),
        }
    }
}
