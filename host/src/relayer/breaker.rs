//! Leaves a rail alone that fails, and tries it again with a single payment.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::rail::pace::BreakerPace;

#[derive(Debug)]
pub(super) struct Breaker(Mutex<State>);

impl Default for Breaker {
    fn default() -> Self {
        Self(Mutex::new(State::Closed { ended: 0, failed: 0 }))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Calls that ended since the last look, and how many of them failed.
    Closed {
        ended: u32,
        failed: u32,
    },
    Open {
        until: Instant,
    },
    /// One payment is out to see how things are.
    Probing,
}

/// What a rail may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grants {
    All,
    One,
    None,
}

/// How a call went, for the rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Good,
    Bad,
    /// No need to see more.
    Hold,
}

impl Breaker {
    pub(super) fn grants(&self, now: Instant) -> Grants {
        match *self.state() {
            State::Closed { .. } => Grants::All,
            State::Open { until } if now >= until => Grants::One,
            State::Open { .. } | State::Probing => Grants::None,
        }
    }

    /// A ticket if a payment may be sent now. After a pause the first that asks is the probe.
    pub(super) fn admit(&self, now: Instant) -> Option<Ticket<'_>> {
        let mut state = self.state();
        let probe = match *state {
            State::Closed { .. } => false,
            State::Open { until } if now >= until => {
                *state = State::Probing;
                true
            }
            State::Open { .. } | State::Probing => return None,
        };
        Some(Ticket { breaker: self, probe })
    }

    /// One is enough. True if it was not open already.
    pub(super) fn trip(&self, pace: &BreakerPace, now: Instant) -> bool {
        self.saw(Sign::Hold, true, pace, now)
    }

    fn saw(&self, sign: Sign, probe: bool, pace: &BreakerPace, now: Instant) -> bool {
        let mut state = self.state();
        let open = State::Open { until: now + Duration::from_millis(pace.open_ms.into()) };
        let next = match (*state, sign) {
            (_, Sign::Hold) => open,
            (State::Open { until }, _) => State::Open { until },
            (State::Probing, _) if !probe => State::Probing,
            (State::Probing, Sign::Bad) => open,
            (State::Probing, Sign::Good) => State::Closed { ended: 0, failed: 0 },
            (State::Closed { ended, failed }, sign) => {
                let (ended, failed) = (ended + 1, failed + u32::from(sign == Sign::Bad));
                match ended >= pace.calls_min {
                    true if failed * 100 >= ended * pace.failed_percent => open,
                    true => State::Closed { ended: 0, failed: 0 },
                    false => State::Closed { ended, failed },
                }
            }
        };
        let opened = matches!(next, State::Open { .. }) && !matches!(*state, State::Open { .. });
        *state = next;
        opened
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to send one payment. Dropped without a sign, as when nothing was sent after all, it leaves the probe to the next.
#[derive(Debug)]
pub(super) struct Ticket<'b> {
    breaker: &'b Breaker,
    probe: bool,
}

impl Ticket<'_> {
    /// True if this sign opened the breaker.
    pub(super) fn saw(mut self, sign: Sign, pace: &BreakerPace, now: Instant) -> bool {
        let opened = self.breaker.saw(sign, self.probe, pace, now);
        self.probe = false;
        opened
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.breaker.state();
        // A question may have opened it meanwhile.
        if self.probe && *state == State::Probing {
            *state = State::Open { until: Instant::now() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: BreakerPace = BreakerPace { calls_min: 4, failed_percent: 50, open_ms: 1_000 };

    fn breaker() -> (Breaker, Instant) {
        (Breaker::default(), Instant::now())
    }

    fn call(breaker: &Breaker, sign: Sign, now: Instant) -> bool {
        breaker.admit(now).expect("it may be sent").saw(sign, &PACE, now)
    }

    #[test]
    fn it_opens_when_half_of_the_calls_fail_and_closes_after_one_good_probe() {
        let (breaker, now) = breaker();
        for sign in [Sign::Good, Sign::Bad, Sign::Good] {
            assert!(!call(&breaker, sign, now));
        }
        assert!(call(&breaker, Sign::Bad, now), "two of four");
        assert_eq!(breaker.grants(now), Grants::None);
        assert!(breaker.admit(now).is_none());
        let later = now + Duration::from_secs(1);
        assert_eq!(breaker.grants(later), Grants::One);
        let probe = breaker.admit(later).expect("one may try");
        assert!(
            breaker.admit(later).is_none() && breaker.grants(later) == Grants::None,
            "one probe at a time"
        );
        assert!(!probe.saw(Sign::Good, &PACE, later));
        assert_eq!(breaker.grants(later), Grants::All);
    }

    #[test]
    fn a_bad_probe_opens_it_again_and_stragglers_change_nothing() {
        let (breaker, now) = breaker();
        let (straggler, another) = (breaker.admit(now).expect("closed"), breaker.admit(now).expect("closed"));
        assert!(breaker.trip(&PACE, now), "one is enough");
        assert!(!straggler.saw(Sign::Good, &PACE, now));
        assert_eq!(breaker.grants(now), Grants::None);
        let later = now + Duration::from_secs(1);
        let probe = breaker.admit(later).expect("one may try");
        assert!(!another.saw(Sign::Good, &PACE, later));
        assert_eq!(breaker.grants(later), Grants::None, "only the probe closes it");
        assert!(probe.saw(Sign::Bad, &PACE, later));
        assert_eq!(breaker.grants(later), Grants::None);
        assert_eq!(breaker.grants(later + Duration::from_secs(1)), Grants::One);
    }

    #[test]
    fn a_probe_that_was_not_sent_leaves_the_place_to_the_next() {
        let (breaker, now) = breaker();
        breaker.trip(&PACE, now);
        let later = now + Duration::from_secs(1);
        drop(breaker.admit(later).expect("one may try"));
        assert!(breaker.admit(Instant::now() + Duration::from_secs(2)).is_some());
    }

    #[test]
    fn few_failures_among_many_calls_are_life() {
        let (breaker, now) = breaker();
        for _ in 0..10 {
            for sign in [Sign::Good, Sign::Good, Sign::Bad, Sign::Good] {
                assert!(!call(&breaker, sign, now));
            }
        }
        assert_eq!(breaker.grants(now), Grants::All);
    }
}
