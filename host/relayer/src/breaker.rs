//! The circuit breaker of a rail: a rail that fails gets no payments for a while, and then a single one. A rail that was just
//! started or resumed begins with a single payment too. What is wrong with it costs one payment and not all of them.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::breaker_state::{BreakerState, Grants, RailSignal, next};
use crate::refusals::Refusals;
use faults::{self, Guard};
use verdict::pace::BreakerPace;

#[derive(Debug)]
pub(crate) struct Breaker(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    state: BreakerState,
    /// Refusals of requests to pay, since the rail took one.
    at_request: Refusals,
    /// Refusals that questions heard, since a payment was paid.
    at_question: Refusals,
    /// Until a person resumes it the rail is given nothing, whatever is heard meanwhile.
    stopped: bool,
}

impl Inner {
    fn beginning() -> Self {
        let state = match faults::is_left_out(Guard::BeginsWithOne) {
            false => BreakerState::Beginning { one_is_out: false },
            true => BreakerState::Closed { ended: 0, failed: 0 },
        };
        Self { state, at_request: Refusals::default(), at_question: Refusals::default(), stopped: false }
    }

    fn somebody_was_paid(&mut self) {
        self.at_request.end();
        self.at_question.end();
    }
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inner::beginning()))
    }

    /// Nothing more, until it begins again.
    pub(crate) fn stop(&self) {
        self.inner().stopped = true;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.inner().stopped
    }

    /// A person resumes it: with one payment, as after a start.
    pub(crate) fn begin_again(&self) {
        *self.inner() = Inner::beginning();
    }

    /// Something on our side is in order again: where nothing else is against it, it goes on with one payment.
    pub(crate) fn begin_with_one(&self) {
        let mut inner = self.inner();
        if matches!(inner.state, BreakerState::Closed { .. }) {
            inner.state = BreakerState::Beginning { one_is_out: false };
        }
    }

    pub(crate) fn grants(&self, now: Instant) -> Grants {
        let inner = self.inner();
        match inner.stopped {
            true => Grants::None,
            false => inner.state.grants(now),
        }
    }

    /// A ticket if a payment may be sent now. After a pause the first payment that asks is the probe.
    pub(crate) fn admit(&self, now: Instant) -> Option<Ticket<'_>> {
        let mut inner = self.inner();
        let probe = match inner.state {
            _ if inner.stopped => return None,
            BreakerState::Closed { .. } => false,
            BreakerState::Open { until, bad_probes } if now >= until => {
                inner.state = BreakerState::Probing { bad_probes };
                true
            }
            BreakerState::Beginning { one_is_out: false } => {
                inner.state = BreakerState::Beginning { one_is_out: true };
                true
            }
            BreakerState::Open { .. } | BreakerState::Probing { .. } | BreakerState::Beginning { .. } => {
                return None;
            }
        };
        Some(Ticket { breaker: self, probe })
    }

    /// What a question brought. It is no probe, but what it says about the rail counts. True if this opened the breaker.
    pub(crate) fn heard(&self, sign: RailSignal, pace: &BreakerPace, now: Instant) -> bool {
        match sign {
            // A question that fails says little about the rail, and one that succeeds does not say that the rail pays.
            RailSignal::Good => {
                self.inner().somebody_was_paid();
                false
            }
            RailSignal::Accepted | RailSignal::Bad => false,
            RailSignal::Refused(refusal) => {
                let speaks_of_rail = self.inner().at_question.saw(&refusal);
                speaks_of_rail && self.saw(RailSignal::Hold(None), false, pace, now)
            }
            RailSignal::Hold(_) => self.saw(sign, false, pace, now),
        }
    }

    fn saw(&self, sign: RailSignal, probe: bool, pace: &BreakerPace, now: Instant) -> bool {
        let mut inner = self.inner();
        let sign = match sign {
            RailSignal::Refused(refusal) if inner.at_request.saw(&refusal) => RailSignal::Hold(None),
            RailSignal::Good => {
                inner.somebody_was_paid();
                RailSignal::Good
            }
            RailSignal::Accepted => {
                inner.at_request.end();
                RailSignal::Good
            }
            other => other,
        };
        let was_open = matches!(inner.state, BreakerState::Open { .. });
        inner.state = next(inner.state, &sign, probe, pace, now);
        matches!(inner.state, BreakerState::Open { .. }) && !was_open
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to send one payment. If it is dropped without a sign, because nothing was sent after all, the next payment is the
/// probe.
#[derive(Debug)]
pub(crate) struct Ticket<'b> {
    breaker: &'b Breaker,
    probe: bool,
}

