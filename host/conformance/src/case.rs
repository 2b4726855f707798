use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use payment::{Instruction, PaymentIds};
use rail::{CallReport, RecordedExchange, RecordedReply, Task};
use verdict::answer::CallResult;
use verdict::decision::{Class, Decision};
use verdict::error_code::ErrorCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseOperation {
    Validate,
    Disburse,
    QueryStatus,
    /// What the rail told unasked and signed; `reply` is what came.
    Callback,
}

impl CaseOperation {
    /// Its name in a recorded exchange.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::Disburse => "disburse",
            Self::QueryStatus => "query-status",
            Self::Callback => "callback",
        }
    }

    pub(super) fn task(self) -> Task {
        match self {
            Self::Validate => Task::Validate,
            Self::Disburse => Task::Disburse,
            Self::QueryStatus | Self::Callback => Task::Query,
        }
    }

    /// What a host would make of a call.
    pub(super) fn judge(self, report: &CallReport) -> Decision {
        match self {
            Self::QueryStatus | Self::Callback => verdict::judge_query(&report.heard, &report.witness),
            Self::Disburse | Self::Validate => verdict::judge_disbursement(&report.heard, &report.witness),
        }
    }
}

/// A recorded exchange: a payment, what the rail replied, and what must come of it. One JSON file each.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The file's name, for messages.
    #[serde(skip)]
    pub name: String,
    pub operation: CaseOperation,
    /// Of the payment; the suite's own where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbox_id: Option<Uuid>,
    /// As it would stand in the outbox: amount, currency, destination, …
    pub payment: Value,
    /// What was captured from earlier replies about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captured: BTreeMap<String, String>,
    /// The replies to the steps before the one that decides, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub before: BTreeMap<String, CaseReply>,
    /// Whether the token that the request carried was fetched for it; a refused one that is old says less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_is_fresh: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<CaseReply>,
    pub expect: Expected,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CaseReply {
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A text is sent as it is, anything else as JSON.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
    /// In place of a body that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl Expected {
    /// Whether what was found is what is expected; what is left out is not looked at.
    pub fn is_met_by(&self, found: &Self) -> bool {
        self.class == found.class
            && (self.code.is_none() || self.code == found.code)
            && (self.reference.is_none() || self.reference == found.reference)
            && self.differs == found.differs
    }

    /// What came of a case.
    pub(super) fn found(case: &Case, report: &CallReport) -> Self {
        let class = match (case.operation, &report.heard) {
            (CaseOperation::Validate, CallResult::Valid) => Some(ExpectedClass::Valid),
            (CaseOperation::Validate, CallResult::Invalid(_)) => Some(ExpectedClass::Invalid),
            _ => None,
        };
        match class {
            Some(class) => Self { class, code: None, reference: None, differs: false },
            None => Self::of(&case.operation.judge(report)),
        }
    }

    pub(super) fn of(decision: &Decision) -> Self {
        Self {
            class: ExpectedClass::of(decision),
            code: decision.rail_code.clone(),
            reference: decision.rail_reference.clone(),
            differs: decision.error_code == Some(ErrorCode::EchoDiffers),
        }
    }
}

impl CaseReply {
    fn of(recorded: &RecordedReply) -> Self {
        let text = str::from_utf8(&recorded.body).ok();
        Self {
            status: recorded.status,
            headers: recorded.headers.iter().cloned().collect(),
            body: text.map_or(Value::Null, Value::from),
            base64: text.is_none().then(|| STANDARD.encode(&recorded.body)),
        }
    }

    /// Its body as it comes.
    pub fn bytes(&self) -> Vec<u8> {
        match (&self.base64, &self.body) {
            (Some(base64), _) => STANDARD.decode(base64).unwrap_or_default(),
            (None, Value::Null) => Vec::new(),
            (None, Value::String(text)) => text.clone().into_bytes(),
            (None, other) => other.to_string().into_bytes(),
        }
    }
}

