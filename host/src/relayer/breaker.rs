//! Leaves a rail alone that fails, and tries it again with a single payment.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::rail::pace::BreakerPace;

/// Each try that fails doubles the next pause, so many times. A rail that stays broken is not tried to death, payment by payment.
const DOUBLED_MAX: u32 = 4;
/// Not beyond this: a rail that was mended is not to stay shut for hours.
const OPEN_MAX: Duration = Duration::from_secs(15 * 60);

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
        bad_probes: u32,
    },
    /// One payment is out to see how things are.
    Probing {
        bad_probes: u32,
    },
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
            State::Open { until, .. } if now >= until => Grants::One,
            State::Open { .. } | State::Probing { .. } => Grants::None,
        }
    }

    /// A ticket if a payment may be sent now. After a pause the first that asks is the probe.
    pub(super) fn admit(&self, now: Instant) -> Option<Ticket<'_>> {
        let mut state = self.state();
        let probe = match *state {
            State::Closed { .. } => false,
            State::Open { until, bad_probes } if now >= until => {
                *state = State::Probing { bad_probes };
                true
            }
            State::Open { .. } | State::Probing { .. } => return None,
        };
        Some(Ticket { breaker: self, probe })
    }

    /// One is enough. True if it was not open already.
    pub(super) fn trip(&self, pace: &BreakerPace, now: Instant) -> bool {
        self.saw(Sign::Hold, false, pace, now)
    }

    fn saw(&self, sign: Sign, probe: bool, pace: &BreakerPace, now: Instant) -> bool {
        let mut state = self.state();
        let open = |bad_probes| State::Open { until: now + pause(pace, bad_probes), bad_probes };
        let next = match (*state, sign) {
            (State::Probing { bad_probes }, Sign::Bad | Sign::Hold) if probe => open(bad_probes + 1),
            (State::Open { bad_probes, .. } | State::Probing { bad_probes }, Sign::Hold) => open(bad_probes),
            (State::Closed { .. }, Sign::Hold) => open(0),
            (State::Probing { .. }, Sign::Good) if probe => State::Closed { ended: 0, failed: 0 },
            (State::Open { .. } | State::Probing { .. }, _) => *state,
            (State::Closed { ended, failed }, sign) => {
                let (ended, failed) = (ended + 1, failed + u32::from(sign == Sign::Bad));
                match ended >= pace.calls_min {
                    true if failed * 100 >= ended * pace.failed_percent => open(0),
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

/// How long it stays open after so many tries that failed.
fn pause(pace: &BreakerPace, bad_probes: u32) -> Duration {
    let first = Duration::from_millis(pace.open_ms.into());
    (first * 2_u32.pow(bad_probes.min(DOUBLED_MAX))).min(OPEN_MAX.max(first))
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
        if self.probe
            && let State::Probing { bad_probes } = *state
        {
            *state = State::Open { until: Instant::now(), bad_probes };
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
        assert_eq!(breaker.grants(later + Duration::from_secs(2)), Grants::One);
    }

    #[test]
    fn each_bad_probe_doubles_the_pause_up_to_a_limit_and_a_good_one_ends_that() {
        let (breaker, mut now) = breaker();
        let mut pauses = Vec::new();
        breaker.trip(&PACE, now);
        for sign in [Sign::Bad, Sign::Hold, Sign::Bad, Sign::Hold, Sign::Bad, Sign::Hold, Sign::Good] {
            let asked = now;
            while breaker.grants(now) == Grants::None {
                now += Duration::from_secs(1);
            }
            pauses.push((now - asked).as_secs());
            call(&breaker, sign, now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
        assert_eq!(breaker.grants(now), Grants::All);
        assert!(breaker.trip(&PACE, now));
        assert_eq!(breaker.grants(now + Duration::from_secs(1)), Grants::One, "all is forgotten");
    }

    #[test]
    fn what_questions_hear_keeps_it_open_and_is_no_bad_probe() {
        let (breaker, now) = breaker();
        for _ in 0..9 {
            breaker.trip(&PACE, now);
        }
        assert_eq!(breaker.grants(now + Duration::from_secs(1)), Grants::One);
    }

    #[test]
    fn a_pause_that_was_asked_for_is_kept_and_none_grows_to_hours() {
        let long = |open_ms| pause(&BreakerPace { open_ms, ..PACE }, 9);
        assert_eq!(long(300_000), OPEN_MAX);
        assert_eq!(long(3_600_000), Duration::from_secs(3600));
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
