//! What is asked of a call, and all that the host knows of it afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use form::{Meaning, Reading};
use futures_util::future::BoxFuture;

use crate::payment::{Violation, plain};

use super::artifact::Digest;
use super::egress::Witness;
use super::error::CallError;

/// What is to be done with a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Validate, and where nothing is wrong disburse.
    Disburse,
    Query,
    /// Validate alone.
    Validate,
}

impl Task {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disburse => "disburse",
            Self::Query => "query-status",
            Self::Validate => "validate",
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A whole reply came, and this is what it says.
    Reading(Box<Reading>),
    /// Nothing is wrong with the payment, and no more was asked.
    Valid,
    /// The payment does not fit the rail's form, or its adapter says what is wrong with it. Nothing left.
    Invalid(Vec<Violation>),
    /// The adapter does not want it sent. Nothing left.
    Refused(String),
    /// A step before the payment did not bring what the payment needs, and this is what its reply says. The payment was not sent.
    Unprepared { reading: Box<Reading>, status: u16, why: String },
    /// Something of ours is missing or does not fit: a secret, a header. Nothing left.
    Unready(String),
    /// No whole reply; what left is the witness's to say.
    Unanswered(String),
    /// The adapter failed. What left is the witness's to say.
    Failed(CallError),
}

/// In a line, for people.
impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reading(reading) => write_reading(reading, f),
            Self::Unprepared { reading, why, .. } => {
                write_reading(reading, f)?;
                write!(f, "; the payment was not sent: {why}")
            }
            Self::Valid => f.write_str("nothing is wrong with the payment"),
            Self::Invalid(violations) => {
                let named = |violation: &Violation| format!("{} {}", violation.field, violation.problem);
                write!(
                    f,
                    "the payment does not fit: {}",
                    violations.iter().map(named).collect::<Vec<_>>().join(", ")
                )
            }
            Self::Refused(why) => write!(f, "the adapter does not want it sent: {why}"),
            Self::Unready(why) => write!(f, "the host could not write the request: {why}"),
            Self::Unanswered(why) => write!(f, "no whole reply came: {why}"),
            Self::Failed(error @ (CallError::Deadline(_) | CallError::Busy(_) | CallError::Revoked(_))) => {
                error.fmt(f)
            }
            Self::Failed(error) => write!(f, "the adapter failed: it {error}"),
        }
    }
}

fn write_reading(reading: &Reading, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let facts: Vec<String> =
        reading.facts.iter().map(|fact| format!("{} {}", fact.field, plain(&fact.value))).collect();
    let class = reading.meaning.map_or("nothing that the table knows", Meaning::as_str);
    write!(f, "the host reads {class} ({})", facts.join(", "))?;
    if let Some(veto) = reading.veto {
        let theirs: Vec<String> =
            reading.theirs.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
        write!(f, "; the adapter brakes ({}) and reads ({})", veto.as_str(), theirs.join(", "))?;
    }
    if !reading.differs.is_empty() {
        write!(f, "; the rail names another {}", reading.differs.join(", "))?;
    }
    match &reading.why {
        Some(why) => write!(f, "; {why}"),
        None => Ok(()),
    }
}

/// A call and all that the host knows of it.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub heard: Heard,
    pub witness: Witness,
    /// The component that spoke.
    pub digest: Digest,
    /// The rail's file by which it was written and read.
    pub rail_digest: Digest,
    /// Of the last request of the operation and the reply to it, without secrets.
    pub request_digest: Option<Digest>,
    pub reply_digest: Option<Digest>,
    /// What was read in the last reply for later requests, and is not kept yet.
    pub captured: BTreeMap<String, String>,
    /// Each exchange but those that bring tokens, without secrets; only where the rail is recorded.
    pub recorded: Vec<Recorded>,
    /// What it wrote to its standard output and error, safe to show.
    pub log: Vec<String>,
    pub took: Duration,
}

/// One exchange, safe to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub step: String,
    /// With names in the place of secrets: first line, headers, an empty line, body. Of a mock there is none.
    pub request: Vec<u8>,
    /// As it came, but for secrets.
    pub reply: Option<RecordedReply>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What the host read in earlier replies about a payment, and who keeps what comes to it.
#[derive(Clone, Copy)]
pub struct Captures<'k> {
    pub known: &'k BTreeMap<String, String>,
    pub keeper: &'k dyn Keeper,
}

impl<'k> Captures<'k> {
    /// Nobody needs what comes to it afterwards.
    pub fn knowing(known: &'k BTreeMap<String, String>) -> Self {
        Self { known, keeper: &Nobody }
    }
}

impl std::fmt::Debug for Captures<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Captures").field("known", self.known).finish_non_exhaustive()
    }
}

/// Keeps what was captured.
pub trait Keeper: Send + Sync {
    /// True once it is durable and the payment is still ours: the next request leaves only then.
    fn keep<'k>(&'k self, values: &'k BTreeMap<String, String>) -> BoxFuture<'k, bool>;
}

/// For a call whose values nobody needs afterwards.
#[derive(Debug)]
struct Nobody;

impl Keeper for Nobody {
    fn keep<'k>(&'k self, _: &'k BTreeMap<String, String>) -> BoxFuture<'k, bool> {
        Box::pin(std::future::ready(true))
    }
}