impl Ticket<'_> {
    /// True if this sign opened the breaker.
    pub(crate) fn saw(mut self, sign: RailSignal, pace: &BreakerPace, now: Instant) -> bool {
        let opened = self.breaker.saw(sign, self.probe, pace, now);
        self.probe = false;
        opened
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut inner = self.breaker.inner();
        // A question may have opened it meanwhile.
        if self.probe {
            match inner.state {
                BreakerState::Probing { bad_probes } => {
                    inner.state = BreakerState::Open { until: Instant::now(), bad_probes }
                }
                BreakerState::Beginning { .. } => inner.state = BreakerState::Beginning { one_is_out: false },
                BreakerState::Closed { .. } | BreakerState::Open { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::breaker_state::ASKED_FOR_MAX;
    use crate::refusals::{PAYEES_MAX, RailRefusal};

    const PACE: BreakerPace = BreakerPace { calls_min: 4, failed_percent: 50, open_ms: 1_000 };

    /// One whose rail has paid before.
    fn breaker() -> (Breaker, Instant) {
        let (breaker, now) = (Breaker::new(), Instant::now());
        assert!(!call(&breaker, RailSignal::Good, now));
        (breaker, now)
    }

    fn refusal(code: &str, payee: &str, participant: &str) -> RailSignal {
        RailSignal::Refused(RailRefusal::new(code, payee, participant))
    }

    fn call(breaker: &Breaker, sign: RailSignal, now: Instant) -> bool {
        breaker.admit(now).expect("it may be sent").saw(sign, &PACE, now)
    }

    #[test]
    fn a_float_that_is_back_ends_no_stop_and_no_pause() {
        let (closed, now) = breaker();
        closed.begin_with_one();
        assert_eq!(closed.grants(now), Grants::One, "it goes on with one payment");
        let (open, now) = breaker();
        open.heard(RailSignal::Hold(None), &PACE, now);
        open.begin_with_one();
        assert_eq!(open.grants(now), Grants::None, "what the rail asked for counts");
        let (stopped, now) = breaker();
        stopped.stop();
        stopped.begin_with_one();
        assert_eq!(stopped.grants(now), Grants::None, "only a person goes on");
    }

    #[test]
    fn it_opens_when_half_of_the_calls_fail_and_closes_after_one_good_probe() {
        let (breaker, now) = breaker();
        for sign in [RailSignal::Good, RailSignal::Bad, RailSignal::Good] {
            assert!(!call(&breaker, sign, now));
        }
        assert!(call(&breaker, RailSignal::Bad, now), "two of four");
        assert_eq!(breaker.grants(now), Grants::None);
        assert!(breaker.admit(now).is_none());
        let later = now + Duration::from_secs(1);
        assert_eq!(breaker.grants(later), Grants::One);
        let probe = breaker.admit(later).expect("one may try");
        assert!(
            breaker.admit(later).is_none() && breaker.grants(later) == Grants::None,
            "one probe at a time"
        );
        assert!(!probe.saw(RailSignal::Good, &PACE, later));
        assert_eq!(breaker.grants(later), Grants::All);
    }

    #[test]
    fn a_bad_probe_opens_it_again_and_stragglers_change_nothing() {
        let (breaker, now) = breaker();
        let (straggler, another) = (breaker.admit(now).expect("closed"), breaker.admit(now).expect("closed"));
        assert!(breaker.heard(RailSignal::Hold(None), &PACE, now), "one is enough");
        assert!(!straggler.saw(RailSignal::Good, &PACE, now));
        assert_eq!(breaker.grants(now), Grants::None);
        let later = now + Duration::from_secs(1);
        let probe = breaker.admit(later).expect("one may try");
        assert!(!another.saw(RailSignal::Good, &PACE, later));
        assert_eq!(breaker.grants(later), Grants::None, "only the probe closes it");
        assert!(probe.saw(RailSignal::Bad, &PACE, later));
        assert_eq!(breaker.grants(later), Grants::None);
        assert_eq!(breaker.grants(later + Duration::from_secs(2)), Grants::One);
    }

    #[test]
    fn each_bad_probe_doubles_the_pause_up_to_a_limit_and_a_good_one_ends_that() {
        let (breaker, mut now) = breaker();
        let mut pauses = Vec::new();
        breaker.heard(RailSignal::Hold(None), &PACE, now);
        let hold = RailSignal::Hold(None);
        for sign in [
            RailSignal::Bad,
            hold.clone(),
            RailSignal::Bad,
            hold.clone(),
            RailSignal::Bad,
            hold,
            RailSignal::Good,
        ] {
            let asked = now;
            while breaker.grants(now) == Grants::None {
                now += Duration::from_secs(1);
            }
            pauses.push((now - asked).as_secs());
            call(&breaker, sign, now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
        assert_eq!(breaker.grants(now), Grants::All);
        assert!(breaker.heard(RailSignal::Hold(None), &PACE, now));
        assert_eq!(breaker.grants(now + Duration::from_secs(1)), Grants::One, "all is forgotten");
    }

    #[test]
    fn what_questions_hear_keeps_it_open_and_is_no_bad_probe() {
        let (breaker, now) = breaker();
        for _ in 0..9 {
            breaker.heard(RailSignal::Hold(None), &PACE, now);
        }
        assert_eq!(breaker.grants(now + Duration::from_secs(1)), Grants::One);
    }

    #[test]
    fn a_probe_that_was_not_sent_leaves_the_place_to_the_next() {
        let (breaker, now) = breaker();
        breaker.heard(RailSignal::Hold(None), &PACE, now);
        let later = now + Duration::from_secs(1);
        drop(breaker.admit(later).expect("one may try"));
        assert!(breaker.admit(Instant::now() + Duration::from_secs(2)).is_some());
    }

    #[test]
    fn few_failures_among_many_calls_are_life() {
        let (breaker, now) = breaker();
        for _ in 0..10 {
            for sign in [RailSignal::Good, RailSignal::Good, RailSignal::Bad, RailSignal::Good] {
                assert!(!call(&breaker, sign, now));
            }
        }
        assert_eq!(breaker.grants(now), Grants::All);
    }

    #[test]
    fn a_rail_begins_with_one_payment_and_goes_on_when_that_is_paid() {
        let (breaker, now) = (Breaker::new(), Instant::now());
        assert_eq!(breaker.grants(now), Grants::One);
        let first = breaker.admit(now).expect("one may try");
        assert!(breaker.grants(now) == Grants::None && breaker.admit(now).is_none(), "one at a time");
        first.saw(RailSignal::Good, &PACE, now);
        assert_eq!(breaker.grants(now), Grants::All);
        breaker.begin_again();
        assert_eq!(breaker.grants(now), Grants::One, "also when a person resumes it");
        drop(breaker.admit(now).expect("one may try"));
        assert_eq!(breaker.grants(now), Grants::One, "nothing was sent after all");
    }

    #[test]
    fn a_rail_that_begins_with_refusals_is_given_one_payment_at_a_time() {
        let (breaker, now) = (Breaker::new(), Instant::now());
        for n in 0..5 {
            assert_eq!(breaker.grants(now), Grants::One);
            call(&breaker, refusal("CLOSED", &format!("payee {n}"), "one and the same"), now);
        }
        call(&breaker, RailSignal::Good, now);
        assert_eq!(breaker.grants(now), Grants::All);
    }

    #[test]
    fn a_rail_that_refuses_everybody_is_left_alone() {
        let (breaker, now) = breaker();
        let mut refused = 0;
        while breaker.grants(now) == Grants::All {
            let participant = format!("participant {}", refused % 3);
            call(&breaker, refusal("CLOSED", &format!("payee {refused}"), &participant), now);
            refused += 1;
            assert!(refused < 100, "it is never left alone");
        }
        assert_eq!(refused, PAYEES_MAX);
        let later = now + Duration::from_secs(1);
        assert!(call(&breaker, refusal("CLOSED", "yet another", "another"), later), "it goes on");
        assert_eq!(breaker.grants(later + Duration::from_millis(1_999)), Grants::None, "twice as long");
        call(&breaker, RailSignal::Good, later + Duration::from_secs(2));
        assert_eq!(breaker.grants(later), Grants::All);
    }

    #[test]
    fn refusals_that_questions_hear_count_too_and_a_payment_ends_their_run() {
        let (breaker, now) = breaker();
        let refuse =
            |n: usize| breaker.heard(refusal("CLOSED", &n.to_string(), &(n % 2).to_string()), &PACE, now);
        let most = PAYEES_MAX - 1;
        assert!((0..most).all(|n| !refuse(n)));
        breaker.heard(RailSignal::Good, &PACE, now);
        assert!((0..most).all(|n| !refuse(n)), "it begins anew");
        assert!(refuse(most));
    }

    #[test]
    fn payments_that_a_rail_only_took_do_not_end_a_run_of_refusals_that_questions_hear() {
        let (breaker, now) = breaker();
        let most = PAYEES_MAX;
        for n in 0..most {
            assert_eq!(breaker.grants(now), Grants::All);
            call(&breaker, RailSignal::Accepted, now);
            breaker.heard(refusal("CLOSED", &n.to_string(), &(n % 2).to_string()), &PACE, now);
        }
        assert_eq!(breaker.grants(now), Grants::None);
    }

    #[test]
    fn a_rail_that_takes_payments_between_its_refusals_is_not_left_alone() {
        let (breaker, now) = breaker();
        for n in 0..100 {
            call(&breaker, refusal("NO_PAYEE", &n.to_string(), &(n % 2).to_string()), now);
            call(&breaker, RailSignal::Accepted, now);
        }
        assert_eq!(breaker.grants(now), Grants::All);
    }

    #[test]
    fn a_stopped_rail_is_given_nothing_until_it_begins_again_whatever_is_heard_meanwhile() {
        let (breaker, now) = breaker();
        let straggler = breaker.admit(now).expect("closed");
        breaker.stop();
        let day = now + Duration::from_secs(86_400);
        straggler.saw(RailSignal::Good, &PACE, now);
        breaker.heard(RailSignal::Good, &PACE, now);
        assert!(breaker.grants(day) == Grants::None && breaker.admit(day).is_none());
        breaker.begin_again();
        assert_eq!(breaker.grants(now), Grants::One);
    }

    #[test]
    fn a_rail_that_asks_for_a_pause_gets_it_within_reason() {
        let (breaker, now) = breaker();
        call(&breaker, RailSignal::Hold(Some(Duration::from_secs(120))), now);
        assert_eq!(breaker.grants(now + Duration::from_secs(119)), Grants::None);
        assert_eq!(breaker.grants(now + Duration::from_secs(120)), Grants::One);
        let (breaker, now) = self::breaker();
        call(&breaker, RailSignal::Hold(Some(Duration::from_secs(86_400))), now);
        assert_eq!(breaker.grants(now + ASKED_FOR_MAX), Grants::One, "but not for a day");
    }
}
