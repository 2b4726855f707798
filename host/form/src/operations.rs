//! Which step stands in which operation: each is of the class that its place asks for, and none is left over.

use std::collections::BTreeSet;

use crate::file::{FormFile, StepClass, WayFile};
use crate::form::Form;
use crate::step::Step;

impl Form {
    pub(crate) fn check_operations(&self, file: &FormFile) -> Result<(), String> {
        self.check_all_known()?;
        if self.ways.is_empty() {
            return Err("disburse.steps is empty, expected a money step".to_owned());
        }
        for way in &self.ways {
            self.check_way_steps(way)?;
            self.check_when(way)?;
        }
        if !file.query_status.ways.is_empty() {
            return Err("query-status.ways is given, expected that of disburse only".to_owned());
        }
        self.check_questions()?;
        self.check_fetched(file)?;
        self.check_challenges()?;
        self.check_no_step_left_over(file)
    }

    fn class(&self, name: &String) -> Option<StepClass> {
        self.steps.get(name).map(|step| step.class)
    }

    fn check_all_known(&self) -> Result<(), String> {
        let ways = self.ways.iter().flat_map(|way| way.steps.iter().map(|name| ("disburse", name)));
        let questions = self.query_status.iter().map(|name| ("query-status", name));
        match ways.chain(questions).find(|(_, name)| self.class(name).is_none()) {
            Some((operation, name)) => {
                Err(format!("{operation} has the step {name:?}, expected one of [steps]"))
            }
            None => Ok(()),
        }
    }

    fn check_way_steps(&self, way: &WayFile) -> Result<(), String> {
        let classes: Vec<Option<StepClass>> = way.steps.iter().map(|name| self.class(name)).collect();
        let sound = matches!(&classes[..], [before @ .., Some(StepClass::Money)]
            if before.iter().all(|class| *class == Some(StepClass::Prepare)));
        match sound {
            true => Ok(()),
            false => Err(format!(
                "disburse has the steps {}, expected any that prepare, then exactly one money step",
                way.steps.join(", ")
            )),
        }
    }

    /// What decides between the ways is in this file.
    fn check_when(&self, way: &WayFile) -> Result<(), String> {
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
        match way.when.currencies.iter().find(|code| !self.currencies.contains(code)) {
            Some(code) => {
                Err(format!("disburse.ways.when.currencies has {code:?}, expected one of currencies"))
            }
            None => Ok(()),
        }
    }

    fn check_questions(&self) -> Result<(), String> {
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
        match self.query_status.iter().find(|name| self.class(name) != Some(StepClass::Read)) {
            Some(name) => Err(format!("query-status.steps has {name:?}, expected steps of class read")),
            None => Ok(()),
        }
    }

    /// What the host fetches for itself: tokens, keys and balances.
    fn check_fetched(&self, file: &FormFile) -> Result<(), String> {
        for (token, step) in &file.tokens {
            if self.class(step) != Some(StepClass::Session) {
                return Err(format!("tokens.{token}.step is {step:?}, expected a step of class session"));
            }
        }
        for (key, step) in &file.fetched {
            if self.class(step) != Some(StepClass::Session) {
                return Err(format!("keys.{key}.fetch.step is {step:?}, expected a step of class session"));
            }
        }
        for (code, float) in &self.float {
            let step = &float.step;
            if self.class(step) != Some(StepClass::Balance) {
                return Err(format!("float.{code}.step is {step:?}, expected a step of class balance"));
            }
        }
        Ok(())
    }

    fn check_challenges(&self) -> Result<(), String> {
        let Some(step) = self.steps.values().find(|step| step.challenge.is_some()) else { return Ok(()) };
        match step.slots().iter().any(|slot| self.answers_challenge(slot)) {
            true => Ok(()),
            false => Err(format!(
                "steps.{}.challenge has no answer, expected {{challenge?}} or a signature over it",
                step.name
            )),
        }
    }

    fn check_no_step_left_over(&self, file: &FormFile) -> Result<(), String> {
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
}
