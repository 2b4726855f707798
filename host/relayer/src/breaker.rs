//! Leaves a rail alone that fails, and tries it again with a single payment. So does a rail begin that was just started or
//! resumed: what is wrong with it costs one payment and not all of them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::refusals::{Refusal, Refusals};
use faults::{self, Guard};
use verdict::pace::BreakerPace;

/// Each try that fails doubles the next pause, so many times. A rail that stays broken is not tried to death, payment by payment.
const DOUBLED_MAX: u32 = 4;
/// Not beyond this: a rail that was mended is not to stay shut for hours.
const OPEN_MAX: Duration = Duration::from_secs(15 * 60);
/// A rail may ask for a longer pause, up to this.
const ASKED_FOR_MAX: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct Breaker(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    state: State,
    /// Of requests to pay, since the rail took one.
    at_the_door: Refusals,
    /// Heard by questions, since one was paid.
    later: Refusals,
    /// For a person: whatever is heard meanwhile, nothing is given to the rail.
    stopped: bool,
}

impl Inner {
    fn beginning() -> Self {
        let state = match faults::is_left_out(Guard::BeginsWithOne) {
            false => State::Beginning { one_is_out: false },
            true => State::Closed { ended: 0, failed: 0 },
        };
        Self { state, at_the_door: Refusals::default(), later: Refusals::default(), stopped: false }
    }

    fn somebody_was_paid(&mut self) {
        self.at_the_door.end();
        self.later.end();
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
    /// Nothing is known of the rail yet: one payment at a time.
    Beginning {
        one_is_out: bool,
    },
}

/// What a rail may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grants {
    All,
    One,
    None,
}

