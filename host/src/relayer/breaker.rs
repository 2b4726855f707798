//! Leaves a rail alone that fails, and tries it again with a single payment.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::rail::pace::BreakerPace;

#[derive(Debug)]
pub(super) struct Breaker {
    pace: BreakerPace,
    state: Mutex<State>,
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
    pub(super) fn new(pace: BreakerPace) -> Self {
        Self { pace, state: Mutex::new(State::Closed { ended: 0, failed: 0 }) }
    }

    pub(super) fn grants(&self, now: Instant) -> Grants {
        match *self.state() {
            State::Closed { .. } => Grants::All,
            State::Open { until } if now >= until => Grants::One,
            State::Open { .. } | State::Probing => Grants::None,
        }
    }

    /// Whether a payment may be sent now. After a pause the first that asks is the probe.
    pub(super) fn admit(&self, now: Instant) -> bool {
        let mut state = self.state();
        match *state {
            State::Closed { .. } => true,
            State::Open { until } if now >= until => {
                *state = State::Probing;
                true
            }
            State::Open { .. } | State::Probing => false,
        }
    }

    /// Nothing was sent after all: the next one may be the probe.
    pub(super) fn unused(&self, now: Instant) {
        let mut state = self.state();
        if *state == State::Probing {
            *state = State::Open { until: now };
        }
    }

    /// True if this sign opened it.
    pub(super) fn saw(&self, sign: Sign, now: Instant) -> bool {
        let mut state = self.state();
        let open = State::Open { until: now + Duration::from_millis(self.pace.open_ms.into()) };
        let next = match (*state, sign) {
            (_, Sign::Hold) | (State::Probing, Sign::Bad) => open,
            (State::Probing, Sign::Good) => State::Closed { ended: 0, failed: 0 },
            (State::Open { until }, _) => State::Open { until },
            (State::Closed { ended, failed }, sign) => {
                let (ended, failed) = (ended + 1, failed + u32::from(sign == Sign::Bad));
                match ended >= self.pace.calls_min {
                    true if failed * 100 >= ended * self.pace.failed_percent => open,
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> (Breaker, Instant) {
        (Breaker::new(BreakerPace { calls_min: 4, failed_percent: 50, open_ms: 1_000 }), Instant::now())
    }

    #[test]
    fn it_opens_when_half_of_the_calls_fail_and_closes_after_one_good_probe() {
        let (breaker, now) = breaker();
        for sign in [Sign::Good, Sign::Bad, Sign::Good] {
            assert!(!breaker.saw(sign, now));
        }
        assert!(breaker.admit(now));
        assert!(breaker.saw(Sign::Bad, now), "two of four");
        assert_eq!((breaker.grants(now), breaker.admit(now)), (Grants::None, false));
        let later = now + Duration::from_secs(1);
        assert_eq!(breaker.grants(later), Grants::One);
        assert!(breaker.admit(later));
        assert_eq!(
            (breaker.grants(later), breaker.admit(later)),
            (Grants::None, false),
            "one probe at a time"
        );
        assert!(!breaker.saw(Sign::Good, later));
        assert_eq!(breaker.grants(later), Grants::All);
    }

    #[test]
    fn a_bad_probe_opens_it_again_and_stragglers_change_nothing() {
        let (breaker, now) = breaker();
        assert!(breaker.saw(Sign::Hold, now), "one is enough");
        assert!(!breaker.saw(Sign::Good, now), "a call from before");
        assert_eq!(breaker.grants(now), Grants::None);
        let later = now + Duration::from_secs(1);
        assert!(breaker.admit(later));
        breaker.unused(later);
        assert!(breaker.admit(later), "the one before it was not sent");
        assert!(breaker.saw(Sign::Bad, later));
        assert_eq!(breaker.grants(later), Grants::None);
        assert_eq!(breaker.grants(later + Duration::from_secs(1)), Grants::One);
    }

    #[test]
    fn few_failures_among_many_calls_are_life() {
        let (breaker, now) = breaker();
        for _ in 0..10 {
            for sign in [Sign::Good, Sign::Good, Sign::Bad, Sign::Good] {
                assert!(!breaker.saw(sign, now));
            }
        }
        assert_eq!(breaker.grants(now), Grants::All);
    }
}
