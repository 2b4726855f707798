//! Shorter ways to say what was learned.

use crate::http::Failure;
use crate::{Answer, Declined, Pending, RailCode, Settled, Unclear, Violation};

/// The contract's limit.
const CODE_CHARS_MAX: usize = 256;

impl RailCode {
    pub fn new(field: &str, value: impl Into<String>) -> Self {
        Self { field: field.to_owned(), value: value.into() }
    }

    /// As the contract takes it: a text that is empty or endless is no code, and must not spoil the answer.
    fn kept(self) -> Option<Self> {
        (1..=CODE_CHARS_MAX).contains(&self.value.chars().count()).then_some(self)
    }
}

impl Answer {
    pub fn settled(reference: impl Into<String>, code: Option<RailCode>) -> Self {
        Self::Settled(Settled { reference: reference.into(), code: code.and_then(RailCode::kept) })
    }

    pub fn pending(reference: Option<String>, code: Option<RailCode>) -> Self {
        Self::Pending(Pending { reference, code: code.and_then(RailCode::kept) })
    }

    pub fn declined(code: Option<RailCode>, message: impl Into<String>) -> Self {
        Self::Declined(Declined { code: code.and_then(RailCode::kept), message: message.into() })
    }

    pub fn unclear(code: Option<RailCode>, detail: impl Into<String>) -> Self {
        Self::Unclear(Unclear { code: code.and_then(RailCode::kept), detail: detail.into() })
    }

    /// What a request to pay means when it brought no reply: `not-sent` where nothing left, `unclear` otherwise.
    pub fn of_failed_disburse(failure: Failure) -> Self {
        match failure {
            Failure::Denied(why) | Failure::NotSent(why) => Self::NotSent(why),
            Failure::MaybeSent(why) | Failure::Limit(why) => Self::unclear(None, why),
        }
    }

    /// What a question means when it brought no reply: nothing was learned.
    pub fn of_failed_query(failure: Failure) -> Self {
        let (Failure::Denied(why) | Failure::NotSent(why) | Failure::MaybeSent(why) | Failure::Limit(why)) =
            failure;
        Self::unclear(None, why)
    }
}

impl Violation {
    pub fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}
