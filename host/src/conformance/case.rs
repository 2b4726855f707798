use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::payment::{Instruction, Origin};
use crate::rail::{Answer, Code, Task};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Validate,
    Disburse,
    QueryStatus,
}

impl Operation {
    pub(super) fn task(self) -> Task {
        match self {
            Self::Validate => Task::Validate,
            Self::Disburse => Task::Disburse,
            Self::QueryStatus => Task::Query,
        }
    }
}

/// A recorded exchange: a payment, what the rail replied, and what the adapter must make of it. One JSON file each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The file's name, for messages.
    #[serde(skip)]
    pub name: String,
    pub operation: Operation,
    /// As it would stand in the outbox: amount, currency, destination, …
    pub payment: Value,
    /// One after the other, each for a request to its endpoint.
    #[serde(default)]
    pub replies: Vec<Reply>,
    pub expect: Expected,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    pub endpoint: String,
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A text is sent as it is, anything else as JSON.
    #[serde(default)]
    pub body: Value,
}

impl Reply {
    pub(super) fn text(&self) -> String {
        match &self.body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub answer: Said,
    pub code: Option<ExpectedCode>,
    pub reference: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedCode {
    pub field: String,
    pub value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    Settled,
    Pending,
    Declined,
    NotFound,
    NotSent,
    Unclear,
    /// From `validate`.
    Valid,
    Invalid,
}

impl Said {
    pub(super) fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Settled { .. } => Self::Settled,
            Answer::Pending { .. } => Self::Pending,
            Answer::Declined { .. } => Self::Declined,
            Answer::NotFound => Self::NotFound,
            Answer::NotSent { .. } => Self::NotSent,
            Answer::Unclear { .. } => Self::Unclear,
        }
    }
}

impl ExpectedCode {
    pub(super) fn is(&self, code: Option<&Code>) -> bool {
        code.is_some_and(|code| code.field == self.field && code.value == self.value)
    }
}

/// The same payment in every run, so that recorded replies can name its key.
const OUTBOX_ID: Uuid = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001);

impl Case {
    /// All cases of a folder, in the order of their names.
    pub fn load_all(folder: &Path) -> Result<Vec<Self>, String> {
        let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", folder.display());
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
        files.sort();
        files.iter().map(|path| Self::load(path)).collect()
    }

    fn load(path: &Path) -> Result<Self, String> {
        let wrong = |problem: String| format!("{}: {problem}", path.display());
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let mut case: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        case.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Self::read(&case.payment).map_err(|problem| wrong(format!("payment: {problem}")))?;
        Ok(case)
    }

    pub(super) fn instruction(&self) -> Arc<Instruction> {
        Arc::new(Self::read(&self.payment).expect("it was read when the case was loaded"))
    }

    /// The same case with another amount.
    pub(super) fn with_amount(&self, amount: &str) -> Option<Self> {
        let mut payment = self.payment.clone();
        payment.as_object_mut()?.insert("amount".to_owned(), amount.into());
        Self::read(&payment).ok()?;
        Some(Self { payment, ..self.clone() })
    }

    fn read(payment: &Value) -> Result<Instruction, String> {
        let origin = Origin {
            outbox_id: OUTBOX_ID,
            instruction_id: "conformance".to_owned(),
            participant_id: "conformance".to_owned(),
            sequence_id: 1,
        };
        Instruction::read(origin, &payment.to_string(), 1).map_err(|violations| {
            violations
                .iter()
                .map(|violation| format!("{} {}", violation.field, violation.problem))
                .collect::<Vec<_>>()
                .join(", ")
        })
    }
}
