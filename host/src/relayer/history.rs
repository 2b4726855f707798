//! What is known of a payment from before, as the claim tells it.

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use crate::outcome::ErrorCode;

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct History {
    pub attempts: Vec<Attempt>,
    pub late_answers: Vec<LateAnswer>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Attempt {
    pub state: String,
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

/// What was written about an attempt after which nothing can have been on its way to execution.
const NOT_EXECUTED: [ErrorCode; 7] = [
    ErrorCode::QueryFailed,
    ErrorCode::NotFound,
    ErrorCode::NotSent,
    ErrorCode::OnHold,
    ErrorCode::RailDeclined,
    ErrorCode::InvalidPayload,
    ErrorCode::RefusedLocally,
];

impl Attempt {
    /// What a dead host did nobody knows.
    fn may_have_paid(&self) -> bool {
        !NOT_EXECUTED.iter().any(|code| is(&self.error_code, *code))
    }
}

fn is(error_code: &Option<String>, code: ErrorCode) -> bool {
    error_code.as_deref() == Some(code.as_str())
}

impl History {
    /// The rail spoke of it as its own, or gave its last word: the key is never sent again.
    pub(super) fn key_is_burnt(&self) -> bool {
        self.attempts.iter().any(|attempt| is(&attempt.error_code, ErrorCode::RailPending))
            || self.late_answers.iter().any(|late| {
                is(&late.error_code, ErrorCode::RailPending)
                    || late.state == "FAILED" && is(&late.error_code, ErrorCode::RailDeclined)
            })
    }

    pub(super) fn may_have_paid(&self) -> bool {
        self.first_sent_at().is_some()
    }

    pub(super) fn first_sent_at(&self) -> Option<DateTime<Utc>> {
        self.attempts.iter().filter(|attempt| attempt.may_have_paid()).map(|attempt| attempt.claimed_at).min()
    }

    /// The lease of the last one that may have sent something had ended by then.
    pub(super) fn last_sent_by(&self) -> Option<DateTime<Utc>> {
        self.attempts
            .iter()
            .filter(|attempt| attempt.may_have_paid())
            .map(|attempt| attempt.completed_at)
            .max()
    }

    /// For how long it lay with a host that lost it, where the last attempt ended that way.
    pub(super) fn recovered_after(&self, claimed_at: DateTime<Utc>) -> Option<TimeDelta> {
        let last = self.attempts.last().filter(|attempt| attempt.state == "ZOMBIE_REQUEUE")?;
        Some(claimed_at - last.claimed_at)
    }

    /// The component that sent it, for a question about it.
    pub(super) fn sender(&self) -> Option<&str> {
        self.attempts.iter().rev().find_map(|attempt| attempt.adapter_digest.as_deref())
    }

    /// What came too late for its own lease and is final; a yes before a no.
    pub(super) fn settled_late(&self) -> Option<Late<'_>> {
        let paid = self.late_answers.iter().find(|late| late.state == "DISPATCHED");
        let refused =
            self.late_answers.iter().find(|late| late.state == "FAILED" && late.money_moved == "no");
        match (paid, refused) {
            (Some(_), Some(_)) => Some(Late::Contradiction),
            (Some(paid), None) => Some(Late::Paid(paid)),
            (None, Some(refused)) => Some(Late::Refused(refused)),
            (None, None) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Late<'h> {
    Paid(&'h LateAnswer),
    Refused(&'h LateAnswer),
    /// The rail said both.
    Contradiction,
}
