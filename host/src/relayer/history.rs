//! What is known of a payment from before, as the claim tells it.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use crate::outcome::ErrorCode;

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct History {
    pub attempts: Vec<Attempt>,
    pub late_answers: Vec<LateAnswer>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Attempt {
    pub claimed_at: DateTime<Utc>,
    pub completed_at: DateTime<Utc>,
    pub error_code: Option<String>,
    pub adapter_digest: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct LateAnswer {
    pub state: String,
    pub money_moved: String,
    pub rail_reference: Option<String>,
    pub rail_code: Option<String>,
    pub error_code: Option<String>,
}

impl Attempt {
    fn is(&self, code: ErrorCode) -> bool {
        self.error_code.as_deref() == Some(code.as_str())
    }

    /// Something may have left. A question leaves nothing; what a dead host did nobody knows.
    fn may_have_sent(&self) -> bool {
        !self.is(ErrorCode::QueryFailed) && !self.is(ErrorCode::NotFound)
    }
}

impl History {
    /// The rail had it once: it is never sent again.
    pub(super) fn was_pending(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.is(ErrorCode::RailPending))
    }

    pub(super) fn first_sent_at(&self) -> Option<DateTime<Utc>> {
        self.attempts.iter().filter(|attempt| attempt.may_have_sent()).map(|attempt| attempt.claimed_at).min()
    }

    /// The lease of the last one that may have sent something had ended by then.
    pub(super) fn last_sent_by(&self) -> Option<DateTime<Utc>> {
        self.attempts
            .iter()
            .filter(|attempt| attempt.may_have_sent())
            .map(|attempt| attempt.completed_at)
            .max()
    }

    /// The component that sent it, for a question about it.
    pub(super) fn sender(&self) -> Option<&str> {
        self.attempts.iter().rev().find_map(|attempt| attempt.adapter_digest.as_deref())
    }

    /// An answer that came too late for its own lease and is final.
    pub(super) fn settled_late(&self) -> Option<&LateAnswer> {
        self.late_answers.iter().find(|late| {
            matches!((late.state.as_str(), late.money_moved.as_str()), ("DISPATCHED", _) | ("FAILED", "no"))
        })
    }
}
