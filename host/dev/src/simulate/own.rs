//! A simulator of one's own rail: it takes requests as the rail file writes them, and answers as the recorded exchanges do, with the
//! values of the payment that it is asked about in the place of the recorded ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conformance::{Case, CaseOperation, ExpectedClass};
use form::match_request::{Arrived, SlotValues};
use form::{Form, Shown, Step, StepClass};
use rail::definition::Definition;
use rail_simulators::{Ask, IssuedTokens, RailModel, RailRequest, ReceivedPayment, Says, SimulatedReply};
use serde_json::{Map, Value};

/// Shorter recorded values stand in replies by chance.
const REPLACED_CHARS_MIN: usize = 3;

#[derive(Debug)]
pub struct OwnRail {
    form: Arc<Form>,
    /// Pointers to the value and the lifetime of the first token.
    token: Option<(String, String)>,
    cases: Vec<Case>,
    /// What the requests to pay held, by key.
    taken: Mutex<HashMap<String, SlotValues>>,
}

impl OwnRail {
    pub fn new(definition: &Definition, cases: Vec<Case>) -> Self {
        let token = definition.file.tokens.values().next();
        Self {
            form: definition.form.clone(),
            token: token.map(|rule| (rule.value.clone(), rule.lifetime.clone())),
            cases,
            taken: Mutex::default(),
        }
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, HashMap<String, SlotValues>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorded exchange that says so best.
    fn case(&self, operation: CaseOperation, classes: &[ExpectedClass], code: Option<&str>) -> Option<&Case> {
        // One that repeats another amount or payee is recorded for the suite, not for a rail that is well.
        let fits = |case: &&Case| case.operation == operation && case.reply.is_some() && !case.expect.differs;
        let of = || self.cases.iter().filter(fits);
        let by_code = code.and_then(|code| of().find(|case| says(case, code)));
        by_code.or_else(|| classes.iter().find_map(|class| of().find(|case| case.expect.class == *class)))
    }

    fn reply(
        &self,
        operation: CaseOperation,
        order: &ReceivedPayment,
        classes: &[ExpectedClass],
        code: Option<&str>,
    ) -> SimulatedReply {
        match self.case(operation, classes, code) {
            Some(case) => self.replayed(case, case.reply.as_ref(), &order.key),
            None => {
                let classes: Vec<_> = classes.iter().map(|class| format!("{class:?}")).collect();
                text(501, &format!("no recorded exchange of {operation:?} comes to {}", classes.join(" or ")))
            }
        }
    }

    /// A recorded reply with the payment's own values in it.
    fn replayed(&self, case: &Case, reply: Option<&conformance::CaseReply>, key: &str) -> SimulatedReply {
        let Some(reply) = reply else { return SimulatedReply::empty(501) };
        let mut body = String::from_utf8_lossy(&reply.bytes()).into_owned();
        let (recorded, own) = (self.recorded(case), self.taken().get(key).cloned().unwrap_or_default());
        let mut replaced: Vec<(&String, &String)> =
            recorded.iter().filter_map(|(slot, value)| Some((value, own.get(slot)?))).collect();
        // The longest first: an amount may be a part of a key.
        replaced.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        for (from, to) in replaced.into_iter().filter(|(from, _)| from.len() >= REPLACED_CHARS_MIN) {
            body = body.replace(from.as_str(), to);
        }
        let kind = match reply.body {
            Value::String(_) if body.trim_start().starts_with('<') => "application/xml",
            Value::String(_) => "text/plain",
            _ => "application/json",
        };
        SimulatedReply::new(reply.status, kind, body)
    }

    /// What the requests of a recorded payment held.
    fn recorded(&self, case: &Case) -> SlotValues {
        let mut all = SlotValues::new();
        let payment = case.instruction();
        let input = form::Input {
            payment: &payment,
            values: &[],
            captured: &case.captured,
            secrets: &Shown,
            challenge: None,
            now: chrono::Utc::now(),
        };
        for step in self.form.steps().filter(|step| step.class.is_of_payment()) {
            let Ok(written) = self.form.fill(step, &input) else { continue };
            let (path, query) = written.path.split_once('?').unwrap_or((&written.path, ""));
            let arrived = Arrived {
                method: &written.method,
                path,
                query,
                headers: &written.headers,
                body: &written.body,
            };
            all.extend(self.form.recognise(&arrived).map(|(_, taken)| taken).unwrap_or_default());
        }
        all
    }

    fn of_payment(&self, step: &Step, taken: SlotValues) -> Result<Ask, SimulatedReply> {
        let value = |begins: &str| {
            let found = taken.iter().find(|(slot, _)| slot.starts_with(begins));
            found.map(|(_, value)| value.clone())
        };
        let key = value("{key:").or_else(|| value("{captured.")).unwrap_or_default();
        match step.class {
            StepClass::Money => {
                let order = ReceivedPayment {
                    key: key.clone(),
                    payee: value("{destination.").unwrap_or_default(),
                    amount: value("{amount:").unwrap_or_default(),
                    currency: value("{currency").unwrap_or_default(),
                    reference: key.clone(),
                    note: value("{narrative").unwrap_or_default(),
                    batch: String::new(),
                    callback: None,
                };
                self.taken().entry(key).or_default().extend(taken);
                Ok(Ask::Pay(Box::new(order)))
            }
            StepClass::Prepare => {
                self.taken().entry(key.clone()).or_default().extend(taken);
                let found = self.cases.iter().find_map(|case| Some((case, case.before.get(&step.name)?)));
                Err(match found {
                    Some((case, reply)) => self.replayed(case, Some(reply), &key),
                    None => text(501, &format!("no recorded exchange has a reply to {}", step.name)),
                })
            }
            _ => Ok(Ask::Status(key)),
        }
    }
}

fn says(case: &Case, code: &str) -> bool {
    let in_body =
        || case.reply.as_ref().is_some_and(|reply| String::from_utf8_lossy(&reply.bytes()).contains(code));
    case.expect.code.as_deref() == Some(code) || in_body()
}

fn text(status: u16, said: &str) -> SimulatedReply {
    SimulatedReply::new(status, "text/plain", format!("{said}\n"))
}

impl RailModel for OwnRail {
    fn read(&self, asked: &RailRequest, _: &IssuedTokens) -> Result<Ask, SimulatedReply> {
        let headers: Vec<(String, String)> = asked
            .headers
            .iter()
            .map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        let arrived = Arrived {
            method: asked.method.as_str(),
            path: &asked.path,
            query: asked.query.as_deref().unwrap_or_default(),
            headers: &headers,
            body: &asked.body,
        };
        let Some((step, taken)) = self.form.recognise(&arrived) else {
            return Err(text(
                404,
                &format!("{} {} is not a step of the rail file", asked.method, asked.path),
            ));
        };
        match step.class {
            StepClass::Session => Ok(Ask::Session),
            StepClass::Balance => Ok(Ask::Balance(self.form.currencies.first().cloned().unwrap_or_default())),
            _ => self.of_payment(step, taken),
        }
    }

