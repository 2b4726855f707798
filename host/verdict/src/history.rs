//! What is known of a payment from before, as the claim tells it.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use uuid::Uuid;

use crate::error_code::ErrorCode;

#[derive(Debug, Clone, Default, Deserialize)]
pub struct History {
    pub attempts: Vec<Attempt>,
    pub late_answers: Vec<LateAnswer>,
    /// What was read in replies for later requests.
    #[serde(default)]
    pub captured: BTreeMap<String, String>,
    /// It met a rail that took none, which left no attempt behind.
    #[serde(skip)]
    pub was_held: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Attempt {
    pub state: String,
    pub claimed_at: DateTime<Utc>,
    pub completed_at: DateTime<Utc>,
    pub error_code: Option<String>,
    pub rail_code: Option<String>,
    pub adapter_digest: Option<String>,
    /// Of the lease under which it was made.
    pub lease_token: Option<Uuid>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct LateAnswer {
    pub state: String,
    pub money_moved: String,
    pub rail_reference: Option<String>,
    pub rail_code: Option<String>,
    pub error_code: Option<String>,
    /// Of the lease that it came too late for.
    pub lease_token: Option<Uuid>,
    /// It speaks of all that was sent under the key, as the answer to a question does: a signed callback.
    #[serde(default)]
    pub of_key: bool,
}

/// What was written about an attempt after which nothing can have been on its way to execution.
const NOT_EXECUTED: [ErrorCode; 9] = [
    ErrorCode::QueryFailed,
    ErrorCode::NotFound,
    ErrorCode::NotSent,
    ErrorCode::TokenRefused,
    ErrorCode::OnHold,
    ErrorCode::Stopped,
    ErrorCode::RailDeclined,
    ErrorCode::InvalidPayload,
    ErrorCode::RefusedLocally,
];

impl Attempt {
    /// A byte of the payment, that is: a question carries none.
    fn may_have_left(&self) -> bool {
        let stayed = [
            ErrorCode::NotSent,
            ErrorCode::InvalidPayload,
            ErrorCode::RefusedLocally,
            ErrorCode::QueryFailed,
            ErrorCode::NotFound,
        ];
        !stayed.iter().any(|code| is(&self.error_code, *code))
    }

    /// What a dead host did nobody knows.
    fn may_have_paid(&self) -> bool {
        !NOT_EXECUTED.iter().any(|code| is(&self.error_code, *code))
    }
}

fn is(error_code: &Option<String>, code: ErrorCode) -> bool {
    error_code.as_deref() == Some(code.as_str())
}

impl History {
    /// The rail spoke of it as its own, or gave its last word, whether or not the adapter bore it out: the key is never sent again.
    pub fn key_is_burnt(&self) -> bool {
        let spoke = [ErrorCode::RailPending, ErrorCode::AdapterVeto];
        self.attempts.iter().any(|attempt| spoke.iter().any(|code| is(&attempt.error_code, *code)))
            || self.late_answers.iter().any(|late| {
                is(&late.error_code, ErrorCode::RailPending)
                    || late.state == "FAILED" && is(&late.error_code, ErrorCode::RailDeclined)
            })
    }

    /// Attempts that were questions.
    pub fn questions(&self) -> i32 {
        let asked = |attempt: &&Attempt| {
            is(&attempt.error_code, ErrorCode::QueryFailed) || is(&attempt.error_code, ErrorCode::NotFound)
        };
        self.attempts.iter().filter(asked).count() as i32
    }

    /// How often in a row the host has read this code last, and its adapter did not bear it out.
    pub fn vetoes(&self, rail_code: Option<&str>) -> usize {
        let equal = |attempt: &&Attempt| {
            is(&attempt.error_code, ErrorCode::AdapterVeto) && attempt.rail_code.as_deref() == rail_code
        };
        self.attempts.iter().rev().take_while(equal).count()
    }

    /// A byte of it may have left, whatever was said of it.
    pub fn may_have_left(&self) -> bool {
        self.was_held || self.attempts.iter().any(Attempt::may_have_left)
    }

    pub fn may_have_paid(&self) -> bool {
        self.first_sent_at().is_some()
    }

    pub fn first_sent_at(&self) -> Option<DateTime<Utc>> {
        self.attempts.iter().filter(|attempt| attempt.may_have_paid()).map(|attempt| attempt.claimed_at).min()
    }

    /// The lease of the last one that may have sent something had ended by then.
    pub fn last_sent_by(&self) -> Option<DateTime<Utc>> {
        self.attempts
            .iter()
            .filter(|attempt| attempt.may_have_paid())
            .map(|attempt| attempt.completed_at)
            .max()
    }

    /// For how long it lay with a host that lost it, where the last attempt ended that way.
    pub fn recovered_after(&self, claimed_at: DateTime<Utc>) -> Option<TimeDelta> {
        let last = self.attempts.last().filter(|attempt| attempt.state == "ZOMBIE_REQUEUE")?;
        Some(claimed_at - last.claimed_at)
    }

    /// The component that sent it, for a question about it.
    pub fn sender(&self) -> Option<&str> {
        self.attempts.iter().rev().find_map(|attempt| attempt.adapter_digest.as_deref())
    }

    /// What came too late for its own lease and is final; a yes before a no. A no speaks of its own attempt alone: where
    /// another one may have paid, it settles nothing.
    pub fn settled_late(&self) -> Option<Late<'_>> {
        let paid = self.late_answers.iter().find(|late| late.state == "DISPATCHED");
        let refused = self
            .late_answers
            .iter()
            .find(|late| late.state == "FAILED" && (late.of_key || late.money_moved == "no"));
        match (paid, refused) {
            (Some(_), Some(_)) => Some(Late::Contradiction),
            (Some(paid), None) => Some(Late::Paid(paid)),
            (None, Some(refused)) if !self.another_may_have_paid(refused) => Some(Late::Refused(refused)),
            (None, _) => None,
        }
    }

    /// Besides the attempt that this answer belongs to, which its token names. A callback names none: it may be about any attempt
    /// of which a byte left, and an old one may come long after a newer attempt.
    fn another_may_have_paid(&self, late: &LateAnswer) -> bool {
        let mut sent = self.attempts.iter().filter(|attempt| attempt.may_have_paid());
        match late.lease_token {
            _ if late.of_key => self.attempts.iter().filter(|attempt| attempt.may_have_left()).count() > 1,
            Some(_) => sent.any(|attempt| attempt.lease_token != late.lease_token),
            None => sent.count() > 1,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Late<'h> {
    Paid(&'h LateAnswer),
    Refused(&'h LateAnswer),
    /// The rail said both.
    Contradiction,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const OWN: &str = "00000000-0000-4000-8000-000000000001";
    const OTHER: &str = "00000000-0000-4000-8000-000000000002";

    fn attempt(state: &str, code: &str, token: Option<&str>) -> Value {
        let at = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
        json!({ "state": state, "claimed_at": at, "completed_at": at, "error_code": code, "lease_token": token })
    }

    /// After a final no that came too late for its lease.
    fn is_settled(attempts: &[&Value], token: Option<&str>) -> bool {
        let late = json!([{ "state": "FAILED", "money_moved": "no", "error_code": "RAIL_DECLINED", "lease_token": token }]);
        let history: History =
            serde_json::from_value(json!({ "attempts": attempts, "late_answers": late })).expect("a history");
        matches!(history.settled_late(), Some(Late::Refused(_)))
    }

    #[test]
    fn a_late_no_settles_its_own_attempt_and_what_cannot_have_paid() {
        let own = attempt("ZOMBIE_REQUEUE", "LEASE_EXPIRED", Some(OWN));
        let unsent = attempt("RETRYABLE", "NOT_SENT", Some(OTHER));
        assert!(is_settled(&[&own], Some(OWN)));
        assert!(is_settled(&[&unsent, &own], Some(OWN)));
    }

    #[test]
    fn a_late_no_does_not_settle_what_another_attempt_may_have_paid() {
        let own = attempt("ZOMBIE_REQUEUE", "LEASE_EXPIRED", Some(OWN));
        let lost = attempt("ZOMBIE_REQUEUE", "LEASE_EXPIRED", Some(OTHER));
        let unheard = attempt("RETRYABLE", "OUTCOME_UNKNOWN", Some(OTHER));
        assert!(!is_settled(&[&own, &lost], Some(OWN)));
        assert!(!is_settled(&[&unheard, &own], Some(OWN)));
        assert!(!is_settled(&[&lost], Some(OWN)), "the one that may have paid is another");
    }

    #[test]
    fn a_signed_no_settles_what_was_sent_once_and_no_more() {
        let lost = attempt("ZOMBIE_REQUEUE", "LEASE_EXPIRED", Some(OTHER));
        let retryable = attempt("RETRYABLE", "RAIL_DECLINED", Some(OTHER));
        let asked = attempt("RETRYABLE", "QUERY_FAILED", Some(OTHER));
        let settled = |attempts: &[&Value], money_moved: &str, of_key: bool| {
            let late = json!([{ "state": "FAILED", "money_moved": money_moved, "lease_token": OWN, "of_key": of_key }]);
            let history: History =
                serde_json::from_value(json!({ "attempts": attempts, "late_answers": late }))
                    .expect("a history");
            matches!(history.settled_late(), Some(Late::Refused(_)))
        };
        assert!(settled(&[&lost], "no", true) && settled(&[&lost, &asked], "unknown", true));
        assert!(!settled(&[&lost], "no", false) && !settled(&[&lost], "unknown", false));
        assert!(
            !settled(&[&retryable, &lost], "no", true),
            "it may be about the first, and the second may be paid"
        );
    }

    #[test]
    fn without_tokens_a_late_no_settles_only_where_one_attempt_may_have_paid() {
        let lost = attempt("ZOMBIE_REQUEUE", "LEASE_EXPIRED", None);
        assert!(is_settled(&[&lost], None));
        assert!(!is_settled(&[&lost, &lost], None));
    }
}
