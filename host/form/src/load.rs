//! From the file to the form: every template parsed, every name looked up, every money field written by the host or the file is
//! refused.

use std::collections::{BTreeMap, BTreeSet};

use chrono::FixedOffset;

use crate::callback::Callback;
use crate::codes::{CodeTable, Operation};
use crate::field::{Field, FieldKind};
use crate::file::{AmountFile, Computed, DestinationFile, FormFile, WayFile, WhenFile};
use crate::float::FloatFile;
use crate::hours::Hours;
use crate::json::Json;
use crate::reply::ReplyRule;
use crate::slot::{Slot, Source, Text};
use crate::step::Step;
use crate::template::JsonTemplate;

/// A rail's form, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    pub is_mock: bool,
    pub currencies: Vec<String>,
    pub codes: CodeTable,
    /// When it pays; at any time where there are none.
    pub hours: Option<Hours>,
    /// What is left to pay from, by currency.
    pub float: BTreeMap<String, FloatFile>,
    /// What the rail tells unasked and signs.
    pub callback: Option<Callback>,
    pub(crate) offset: FixedOffset,
    pub(crate) amount: AmountFile,
    pub(crate) destination: DestinationFile,
    pub(crate) parts: BTreeMap<String, Field>,
    pub(crate) narrative: Option<Field>,
    pub(crate) payload: BTreeMap<String, (String, Field)>,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) variables: BTreeMap<String, (String, Field)>,
    pub(crate) tables: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) computed: BTreeMap<String, Computed>,
    /// What is signed, by the names of computed values.
    pub(crate) over: BTreeMap<String, Text>,
    /// Protected headers, likewise.
    pub(crate) protected: BTreeMap<String, JsonTemplate>,
    pub(crate) steps: BTreeMap<String, Step>,
    /// The first that fits a payment is its way; the last one fits all, if it is there.
    pub(crate) ways: Vec<WayFile>,
    pub(crate) query_status: Vec<String>,
}

impl Form {
    pub fn load(file: &FormFile) -> Result<Self, String> {
        let mut parts = BTreeMap::new();
        for (name, field) in &file.destination.parts {
            parts.insert(name.clone(), Field::read(&format!("destination.parts.{name}"), field)?);
        }
        let narrative = file.narrative.as_ref().map(|field| Field::read("narrative", field)).transpose()?;
        let mut payload = BTreeMap::new();
        for (name, value) in &file.payload {
            let field = Field::read(&format!("payload.{name}.field"), &value.field)?;
            if !value.at.starts_with('/') {
                return Err(format!("payload.{name}.at is {:?}, expected a JSON pointer", value.at));
            }
            payload.insert(name.clone(), (value.at.clone(), field));
        }
        let mut variables = BTreeMap::new();
        for (name, variable) in &file.variables {
            let field = Field::read(&format!("variables.{name}.field"), &variable.field)?;
            if variable.field.kind != FieldKind::Text {
                return Err(format!(
                    "variables.{name}.field is of a kind, expected a text: who is paid is not the adapter's"
                ));
            }
            variables.insert(name.clone(), (variable.purpose.clone(), field));
        }
        let offset = offset(file.utc_offset.as_deref().unwrap_or("+00:00"))?;
        let mut form = Self {
            is_mock: file.is_mock,
            currencies: file.currencies.clone(),
            codes: file.codes.clone(),
            hours: file.hours.as_ref().map(|hours| Hours::load(hours, offset)).transpose()?,
            float: file.float.clone(),
            callback: file
                .callback
                .as_ref()
                .map(|callback| Callback::load(callback, &file.keys))
                .transpose()?,
            offset,
            amount: file.amount.clone(),
            destination: file.destination.clone(),
            parts,
            narrative,
            payload,
            settings: file.settings.clone(),
            variables,
            tables: file.tables.clone(),
            computed: file.computed.clone(),
            over: BTreeMap::new(),
            protected: BTreeMap::new(),
            steps: BTreeMap::new(),
            ways: file.disburse.ways.clone(),
            query_status: file.query_status.steps.clone(),
        };
        if !file.disburse.steps.is_empty() {
            form.ways.push(WayFile { when: WhenFile::default(), steps: file.disburse.steps.clone() });
        }
        form.check_values()?;
        for (name, step) in &file.steps {
            let step = form.load_step(file, name, step)?;
            form.steps.insert(name.clone(), step);
        }
        form.load_computed(file)?;
        form.check_operations(file)?;
        form.check_slots(file)?;
        form.check_money()?;
        form.check_echoes()?;
        form.check_key_forms()?;
        let facts: BTreeSet<String> = form.rules().flat_map(ReplyRule::names).collect();
        match form.codes.problem(&facts) {
            Some(problem) => Err(problem),
            None => Ok(form),
        }
    }