    fn session(&self, token: &str, lifetime: Duration) -> SimulatedReply {
        let mut body = Value::Object(Map::new());
        if let Some((value, life)) = &self.token {
            put(&mut body, value, token.into());
            put(&mut body, life, lifetime.as_secs().into());
        }
        SimulatedReply::json(200, &body)
    }

    fn balance(&self, currency: &str, left: &str) -> SimulatedReply {
        let mut body = Value::Object(Map::new());
        if let Some(float) = self.form.float.get(currency) {
            put(&mut body, &float.value, left.into());
            if let Some(place) = &float.currency {
                put(&mut body, place, currency.into());
            }
        }
        SimulatedReply::json(200, &body)
    }

    fn accepted(&self, order: &ReceivedPayment, says: &Says) -> SimulatedReply {
        let (classes, code) = meant(says);
        let classes: Vec<ExpectedClass> = classes.iter().copied().chain([ExpectedClass::Pending]).collect();
        self.reply(CaseOperation::Disburse, order, &classes, code)
    }

    /// Nobody knows how this rail tells of one, unless it was recorded: as it answered the first time.
    fn duplicate(&self, order: &ReceivedPayment) -> SimulatedReply {
        match self.case(CaseOperation::Disburse, &[], Some("duplicate")) {
            Some(case) => self.replayed(case, case.reply.as_ref(), &order.key),
            None => self.accepted(order, &Says::Pending(None)),
        }
    }

    fn status(&self, order: &ReceivedPayment, says: &Says) -> SimulatedReply {
        let (classes, code) = meant(says);
        self.reply(CaseOperation::QueryStatus, order, classes, code)
    }

    fn not_found(&self) -> SimulatedReply {
        match self.case(CaseOperation::QueryStatus, &[ExpectedClass::NotFound], None) {
            Some(case) => self.replayed(case, case.reply.as_ref(), ""),
            None => SimulatedReply::empty(404),
        }
    }

    fn busy(&self) -> SimulatedReply {
        SimulatedReply::empty(429)
    }

    fn refused(&self, status: u16, code: &str) -> SimulatedReply {
        match self.case(CaseOperation::Disburse, &[], Some(code)) {
            Some(case) => self.replayed(case, case.reply.as_ref(), ""),
            None => text(status, code),
        }
    }
}

/// By which class a reply is chosen, and by which code before that.
fn meant(says: &Says) -> (&[ExpectedClass], Option<&str>) {
    match says {
        Says::Settled => (&[ExpectedClass::Success], None),
        Says::Pending(word) => (&[ExpectedClass::Pending], word.as_deref()),
        Says::Word(word) => (&[ExpectedClass::Unknown], Some(word)),
        Says::Failed { code, .. } => (&[ExpectedClass::Terminal, ExpectedClass::TerminalReview], Some(code)),
        Says::Missing => (&[ExpectedClass::NotFound], None),
    }
}

/// Makes the objects on the way.
fn put(json: &mut Value, pointer: &str, value: Value) {
    let mut at = json;
    for part in pointer.trim_start_matches('/').split('/') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[part];
    }
    *at = value;
}