/// How a call went, for the rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sign {
    Good,
    /// The rail took it and has not decided: it works, but nobody was paid yet.
    Accepted,
    Bad,
    /// The rail's final no to this payment. A run of them says something of the rail.
    Refused(Refusal),
    /// No need to see more. The rail may have said for how long.
    Hold(Option<Duration>),
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

    /// A person says that it may go on: with one payment, as after a start.
    pub(crate) fn begin_again(&self) {
        *self.inner() = Inner::beginning();
    }

    /// Something of ours is in order again: where nothing else stands against it, it goes on with one payment.
    pub(crate) fn begin_with_one(&self) {
        let mut inner = self.inner();
        if matches!(inner.state, State::Closed { .. }) {
            inner.state = State::Beginning { one_is_out: false };
        }
    }

    pub(crate) fn grants(&self, now: Instant) -> Grants {
        let inner = self.inner();
        match inner.state {
            _ if inner.stopped => Grants::None,
            State::Closed { .. } => Grants::All,
            State::Open { until, .. } if now >= until => Grants::One,
            State::Beginning { one_is_out: false } => Grants::One,
            State::Open { .. } | State::Probing { .. } | State::Beginning { .. } => Grants::None,
        }
    }

    /// A ticket if a payment may be sent now. After a pause the first that asks is the probe.
    pub(crate) fn admit(&self, now: Instant) -> Option<Ticket<'_>> {
        let mut inner = self.inner();
        let probe = match inner.state {
            _ if inner.stopped => return None,
            State::Closed { .. } => false,
            State::Open { until, bad_probes } if now >= until => {
                inner.state = State::Probing { bad_probes };
                true
            }
            State::Beginning { one_is_out: false } => {
                inner.state = State::Beginning { one_is_out: true };
                true
            }
            State::Open { .. } | State::Probing { .. } | State::Beginning { .. } => return None,
        };
        Some(Ticket { breaker: self, probe })
    }

    /// What a question brought: it is no probe, but what it says of the rail counts. True if it was not open already.
    pub(crate) fn heard(&self, sign: Sign, pace: &BreakerPace, now: Instant) -> bool {
        match sign {
            // A question that fails says little of the rail, and one that succeeds does not say that it pays.
            Sign::Good => {
                self.inner().somebody_was_paid();
                false
            }
            Sign::Accepted | Sign::Bad => false,
            Sign::Refused(refusal) => {
                let speaks_of_rail = self.inner().later.saw(&refusal);
                speaks_of_rail && self.saw(Sign::Hold(None), false, pace, now)
            }
            Sign::Hold(_) => self.saw(sign, false, pace, now),
        }
    }

    fn saw(&self, sign: Sign, probe: bool, pace: &BreakerPace, now: Instant) -> bool {
        let mut inner = self.inner();
        let sign = match sign {
            Sign::Refused(refusal) if inner.at_the_door.saw(&refusal) => Sign::Hold(None),
            Sign::Good => {
                inner.somebody_was_paid();
                Sign::Good
            }
            Sign::Accepted => {
                inner.at_the_door.end();
                Sign::Good
            }
            other => other,
        };
        let was_open = matches!(inner.state, State::Open { .. });
        inner.state = next(inner.state, &sign, probe, pace, now);
        matches!(inner.state, State::Open { .. }) && !was_open
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn next(state: State, sign: &Sign, probe: bool, pace: &BreakerPace, now: Instant) -> State {
    let open = |bad_probes, asked_for: Option<Duration>| {
        let pause = pause(pace, bad_probes).max(asked_for.unwrap_or_default().min(ASKED_FOR_MAX));
        State::Open { until: now + pause, bad_probes }
    };
    let asked_for = match sign {
        Sign::Hold(asked_for) => *asked_for,
        _ => None,
    };
    match (state, sign) {
        (State::Probing { bad_probes }, Sign::Bad | Sign::Hold(_)) if probe => {
            open(bad_probes + 1, asked_for)
        }
        (State::Open { until, bad_probes }, Sign::Hold(_)) => match open(bad_probes, asked_for) {
            State::Open { until: later, bad_probes } => State::Open { until: until.max(later), bad_probes },
            other => other,
        },
        (State::Probing { bad_probes }, Sign::Hold(_)) => open(bad_probes, asked_for),
        (State::Closed { .. } | State::Beginning { .. }, Sign::Hold(_)) => open(0, asked_for),
        (State::Probing { .. } | State::Beginning { .. }, Sign::Good) if probe => {
            State::Closed { ended: 0, failed: 0 }
        }
        // One refusal says nothing of the rail, in either direction: the next one tries.
        (State::Probing { bad_probes }, Sign::Refused(_)) if probe => State::Open { until: now, bad_probes },
        (State::Beginning { .. }, Sign::Refused(_)) if probe => State::Beginning { one_is_out: false },
        // A first call that fails is counted like any other.
        (State::Beginning { .. }, Sign::Bad) if probe => counted(1, 1, pace, &open),
        (State::Closed { ended, failed }, sign) => {
            counted(ended + 1, failed + u32::from(*sign == Sign::Bad), pace, &open)
        }
        (unchanged, _) => unchanged,
    }
}

fn counted(
    ended: u32,
    failed: u32,
    pace: &BreakerPace,
    open: &dyn Fn(u32, Option<Duration>) -> State,
) -> State {
    match ended >= pace.calls_min {
        true if failed * 100 >= ended * pace.failed_percent => open(0, None),
        true => State::Closed { ended: 0, failed: 0 },
        false => State::Closed { ended, failed },
    }
}

/// How long it stays open after so many tries that failed.
fn pause(pace: &BreakerPace, bad_probes: u32) -> Duration {
    let first = Duration::from_millis(pace.open_ms.into());
    (first * 2_u32.pow(bad_probes.min(DOUBLED_MAX))).min(OPEN_MAX.max(first))
}

/// The right to send one payment. Dropped without a sign, as when nothing was sent after all, it leaves the probe to the next.
#[derive(Debug)]
pub(crate) struct Ticket<'b> {
    breaker: &'b Breaker,
    probe: bool,
}