    /// A step by its name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.get(name)
    }

    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.values()
    }

    /// The same without the rule that a reply has to be about the payment. For tests of what that rule is for.
    #[doc(hidden)]
    #[must_use]
    pub fn unbound(&self) -> Self {
        let mut form = self.clone();
        for step in form.steps.values_mut() {
            step.asked_by_key = true;
            step.replies.iter_mut().for_each(|(_, rule)| rule.unbind());
        }
        form
    }

    /// Everything by which a word on a payment is read.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &ReplyRule> {
        let payments = self.steps.values().filter(|step| step.class.is_of_payment());
        let steps = payments.flat_map(|step| &step.replies).map(|(_, rule)| rule);
        steps.chain(self.callback.iter().map(|callback| &callback.rule))
    }

    /// All requests of an operation, whichever way a payment goes.
    pub fn steps_of(&self, operation: Operation) -> impl Iterator<Item = &Step> {
        let names: BTreeSet<&String> = match operation {
            Operation::Disburse => self.ways.iter().flat_map(|way| &way.steps).collect(),
            Operation::QueryStatus => self.query_status.iter().collect(),
        };
        names.into_iter().filter_map(|name| self.steps.get(name))
    }

    /// The most requests that one attempt makes, but for those that bring tokens.
    pub fn requests_max(&self) -> usize {
        self.ways.iter().map(|way| way.steps.len()).max().unwrap_or(1)
    }

    /// The request that asks what became of a payment: the first that can be filled in with what was captured.
    pub fn question(&self, captured: &BTreeMap<String, String>) -> Option<&Step> {
        let steps = self.query_status.iter().filter_map(|name| self.steps.get(name));
        steps.into_iter().find(|step| step.carries().iter().all(|name| captured.contains_key(*name)))
    }

    /// What the reply of a balance step says is left in a currency, in its smallest unit.
    pub fn float_left(&self, currency: &str, body: &[u8]) -> Result<i128, String> {
        let float = self.float.get(currency).ok_or_else(|| format!("float has no {currency}"))?;
        float.read(currency, self.amount.minor.get(currency).copied(), body)
    }

    /// Whether the rail can be asked what became of a payment.
    pub fn can_query(&self) -> bool {
        !self.query_status.is_empty()
    }

    /// What the adapter may fill in: name, purpose, and whether it may leave it out.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.variables
            .iter()
            .map(|(name, (purpose, field))| (name.as_str(), purpose.as_str(), field.optional))
    }

    /// Tokens that a step carries.
    pub fn tokens_of<'s>(&self, step: &'s Step) -> BTreeSet<&'s str> {
        let token = |slot: &'s Slot| match &slot.source {
            Source::Token(name) => Some(name.as_str()),
            _ => None,
        };
        step.slots().iter().filter_map(token).collect()
    }

    /// Keys by which a step encrypts or signs.
    pub fn keys_of(&self, step: &Step) -> BTreeSet<&str> {
        let used = |slot: &Slot| match &slot.source {
            Source::Computed(name, _) => self.computed.get(name).and_then(Computed::key),
            _ => None,
        };
        step.slots().iter().filter_map(used).collect()
    }

    pub(crate) fn check_values(&self) -> Result<(), String> {
        let three = |code: &String| code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase());
        if let Some(code) = self.currencies.iter().find(|code| !three(code)) {
            return Err(format!("currencies has {code:?}, expected codes of ISO 4217"));
        }
        if !self.is_mock && self.currencies.is_empty() {
            return Err("currencies is empty, expected what this rail pays in, such as [\"ZMW\"]".to_owned());
        }
        for (code, float) in &self.float {
            if !self.currencies.contains(code) {
                return Err(format!("float has {code:?}, expected one of currencies"));
            }
            float.check(code)?;
            if float.minor && !self.amount.minor.contains_key(code) {
                return Err(format!(
                    "float.{code}.minor needs amount.minor.{code}, how many of them one {code} is"
                ));
            }
        }
        let destination = &self.destination;
        let declared = |name: &String| self.parts.contains_key(name);
        if let Some(name) = destination.plain.iter().chain(&destination.one_of).find(|name| !declared(name)) {
            return Err(format!("destination names {name:?}, expected one of destination.parts"));
        }
        if let Some(name) = destination.unused.iter().find(|name| declared(name)) {
            return Err(format!("destination.unused has {name:?}, which destination.parts has too"));
        }
        for (key, limits) in [("min", &self.amount.min), ("max", &self.amount.max)] {
            for (code, limit) in limits {
                if !self.currencies.contains(code) || !is_decimal(limit) {
                    return Err(format!(
                        "amount.{key}.{code} is {limit:?}, expected a decimal number such as 5000.00 for one of currencies"
                    ));
                }
            }
        }
        if let Some(code) = self.amount.minor.keys().find(|code| !self.currencies.contains(code)) {
            return Err(format!("amount.minor has {code:?}, expected one of currencies"));
        }
        let always = |(name, field): (&String, &Field)| !field.optional || destination.one_of.contains(name);
        if !self.parts.is_empty() && !self.parts.iter().any(always) {
            return Err("destination.parts are all optional, expected one that every payment has, or one_of"
                .to_owned());
        }
        for (name, table) in &self.tables {
            let values: BTreeSet<&String> = table.values().collect();
            if values.len() != table.len() {
                return Err(format!("tables.{name} has one value for two, expected each to be told apart"));
            }
        }
        Ok(())
    }
}

/// Digits, and perhaps a point and digits.
fn is_decimal(text: &str) -> bool {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    [whole, decimals].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `+02:00`. The day is the rail's, not that of Greenwich.
fn offset(text: &str) -> Result<FixedOffset, String> {
    text.parse().map_err(|_| format!("utc_offset is {text:?}, expected such as +02:00"))
}

/// A value of the payload, as a text.
pub(crate) fn payload_text(payload: &Json, pointer: &str) -> Result<Option<String>, &'static str> {
    match payload.at(pointer) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Text(text)) => Ok(Some(text.clone())),
        Some(Json::Number(digits)) => Ok(Some(digits.clone())),
        Some(_) => Err("must be a text or a number"),
    }
}
