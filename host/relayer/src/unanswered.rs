//! A claim whose answer never came may have leased something all the same. No I/O and no clock.

use std::time::{Duration, Instant};

/// Between two times that this host hands back what such a claim may have leased.
const HAND_BACK_EVERY: Duration = Duration::from_secs(1);

/// What such a claim leased goes back before the next claim, by a commit that is known to hold. What was never brought to us was
/// not sent to anybody. The server may not have been told to cancel the claim. Then the claim may take effect later still: this
/// host hands back again and again, until what it could have leased has ended anyway.
#[derive(Debug, Default)]
pub(crate) struct UnansweredClaim {
    until: Option<Instant>,
    handed_back_at: Option<Instant>,
}

impl UnansweredClaim {
    /// A claim failed. `longest_lease` is the longest that it could have taken.
    pub(crate) fn begins(&mut self, longest_lease: Duration, now: Instant) {
        *self = Self { until: Some(now + longest_lease), handed_back_at: None };
    }

    /// It is time to hand back.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < HAND_BACK_EVERY;
        self.until.is_some() && !self.handed_back_at.is_some_and(is_recent)
    }

    /// All that it had leased by now is handed back.
    pub(crate) fn handed_back(&mut self, now: Instant) {
        self.handed_back_at = Some(now);
        self.until = self.until.filter(|until| now < *until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(45);

    #[test]
    fn while_every_claim_is_answered_nothing_is_handed_back() {
        assert!(!UnansweredClaim::default().is_due(Instant::now()));
    }

    #[test]
    fn what_an_unanswered_claim_may_have_leased_is_handed_back_at_once_and_then_every_second() {
        let (mut claim, now) = (UnansweredClaim::default(), Instant::now());
        claim.begins(LEASE, now);
        assert!(claim.is_due(now));
        assert!(claim.is_due(now), "it was not handed back yet");
        claim.handed_back(now);
        assert!(!claim.is_due(now + HAND_BACK_EVERY - Duration::from_millis(1)));
        assert!(claim.is_due(now + HAND_BACK_EVERY));
    }

    #[test]
    fn it_ends_with_the_first_time_after_the_longest_lease() {
        let (mut claim, now) = (UnansweredClaim::default(), Instant::now());
        claim.begins(LEASE, now);
        claim.handed_back(now + LEASE - Duration::from_millis(1));
        let later = now + LEASE + HAND_BACK_EVERY;
        assert!(claim.is_due(later), "the claim may have taken effect since");
        claim.handed_back(later);
        assert!(!claim.is_due(later + LEASE));
    }

    #[test]
    fn another_claim_without_an_answer_begins_it_anew() {
        let (mut claim, now) = (UnansweredClaim::default(), Instant::now());
        claim.begins(LEASE, now);
        claim.handed_back(now);
        claim.begins(LEASE, now);
        assert!(claim.is_due(now));
    }
}