impl Ticket<'_> {
    /// True if this sign opened the breaker.
    pub(crate) fn saw(mut self, sign: Sign, pace: &BreakerPace, now: Instant) -> bool {
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
                State::Probing { bad_probes } => {
                    inner.state = State::Open { until: Instant::now(), bad_probes }
                }
                State::Beginning { .. } => inner.state = State::Beginning { one_is_out: false },
                State::Closed { .. } | State::Open { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: BreakerPace = BreakerPace { calls_min: 4, failed_percent: 50, open_ms: 1_000 };

    /// One whose rail has paid before.
    fn breaker() -> (Breaker, Instant) {
        let (breaker, now) = (Breaker::new(), Instant::now());
        assert!(!call(&breaker, Sign::Good, now));
        (breaker, now)
    }

    fn refusal(code: &str, payee: &str, participant: &str) -> Sign {
        Sign::Refused(Refusal::new(code, payee, participant))
    }

    fn call(breaker: &Breaker, sign: Sign, now: Instant) -> bool {
        breaker.admit(now).expect("it may be sent").saw(sign, &PACE, now)
    }

    #[test]
    fn a_float_that_is_back_ends_no_stop_and_no_pause() {
        let (closed, now) = breaker();
        closed.begin_with_one();
        assert_eq!(closed.grants(now), Grants::One, "it goes on with one payment");
        let (open, now) = breaker();
        open.heard(Sign::Hold(None), &PACE, now);
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
        assert!(breaker.heard(Sign::Hold(None), &PACE, now), "one is enough");
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
        breaker.heard(Sign::Hold(None), &PACE, now);
        for sign in [
            Sign::Bad,
            Sign::Hold(None),
            Sign::Bad,
            Sign::Hold(None),
            Sign::Bad,
            Sign::Hold(None),
            Sign::Good,
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
        assert!(breaker.heard(Sign::Hold(None), &PACE, now));
        assert_eq!(breaker.grants(now + Duration::from_secs(1)), Grants::One, "all is forgotten");
    }

    #[test]
    fn what_questions_hear_keeps_it_open_and_is_no_bad_probe() {
        let (breaker, now) = breaker();
        for _ in 0..9 {
            breaker.heard(Sign::Hold(None), &PACE, now);
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
        breaker.heard(Sign::Hold(None), &PACE, now);
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

    #[test]
    fn a_rail_begins_with_one_payment_and_goes_on_when_that_is_paid() {
        let (breaker, now) = (Breaker::new(), Instant::now());
        assert_eq!(breaker.grants(now), Grants::One);
        let first = breaker.admit(now).expect("one may try");
        assert!(breaker.grants(now) == Grants::None && breaker.admit(now).is_none(), "one at a time");
        first.saw(Sign::Good, &PACE, now);
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
        call(&breaker, Sign::Good, now);
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
        assert_eq!(refused, super::super::refusals::PAYEES_MAX);
        let later = now + Duration::from_secs(1);
        assert!(call(&breaker, refusal("CLOSED", "yet another", "another"), later), "it goes on");
        assert_eq!(breaker.grants(later + Duration::from_millis(1_999)), Grants::None, "twice as long");
        call(&breaker, Sign::Good, later + Duration::from_secs(2));
        assert_eq!(breaker.grants(later), Grants::All);
    }

    #[test]
    fn refusals_that_questions_hear_count_too_and_a_payment_ends_their_run() {
        let (breaker, now) = breaker();
        let refuse =
            |n: usize| breaker.heard(refusal("CLOSED", &n.to_string(), &(n % 2).to_string()), &PACE, now);
        let most = super::super::refusals::PAYEES_MAX - 1;
        assert!((0..most).all(|n| !refuse(n)));
        breaker.heard(Sign::Good, &PACE, now);
        assert!((0..most).all(|n| !refuse(n)), "it begins anew");
        assert!(refuse(most));
    }

    #[test]
    fn payments_that_a_rail_only_took_do_not_end_a_run_of_refusals_that_questions_hear() {
        let (breaker, now) = breaker();
        let most = super::super::refusals::PAYEES_MAX;
        for n in 0..most {
            assert_eq!(breaker.grants(now), Grants::All);
            call(&breaker, Sign::Accepted, now);
            breaker.heard(refusal("CLOSED", &n.to_string(), &(n % 2).to_string()), &PACE, now);
        }
        assert_eq!(breaker.grants(now), Grants::None);
    }

    #[test]
    fn a_rail_that_takes_payments_between_its_refusals_is_not_left_alone() {
        let (breaker, now) = breaker();
        for n in 0..100 {
            call(&breaker, refusal("NO_PAYEE", &n.to_string(), &(n % 2).to_string()), now);
            call(&breaker, Sign::Accepted, now);
        }
        assert_eq!(breaker.grants(now), Grants::All);
    }

    #[test]
    fn a_stopped_rail_is_given_nothing_until_it_begins_again_whatever_is_heard_meanwhile() {
        let (breaker, now) = breaker();
        let straggler = breaker.admit(now).expect("closed");
        breaker.stop();
        let day = now + Duration::from_secs(86_400);
        straggler.saw(Sign::Good, &PACE, now);
        breaker.heard(Sign::Good, &PACE, now);
        assert!(breaker.grants(day) == Grants::None && breaker.admit(day).is_none());
        breaker.begin_again();
        assert_eq!(breaker.grants(now), Grants::One);
    }

    #[test]
    fn a_rail_that_asks_for_a_pause_gets_it_within_reason() {
        let (breaker, now) = breaker();
        call(&breaker, Sign::Hold(Some(Duration::from_secs(120))), now);
        assert_eq!(breaker.grants(now + Duration::from_secs(119)), Grants::None);
        assert_eq!(breaker.grants(now + Duration::from_secs(120)), Grants::One);
        let (breaker, now) = self::breaker();
        call(&breaker, Sign::Hold(Some(Duration::from_secs(86_400))), now);
        assert_eq!(breaker.grants(now + ASKED_FOR_MAX), Grants::One, "but not for a day");
    }
}
