//! How a call of an adapter ended.

use std::fmt;

use form::{Meaning, Reading};
use payment::{Violation, plain};

use crate::call_error::CallError;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallResult {
    /// A whole reply came, and this is what it says.
    Reading(Box<Reading>),
    /// Nothing is wrong with the payment, and no more was asked.
    Valid,
    /// The payment does not fit the rail's form, or its adapter says what is wrong with it. Nothing left.
    Invalid(Vec<Violation>),
    /// The adapter does not want it sent. Nothing left.
    Refused(String),
    /// A step before the payment did not bring what the payment needs, and this is what its reply says. The payment was not sent.
    Unprepared {
        /// What the host read in the reply to that step.
        reading: Box<Reading>,
        /// HTTP status of that reply.
        status: u16,
        /// Why the request that pays may not follow, for people.
        why: String,
    },
    /// Something of ours is missing or does not fit: a secret, a header. Nothing left.
    Unready(String),
    /// No whole reply; what left is the witness's to say.
    Unanswered(String),
    /// The adapter failed. What left is the witness's to say.
    Failed(CallError),
}

/// In a line, for people.
impl fmt::Display for CallResult {
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
                    "the payment is invalid: {}",
                    violations.iter().map(named).collect::<Vec<_>>().join(", ")
                )
            }
            Self::Refused(why) => write!(f, "the adapter refused to send it: {why}"),
            Self::Unready(why) => write!(f, "the host could not write the request: {why}"),
            Self::Unanswered(why) => write!(f, "no complete reply: {why}"),
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
    let class = reading.meaning.map_or("no code that the table lists", Meaning::as_str);
    write!(f, "the host reads {class} ({})", facts.join(", "))?;
    if let Some(veto) = reading.veto {
        let theirs: Vec<String> =
            reading.theirs.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
        write!(f, "; the adapter vetoes ({}) and reads ({})", veto.as_str(), theirs.join(", "))?;
    }
    if !reading.differs.is_empty() {
        write!(f, "; the rail reports a different {}", reading.differs.join(", "))?;
    }
    match &reading.why {
        Some(why) => write!(f, "; {why}"),
        None => Ok(()),
    }
}
