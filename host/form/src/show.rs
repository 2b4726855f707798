//! The form as an approver sees it: a worked example per currency, and what differs between two files.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use payment::{Instruction, PaymentIds};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::file::StepClass;
use crate::form::Form;
use crate::input::Input;
use crate::request::RequestTemplate;
use crate::shown::Shown;
use crate::slot::SlotSource;
use crate::step::Step;

/// The same payment in every example.
const OUTBOX_ID: Uuid = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001);

impl Form {
    /// The requests of one payment in a currency, as they would leave, without secrets.
    pub fn example(&self, currency: &str) -> Result<String, String> {
        let payment = self.example_payment(currency)?;
        let values: Vec<(String, String)> =
            self.variables.iter().map(|(name, (_, field))| (name.clone(), field.example())).collect();
        let now: DateTime<Utc> = "2026-01-15T09:30:00Z".parse().map_err(|_| "no time".to_owned())?;
        let captures =
            self.steps.values().flat_map(|step| &step.replies).flat_map(|(_, rule)| rule.captures());
        let captured = captures.map(|(name, field)| (name.to_owned(), field.example())).collect();
        let input = Input {
            payment: &payment,
            values: &values,
            captured: &captured,
            secrets: &Shown,
            challenge: None,
            now,
        };
        let mut shown = String::new();
        for step in self.in_order().into_iter().filter(|step| step.request.is_some()) {
            let request =
                self.fill(step, &input).map_err(|refusal| format!("steps.{}: {refusal}", step.name))?;
            shown.push_str(&format!(
                "{} ({:?})\n{} {}://{}{}\n",
                step.name,
                step.class,
                request.method,
                request.target.scheme,
                request.target.authority(),
                request.path
            ));
            for (name, value) in &request.headers {
                shown.push_str(&format!("{name}: {value}\n"));
            }
            if !request.body.is_empty() {
                shown.push_str(&format!("\n{}\n", String::from_utf8_lossy(&request.body)));
            }
            shown.push('\n');
        }
        Ok(shown)
    }

    /// What comes first stands first: sessions, balances, the steps of each way to pay, questions.
    fn in_order(&self) -> Vec<&Step> {
        let of_class = |class: StepClass| self.steps.values().filter(move |step| step.class == class);
        let paying = self.ways.iter().flat_map(|way| &way.steps);
        let named = paying.chain(&self.query_status).filter_map(|name| self.steps.get(name));
        let mut ordered: Vec<&Step> = Vec::new();
        for step in of_class(StepClass::Session).chain(of_class(StepClass::Balance)).chain(named) {
            if !ordered.iter().any(|known| known.name == step.name) {
                ordered.push(step);
            }
        }
        ordered
    }

    /// A payment that fits.
    pub fn example_payment(&self, currency: &str) -> Result<Instruction, String> {
        let mut payload = Map::new();
        let amount = self.amount.min.get(currency).cloned().unwrap_or_else(|| "125".to_owned());
        payload.insert("amount".to_owned(), amount.into());
        payload.insert("currency".to_owned(), currency.into());
        let one_of = &self.destination.one_of;
        let given = |name: &&String| !one_of.contains(name) || one_of.first() == Some(name);
        let parts: Map<String, Value> = self
            .parts
            .iter()
            .filter(|(name, _)| given(name))
            .map(|(name, field)| (name.clone(), field.example().into()))
            .collect();
        let destination = if parts.is_empty() { "example".into() } else { Value::Object(parts) };
        payload.insert("destination".to_owned(), destination);
        if let Some(field) = &self.narrative {
            payload.insert("narrative".to_owned(), field.example().into());
        }
        let mut payload = Value::Object(payload);
        for (at, field) in self.payload.values() {
            insert(&mut payload, at, field.example());
        }
        let ids = PaymentIds {
            outbox_id: OUTBOX_ID,
            instruction_id: "example".to_owned(),
            participant_id: "example".to_owned(),
            sequence_id: 1,
        };
        Instruction::read(ids, &payload.to_string(), 1)
            .map_err(|violations| violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    /// All that decides, a line each, by its key: what two files are compared by.
    fn lines(&self) -> BTreeMap<String, String> {
        let mut lines = self.value_lines();
        lines.extend(self.source_lines());
        lines.extend(self.steps.values().flat_map(Step::lines));
        lines.extend(self.operation_lines());
        lines.extend(self.code_lines());
        lines.into_iter().collect()
    }

    /// Whom it pays, what, and what a payment says besides.
    fn value_lines(&self) -> Vec<(String, String)> {
        let mut lines = vec![
            ("currencies".to_owned(), self.currencies.join(", ")),
            ("utc_offset".to_owned(), self.offset.to_string()),
        ];
        lines.extend(self.parts.iter().map(|(name, field)| (format!("destination.{name}"), field.told())));
        let destination = &self.destination;
        lines.push(("destination.plain".to_owned(), destination.plain.clone().unwrap_or_default()));
        lines.push(("destination.one_of".to_owned(), destination.one_of.join(", ")));
        lines.push(("destination.unused".to_owned(), destination.unused.join(", ")));
        let by_currency = |limits: &BTreeMap<String, String>| {
            limits.iter().map(|(code, limit)| format!("{code} {limit}")).collect::<Vec<_>>().join(", ")
        };
        lines.push(("amount.min".to_owned(), by_currency(&self.amount.min)));
        lines.push(("amount.max".to_owned(), by_currency(&self.amount.max)));
        for (code, units) in &self.amount.minor {
            lines.push((format!("amount.minor.{code}"), units.to_string()));
        }
        for (name, (at, field)) in &self.payload {
            lines.push((format!("payload.{name}"), format!("{at}: {}", field.told())));
        }
        lines.extend(self.narrative.iter().map(|field| ("narrative".to_owned(), field.told())));
        lines
    }

    /// What else is written into requests.
    fn source_lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        for (name, value) in &self.settings {
            lines.push((format!("settings.{name}"), value.clone()));
        }
        for (name, (purpose, field)) in &self.variables {
            let free = if field.is_free() { "FREE TEXT of the adapter" } else { "the adapter's choice" };
            lines.push((format!("variables.{name}"), format!("{free}: {} ({purpose})", field.told())));
        }
        for (name, table) in &self.tables {
            lines.extend(table.iter().map(|(from, to)| (format!("tables.{name}.{from}"), to.clone())));
        }
        for (name, computed) in &self.computed {
            lines.push((format!("computed.{name}"), format!("{computed:?}")));
        }
        lines
    }

    /// Which requests are made for what, and when.
    fn operation_lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        lines.extend(self.hours.iter().map(|hours| ("hours".to_owned(), format!("{hours:?}"))));
        for (code, float) in &self.float {
            lines.push((format!("float.{code}"), format!("{float:?}")));
        }
        if let Some(callback) = &self.callback {
            lines.push(("callback".to_owned(), format!("{callback:?}")));
        }
        for (at, way) in self.ways.iter().enumerate() {
            lines.push((format!("disburse.{at}"), format!("{:?}: {}", way.when, way.steps.join(", "))));
        }
        lines.push(("query-status".to_owned(), self.query_status.join(", ")));
        lines
    }

