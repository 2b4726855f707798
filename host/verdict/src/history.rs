//! What is known of a payment from before, as the claim tells it.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use uuid::Uuid;

use crate::error_code::ErrorCode;
use crate::outcome::{CompletionState, MoneyMoved};

/// All that the database knows of a payment from before this claim. Empty where it was never tried.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct History {
    /// Every earlier attempt, the oldest first.
    pub attempts: Vec<PastAttempt>,
    /// Every answer that came outside of a lease, the oldest first.
    pub late_answers: Vec<LateAnswer>,
    /// What was read in replies for later requests.
    #[serde(default)]
    pub captured: BTreeMap<String, String>,
    /// It met a rail that took none, which left no attempt behind.
    #[serde(skip)]
    pub was_held: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AttemptState {
    /// The rail paid.
    Dispatched,
    /// It was to be tried or asked about again.
    Retryable,
    /// It is over, and no money is known to have moved.
    Failed,
    /// The lease ran out under its holder.
    ZombieRequeue,
}

/// One attempt, as the history has it.
#[derive(Debug, Clone, Deserialize)]
pub struct PastAttempt {
    /// How it ended.
    pub state: AttemptState,
    /// When its lease began, by the database's clock.
    pub claimed_at: DateTime<Utc>,
    /// When its end was written, by the database's clock.
    pub completed_at: DateTime<Utc>,
    /// Why it was no plain success. Where there is none, it counts as one that may have paid.
    pub error_code: Option<ErrorCode>,
    /// The rail's code that decided. None where none did.
    pub rail_code: Option<String>,
    /// SHA-256 of the component that made it, in hexadecimal digits. None where none was written.
    pub adapter_digest: Option<String>,
    /// Of the lease under which it was made.
    pub lease_token: Option<Uuid>,
}

/// An answer that came outside of a lease: a holder's after its lease was lost, or a signed callback.
#[derive(Debug, Clone, Deserialize)]
pub struct LateAnswer {
    /// What it says: `Dispatched` is a yes, `Failed` a no, and `Retryable` settles nothing.
    pub state: CompletionState,
    /// What it says of the money. A no of a holder is final only where this is a plain no.
    pub money_moved: MoneyMoved,
    /// The rail's own name for the payment, if the answer gave one.
    pub rail_reference: Option<String>,
    /// The rail's code that decided. None where none did.
    pub rail_code: Option<String>,
    /// How it was judged. Some codes burn the key: [`History::key_is_burnt`].
    pub error_code: Option<ErrorCode>,
    /// Of the lease that it came too late for; for a callback, made from the digest of its body.
    pub lease_token: Option<Uuid>,
    /// It speaks of all that was sent under the key, as the answer to a question does: a signed callback.
    #[serde(default)]
    pub of_key: bool,
}

impl PastAttempt {
    /// True if a byte of a request that pays may have left in this attempt. A question carries no payment.
    fn may_have_left(&self) -> bool {
        !self.error_code.is_some_and(ErrorCode::did_not_leave)
    }

    /// Nobody knows what a dead host did.
    fn may_have_paid(&self) -> bool {
        !self.error_code.is_some_and(ErrorCode::was_not_executed)
    }

    fn is_question(&self) -> bool {
        matches!(self.error_code, Some(ErrorCode::QueryFailed | ErrorCode::NotFound))
    }
}

impl LateAnswer {
    fn burns_key(&self) -> bool {
        match self.error_code {
            Some(ErrorCode::RailPending | ErrorCode::OfAnotherRelease) => true,
            Some(ErrorCode::RailDeclined) => self.state == CompletionState::Failed,
            _ => false,
        }
    }

    fn is_final_no(&self) -> bool {
        self.state == CompletionState::Failed && (self.of_key || self.money_moved == MoneyMoved::No)
    }
}

impl History {
    /// The rail spoke of it as its own, or gave its last word, whether or not the adapter confirmed it: the key is never sent again.
    pub fn key_is_burnt(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.error_code.is_some_and(ErrorCode::burns_key))
            || self.late_answers.iter().any(LateAnswer::burns_key)
    }

    /// Attempts that were questions.
    pub fn questions(&self) -> i32 {
        self.attempts.iter().filter(|attempt| attempt.is_question()).count() as i32
    }

    /// How often in a row the host has read this code last, and its adapter did not confirm it.
    pub fn vetoes(&self, rail_code: Option<&str>) -> usize {
        let equal = |attempt: &&PastAttempt| {
            attempt.error_code == Some(ErrorCode::AdapterVeto) && attempt.rail_code.as_deref() == rail_code
        };
        self.attempts.iter().rev().take_while(equal).count()
    }

    /// A byte of it may have left, whatever was said of it.
    pub fn may_have_left(&self) -> bool {
        self.was_held || self.attempts.iter().any(PastAttempt::may_have_left)
    }

    /// Whether an attempt may have moved the money: the code of its end does not exclude that.
    pub fn may_have_paid(&self) -> bool {
        self.first_sent_at().is_some()
    }

    /// When the first attempt that may have paid was claimed, if there is one. How long the rail knows the key counts from then.
    pub fn first_sent_at(&self) -> Option<DateTime<Utc>> {
        self.attempts.iter().filter(|attempt| attempt.may_have_paid()).map(|attempt| attempt.claimed_at).min()
    }

    /// When the last attempt that may have paid was over.
    pub fn last_sent_by(&self) -> Option<DateTime<Utc>> {
        self.attempts
            .iter()
            .filter(|attempt| attempt.may_have_paid())
            .map(|attempt| attempt.completed_at)
            .max()
    }

    /// For how long it lay with a host that lost it, where the last attempt ended that way.
    pub fn recovered_after(&self, claimed_at: DateTime<Utc>) -> Option<TimeDelta> {
        let last = self.attempts.last().filter(|attempt| attempt.state == AttemptState::ZombieRequeue)?;
        Some(claimed_at - last.claimed_at)
    }

    /// The component that sent it, for a question about it.
    pub fn sender(&self) -> Option<&str> {
        self.attempts.iter().rev().find_map(|attempt| attempt.adapter_digest.as_deref())
    }

    /// What came too late for its own lease and is final; a yes before a no. A no speaks of its own attempt alone: where
    /// another one may have paid, it settles nothing.
    pub fn settled_late(&self) -> Option<Late<'_>> {
        let paid = self.late_answers.iter().find(|late| late.state == CompletionState::Dispatched);
        let refused = self.late_answers.iter().find(|late| late.is_final_no());
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

/// What the late answers of a payment come to.
#[derive(Debug, Clone, Copy)]
pub enum Late<'h> {
    /// This one says paid, and none is a final no.
    Paid(&'h LateAnswer),
    /// This one is a final no, none says paid, and no other attempt may have paid.
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