/// What must come of it. What is left out is not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub class: ExpectedClass,
    /// The rail's code that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What the rail repeats of the payment and is not as instructed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub differs: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedClass {
    Success,
    Pending,
    Unknown,
    NotFound,
    Retryable,
    Hold,
    Stop,
    Terminal,
    TerminalReview,
    /// From `validate`.
    Valid,
    Invalid,
}

impl std::fmt::Display for ExpectedClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::Pending => "pending",
            Self::Unknown => "unknown",
            Self::NotFound => "not-found",
            Self::Retryable => "retryable",
            Self::Hold => "hold",
            Self::Stop => "stop",
            Self::Terminal => "terminal",
            Self::TerminalReview => "terminal-review",
            Self::Valid => "valid",
            Self::Invalid => "invalid",
        })
    }
}

impl ExpectedClass {
    pub(super) fn of(decision: &Decision) -> Self {
        match decision.class {
            Class::Success => Self::Success,
            Class::Pending => Self::Pending,
            Class::Unknown => Self::Unknown,
            Class::NotFound => Self::NotFound,
            Class::Retryable => Self::Retryable,
            Class::Hold => Self::Hold,
            Class::Stop => Self::Stop,
            Class::Terminal => Self::Terminal,
            Class::TerminalReview => Self::TerminalReview,
        }
    }
}

/// The same payment in every run, so that recorded replies can name its key.
const OUTBOX_ID: Uuid = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001);

impl Case {
    /// All cases of a folder, in the order of their names; or of a file, one a line.
    pub fn load_all(place: &Path) -> Result<Vec<Self>, String> {
        let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", place.display());
        if place.is_file() {
            let text = fs::read_to_string(place).map_err(unreadable)?;
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let line = |(n, line): (usize, &str)| {
                Self::parse(&format!("line {}", n + 1), line)
                    .map_err(|problem| format!("{}, line {}: {problem}", place.display(), n + 1))
            };
            return lines.map(line).collect();
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(place).map_err(unreadable)? {
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
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Self::parse(&name, &text).map_err(wrong)
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut case: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        case.name = name.to_owned();
        case.read().map_err(|problem| format!("payment: {problem}"))?;
        Ok(case)
    }

    /// A call that was recorded, as a case that expects what came of it. None where nothing was sent.
    pub fn of(
        operation: CaseOperation,
        outbox_id: Uuid,
        payment: Value,
        captured: BTreeMap<String, String>,
        report: &CallReport,
    ) -> Option<Self> {
        let decision = operation.judge(report);
        let (last, before) = report.recorded.split_last()?;
        let reply = |recorded: &RecordedExchange| {
            Some((recorded.step.clone(), CaseReply::of(recorded.reply.as_ref()?)))
        };
        Some(Self {
            name: String::new(),
            operation,
            outbox_id: Some(outbox_id),
            payment,
            captured,
            token_is_fresh: report.witness.exchanges.last().and_then(|exchange| exchange.token_is_fresh),
            before: before.iter().filter_map(reply).collect(),
            reply: last.reply.as_ref().map(CaseReply::of),
            expect: Expected::of(&decision),
        })
    }

    /// The payment that it is about.
    pub fn instruction(&self) -> Arc<Instruction> {
        Arc::new(self.read().expect("it was read when the case was loaded"))
    }

    fn read(&self) -> Result<Instruction, String> {
        let ids = PaymentIds {
            outbox_id: self.outbox_id.unwrap_or(OUTBOX_ID),
            instruction_id: "conformance".to_owned(),
            participant_id: "conformance".to_owned(),
            sequence_id: 1,
        };
        Instruction::read(ids, &self.payment.to_string(), 1).map_err(|violations| {
            violations
                .iter()
                .map(|violation| format!("{} {}", violation.field, violation.problem))
                .collect::<Vec<_>>()
                .join(", ")
        })
    }
}