    fn code_lines(&self) -> Vec<(String, String)> {
        let codes = &self.codes;
        let mut lines = vec![
            ("codes.precedence".to_owned(), codes.precedence.join(", ")),
            ("codes.reasons".to_owned(), codes.reasons.clone().unwrap_or_default().join(", ")),
            ("codes.success_needs".to_owned(), format!("{:?}", codes.success_needs)),
            ("codes.refusal_needs".to_owned(), format!("{:?}", codes.refusal_needs)),
        ];
        for row in &codes.rows {
            let http = row.http.map_or_else(|| "any".to_owned(), |http| http.to_string());
            let key = format!("codes.{}.{http}.{}.{}", row.operation.as_str(), row.field, row.code);
            lines.push((key, format!("{:?}", row.class).to_lowercase()));
        }
        lines
    }

    /// What an approver has to look at who knows the form before: a line each, with a sign in front.
    pub fn difference(&self, before: &Self) -> Vec<String> {
        let (old, new) = (before.lines(), self.lines());
        let mut shown = Vec::new();
        for (key, value) in &old {
            match new.get(key) {
                None => shown.push(format!("- {key} = {value}")),
                Some(now) if now != value => shown.push(format!("~ {key} = {now} (was {value})")),
                Some(_) => {}
            }
        }
        shown.extend(
            new.iter()
                .filter(|(key, _)| !old.contains_key(*key))
                .map(|(key, value)| format!("+ {key} = {value}")),
        );
        shown
    }

    /// Names that templates carry: what an approver marks.
    pub fn free_texts(&self) -> Vec<String> {
        self.variables
            .iter()
            .filter(|(_, (_, field))| field.is_free())
            .map(|(name, _)| name.clone())
            .collect()
    }
}

impl Step {
    fn lines(&self) -> Vec<(String, String)> {
        let key = format!("steps.{}", self.name);
        let again = if self.again { ", made again for every attempt" } else { "" };
        let class = format!("{:?}", self.class).to_lowercase() + again;
        let mut lines = vec![(format!("{key}.class"), class)];
        if let Some(challenge) = &self.challenge {
            let shown = format!("{} with {}", challenge.status, challenge.header);
            lines.push((format!("{key}.challenge"), shown));
        }
        for (at, shown) in self.request.iter().flat_map(RequestTemplate::shown) {
            lines.push((format!("{key}.{at}"), shown));
        }
        for (pattern, rule) in &self.replies {
            lines.push((format!("{key}.reply.{pattern:?}"), format!("{rule:?}")));
        }
        lines
    }
}

impl RequestTemplate {
    /// Every part of it, as it is written.
    fn shown(&self) -> Vec<(String, String)> {
        let path: Vec<String> = self.path.iter().map(crate::slot::Text::shown).collect();
        let mut shown = vec![(
            "request".to_owned(),
            format!(
                "{} {}://{}/{}",
                self.method,
                self.target.scheme,
                self.target.authority(),
                path.join("/")
            ),
        )];
        shown.extend(self.query.iter().map(|(name, text)| (format!("query.{name}"), text.shown())));
        shown.extend(self.headers.iter().map(|(name, text)| (format!("headers.{name}"), text.shown())));
        shown.extend(self.body.texts().into_iter().map(|(at, text)| (at, text.shown())));
        shown.extend(self.body.constants());
        shown
    }

    /// Whether the adapter has a say in it.
    pub fn has_variables(&self) -> bool {
        self.slots().iter().any(|slot| matches!(slot.source, SlotSource::Adapter(_)))
    }
}

fn insert(payload: &mut Value, pointer: &str, text: String) {
    let mut at = payload;
    let mut parts = pointer.trim_start_matches('/').split('/').peekable();
    while let Some(part) = parts.next() {
        let Value::Object(members) = at else { return };
        if parts.peek().is_none() {
            members.insert(part.to_owned(), text.into());
            return;
        }
        at = members.entry(part).or_insert_with(|| Value::Object(Map::new()));
    }
}
