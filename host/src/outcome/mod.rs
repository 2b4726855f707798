//! What an attempt means. Pure functions of what the adapter said, what the gate saw and what the rail's code table says;
//! no I/O, no clock.
//!
//! - [`seen`]: what the gate saw, in the words of the decision · [`disburse`]: after a request to pay
//! - [`query`]: after a question about one

mod disburse;
mod query;
mod seen;

pub use disburse::disburse;
pub use query::query;

use crate::payment::{Destination, Violation};
use crate::rail::{Code, Heard};

/// What is known of a payment after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The rail paid.
    Success,
    /// The rail has it and will say more. It is never sent again.
    Pending,
    /// It may have moved: ask before anything else.
    Unknown,
    /// The rail does not know it. What that permits is for its history to say.
    NotFound,
    /// It did not move, and may be sent again under the same key.
    Retryable,
    /// The same, once something of ours is in order: float, credentials, configuration.
    Hold,
    /// The same, and every further try makes it worse: only a person says when the rail goes on.
    Stop,
    /// It did not move and never will.
    Terminal,
    /// The rail's last word, for a reason that a person should look at.
    TerminalReview,
}

/// An attempt, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub class: Class,
    pub error_code: Option<ErrorCode>,
    pub rail_code: Option<String>,
    pub rail_reference: Option<String>,
    /// For people.
    pub message: Option<String>,
    /// It is about the answer to a question, the only one that speaks of everything that was sent under the key.
    pub of_a_question: bool,
    /// Nothing more is to be disbursed on this rail for now.
    pub opens_breaker: bool,
    /// Nothing more is to be disbursed on this rail until a person says so.
    pub stops_rail: bool,
    /// The rail asked for this pause.
    pub retry_after_seconds: Option<u32>,
    /// It did so for everybody: too many requests, closed for now, nothing of ours works.
    pub rail_waits: bool,
}

/// Why an attempt is not a success: part of the contract with whoever reads the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The guard or the adapter's `validate` found the payment wrong.
    InvalidPayload,
    /// The adapter refused it before anything left.
    RefusedLocally,
    RailDeclined,
    RailPending,
    OutcomeUnknown,
    NotSent,
    /// Credentials, route or float: ours to mend.
    OnHold,
    /// The same, and the rail is paused until a person resumes it.
    Stopped,
    NotFound,
    /// A question brought nothing new.
    QueryFailed,
    /// The adapter claims what the gate knows to be untrue.
    AdapterLied,
}

impl ErrorCode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidPayload => "INVALID_PAYLOAD",
            Self::RefusedLocally => "REFUSED_LOCALLY",
            Self::RailDeclined => "RAIL_DECLINED",
            Self::RailPending => "RAIL_PENDING",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Self::NotSent => "NOT_SENT",
            Self::OnHold => "ON_HOLD",
            Self::Stopped => "STOPPED",
            Self::NotFound => "NOT_FOUND",
            Self::QueryFailed => "QUERY_FAILED",
            Self::AdapterLied => "ADAPTER_LIED",
        }
    }
}

impl Decision {
    fn new(class: Class, error_code: ErrorCode) -> Self {
        Self {
            class,
            error_code: Some(error_code),
            rail_code: None,
            rail_reference: None,
            message: None,
            of_a_question: false,
            opens_breaker: matches!(class, Class::Hold | Class::Stop),
            stops_rail: class == Class::Stop,
            retry_after_seconds: None,
            rail_waits: false,
        }
    }

    fn success(reference: &str, code: &Option<Code>) -> Self {
        Self {
            class: Class::Success,
            error_code: None,
            rail_code: value(code),
            rail_reference: Some(reference.to_owned()),
            message: None,
            of_a_question: false,
            opens_breaker: false,
            stops_rail: false,
            retry_after_seconds: None,
            rail_waits: false,
        }
    }

    /// The payment itself is wrong; nothing was sent.
    pub fn invalid(violations: &[Violation]) -> Self {
        Self::new(Class::Terminal, ErrorCode::InvalidPayload).saying(list(violations))
    }

    /// Nothing left, by what the host itself knows.
    pub fn not_sent(why: &str) -> Self {
        Self::new(Class::Retryable, ErrorCode::NotSent).saying(why)
    }

    /// A payment that cannot be read cannot be asked about.
    pub fn unasked(violations: &[Violation]) -> Self {
        Self::new(Class::Unknown, ErrorCode::QueryFailed).saying(list(violations))
    }

    /// The same, the payee's numbers masked in what the adapter and the rail say.
    #[must_use]
    pub fn without(mut self, destination: &Destination) -> Self {
        self.message = self.message.map(|message| destination.masked_in(&message));
        self
    }

    fn saying(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    fn with_code(self, code: &Option<Code>) -> Self {
        Self { rail_code: value(code), ..self }
    }

    fn with_reference(self, reference: &Option<String>) -> Self {
        Self { rail_reference: reference.clone(), ..self }
    }

    fn opening_the_breaker(self) -> Self {
        Self { opens_breaker: true, ..self }
    }

    fn stopping_the_rail(self) -> Self {
        Self { opens_breaker: true, stops_rail: true, ..self }
    }

    /// With the pause that came along in a reply with this status.
    fn after(self, retry_after_seconds: Option<u32>, status: Option<u16>) -> Self {
        let for_all = self.opens_breaker || matches!(status, Some(429 | 503));
        Self { retry_after_seconds, rail_waits: for_all && retry_after_seconds.is_some(), ..self }
    }
}

fn list(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn value(code: &Option<Code>) -> Option<String> {
    code.as_ref().map(|code| code.value.clone())
}

/// The adapter says something that the gate knows to be untrue.
fn lie(heard: &Heard) -> Decision {
    Decision::new(Class::Unknown, ErrorCode::AdapterLied)
        .saying(format!("nothing left, yet the adapter says {heard:?}"))
        .opening_the_breaker()
}
