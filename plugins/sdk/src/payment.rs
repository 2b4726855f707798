use serde_json::Value as Json;

use crate::prelude::*;
use crate::{Facts, Payment, Reply, Value, Violation};

impl Payment {
    /// A part of the payee.
    pub fn part(&self, name: &str) -> Option<&str> {
        find(&self.destination, name)
    }

    pub fn setting(&self, name: &str) -> Option<&str> {
        find(&self.settings, name)
    }

    /// A value of the payload that the rail file names.
    pub fn payload(&self, name: &str) -> Option<&str> {
        find(&self.payload, name)
    }
}

fn find<'v>(values: &'v [Value], name: &str) -> Option<&'v str> {
    values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

impl Violation {
    pub fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}

impl Reply {
    pub fn json(&self) -> Result<Json, String> {
        serde_json::from_slice(&self.body).map_err(|error| error.to_string())
    }

    pub fn is_blank(&self) -> bool {
        self.body.trim_ascii().is_empty()
    }

    /// Facts of a JSON reply, each by the pointer to it; those that are not there are left out.
    pub fn facts(&self, places: &[(&str, &str)]) -> Result<Facts, String> {
        let json = self.json()?;
        let fact = |(name, pointer): &(&str, &str)| Some(((*name).to_owned(), text(json.pointer(pointer)?)?));
        Ok(places.iter().filter_map(fact).collect())
    }
}

/// A text or a number, as a text. What is empty is not there.
pub fn text(json: &Json) -> Option<String> {
    match json {
        Json::String(text) if !text.is_empty() => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}
