//! From the file to the form: every template parsed, every name looked up, every money field written by the host or the file is
//! refused.

use std::collections::{BTreeMap, BTreeSet};

use chrono::FixedOffset;

use crate::callback::Callback;
use crate::field::{Field, FieldKind};
use crate::file::{FormFile, StepClass, StepFile, WayFile, WhenFile};
use crate::form::Form;
use crate::hours::Hours;
use crate::reply::ReplyRule;
use crate::request::RequestTemplate;
use crate::step::{StatusPattern, Step};

impl Form {
    fn load_step(&self, file: &FormFile, name: &str, step: &StepFile) -> Result<Step, String> {
        let key = format!("steps.{name}");
        let request = match (&step.request, self.is_mock) {
            (None, true) => None,
            (Some(_), true) => {
                return Err(format!("{key}.request must not be set: a mock has no network"));
            }
            (None, false) => return Err(format!("{key}.request is missing, expected METHOD {{base}}/path")),
            (Some(line), false) => Some(RequestTemplate::load(&key, file, line, step)?),
        };
        let mut replies = Vec::new();
        for (status, reply) in &step.reply {
            let pattern = StatusPattern::parse(status).ok_or_else(|| {
                format!("{key}.reply.{status}: expected an HTTP status, such as 200 or 4xx, or any")
            })?;
            replies.push((pattern, ReplyRule::load(&format!("{key}.reply.{status}"), reply)?));
        }
        replies.sort_by_key(|(pattern, _)| *pattern);
        let asked_by_key =
            self.is_mock || request.as_ref().is_some_and(|request| request.asks_by_key(step.class));
        if step.class.is_of_payment() {
            let unbound = replies.iter().any(|(_, rule)| rule.reads_anything() && !rule.binds());
            if unbound && !asked_by_key {
                return Err(format!(
                    "{key} may read a reply about another payment; expected {{key:…}} as the request's only \
                     selector, or bound in the reply"
                ));
            }
        }
        if step.again && step.class != StepClass::Prepare {
            return Err(format!("{key}.again is only allowed in a step of class prepare"));
        }
        if let Some(challenge) = &step.challenge {
            let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if !matches!(challenge.status, 400..=499)
                || challenge.header.is_empty()
                || !challenge.header.bytes().all(is_name)
            {
                return Err(format!(
                    "{key}.challenge is {} with {:?}, expected a status of 400 to 499 and a header in lower case",
                    challenge.status, challenge.header
                ));
            }
            if !step.class.is_of_payment() {
                return Err(format!("{key}.challenge is only allowed in a step for payments"));
            }
        }
        Ok(Step {
            name: name.to_owned(),
            class: step.class,
            again: step.again,
            challenge: step.challenge.clone(),
            request,
            replies,
            asked_by_key,
        })
    }

    /// Checks a file and parses its templates. The error names the first key that is wrong, and what is expected.
    pub fn load(file: &FormFile) -> Result<Self, String> {
        let mut form = Self::read_values(file)?;
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

    /// Everything that needs no step: the steps are checked against it.
    fn read_values(file: &FormFile) -> Result<Self, String> {
        let parts = read_parts(file)?;
        let narrative = file.narrative.as_ref().map(|field| Field::read("narrative", field)).transpose()?;
        let payload = read_payload(file)?;
        let variables = read_variables(file)?;
        let offset = offset(file.utc_offset.as_deref().unwrap_or("+00:00"))?;
        let hours = file.hours.as_ref().map(|hours| Hours::load(hours, offset)).transpose()?;
        let callback =
            file.callback.as_ref().map(|callback| Callback::load(callback, &file.keys)).transpose()?;
        let mut ways = file.disburse.ways.clone();
        if !file.disburse.steps.is_empty() {
            ways.push(WayFile { when: WhenFile::default(), steps: file.disburse.steps.clone() });
        }
        Ok(Self {
            is_mock: file.is_mock,
            currencies: file.currencies.clone(),
            codes: file.codes.clone(),
            hours,
            float: file.float.clone(),
            callback,
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
            ways,
            query_status: file.query_status.steps.clone(),
        })
    }

    pub(crate) fn check_values(&self) -> Result<(), String> {
        let three = |code: &String| code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase());
        if let Some(code) = self.currencies.iter().find(|code| !three(code)) {
            return Err(format!("currencies has {code:?}, expected codes of ISO 4217"));
        }
        if !self.is_mock && self.currencies.is_empty() {
            return Err("currencies is empty; list what this rail pays in, such as [\"ZMW\"]".to_owned());
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
                return Err(format!(
                    "tables.{name} gives two entries the same value; each must be different"
                ));
            }
        }
        Ok(())
    }
}

fn read_parts(file: &FormFile) -> Result<BTreeMap<String, Field>, String> {
    let mut parts = BTreeMap::new();
    for (name, field) in &file.destination.parts {
        parts.insert(name.clone(), Field::read(&format!("destination.parts.{name}"), field)?);
    }
    Ok(parts)
}

fn read_payload(file: &FormFile) -> Result<BTreeMap<String, (String, Field)>, String> {
    let mut payload = BTreeMap::new();
    for (name, value) in &file.payload {
        let field = Field::read(&format!("payload.{name}.field"), &value.field)?;
        if !value.at.starts_with('/') {
            return Err(format!("payload.{name}.at is {:?}, expected a JSON pointer", value.at));
        }
        payload.insert(name.clone(), (value.at.clone(), field));
    }
    Ok(payload)
}

fn read_variables(file: &FormFile) -> Result<BTreeMap<String, (String, Field)>, String> {
    let mut variables = BTreeMap::new();
    for (name, variable) in &file.variables {
        let field = Field::read(&format!("variables.{name}.field"), &variable.field)?;
        if variable.field.kind != FieldKind::Text {
            return Err(format!(
                "variables.{name}.field must be plain text: the adapter does not choose the payee"
            ));
        }
        variables.insert(name.clone(), (variable.purpose.clone(), field));
    }
    Ok(variables)
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
