//! An attempt, judged: what is known of the payment now, and what that means for its rail.

use form::{Meaning, Reading, Veto};

use payment::{Destination, Violation};

use crate::error_code::ErrorCode;

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
    /// What is known of the payment. What comes next depends on it.
    pub class: Class,
    /// Why it is no plain success. None where the rail paid as instructed.
    pub error_code: Option<ErrorCode>,
    /// The rail's code that decided, as the rail wrote it. None where none did.
    pub rail_code: Option<String>,
    /// The rail's own name for the payment. None where its reply gave none.
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

impl Decision {
    pub(crate) fn new(class: Class, error_code: ErrorCode) -> Self {
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

    pub(crate) fn success(reading: &Reading) -> Self {
        let decision = Self {
            opens_breaker: false,
            stops_rail: false,
            ..Self::new(Class::Success, ErrorCode::EchoDiffers)
        };
        match reading.differs.is_empty() {
            true => Self { error_code: None, ..decision },
            false => decision.saying(format!("the rail reports a different {}", reading.differs.join(", "))),
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

    /// It was not tried: something of ours is not in order.
    pub fn on_hold(why: &str, wait_seconds: u32) -> Self {
        let decision = Self::new(Class::Hold, ErrorCode::OnHold).saying(why);
        Self { opens_breaker: false, retry_after_seconds: Some(wait_seconds), ..decision }
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

    pub(crate) fn saying(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    /// With the rail's own words: its code and its name for the payment.
    pub(crate) fn with(self, reading: &Reading) -> Self {
        let code = reading.code.as_ref();
        let said = |code: &form::Code| format!("the rail says {} {}", code.field, code.value);
        Self {
            rail_code: code.map(|code| code.value.clone()),
            rail_reference: reading.reference.clone(),
            message: self
                .message
                .filter(|message| !message.is_empty())
                .or_else(|| code.filter(|_| self.class != Class::Success).map(said)),
            ..self
        }
    }

    pub(crate) fn opening_the_breaker(self) -> Self {
        Self { opens_breaker: true, ..self }
    }

    pub(crate) fn stopping_the_rail(self) -> Self {
        Self { opens_breaker: true, stops_rail: true, ..self }
    }

    /// With the pause that came along in a reply with this status.
    pub(crate) fn after(self, retry_after_seconds: Option<u32>, status: Option<u16>) -> Self {
        let for_all = self.opens_breaker || matches!(status, Some(429 | 503));
        Self { retry_after_seconds, rail_waits: for_all && retry_after_seconds.is_some(), ..self }
    }
}

pub(crate) fn list(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The host reads a verdict that the adapter does not confirm.
pub(crate) fn vetoed(reading: &Reading, error_code: ErrorCode) -> Option<Decision> {
    let theirs = match reading.veto? {
        Veto::Opposite => "the opposite",
        Veto::Doubt => "does not confirm it",
    };
    let why = format!("the host reads {} and the adapter {theirs}", reading.side().as_str());
    // What is ours to mend stays so: a veto must not keep the rail going.
    let (holds, stops) = (reading.meaning == Some(Meaning::Hold), reading.meaning == Some(Meaning::Stop));
    let decision = Decision::new(Class::Unknown, error_code).saying(why).with(reading);
    Some(Decision { opens_breaker: holds || stops, stops_rail: stops, ..decision })
}
