//! The states of a circuit breaker and what leads from one to the next. No I/O and no clock.

use std::time::{Duration, Instant};

use crate::refusals::RailRefusal;
use verdict::pace::BreakerPace;

/// Each probe that fails doubles the next pause, so many times. A rail that stays broken does not cost payment after payment.
const DOUBLED_MAX: u32 = 4;
/// No pause is longer: a rail that was mended must not wait for hours.
const OPEN_MAX: Duration = Duration::from_secs(15 * 60);
/// A rail may ask for a longer pause, up to this.
pub(crate) const ASKED_FOR_MAX: Duration = Duration::from_secs(3600);

/// Whether the rail gets payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerState {
    /// Calls that ended since they were counted last, and how many of them failed.
    Closed {
        ended: u32,
        failed: u32,
    },
    Open {
        until: Instant,
        bad_probes: u32,
    },
    /// One payment is on its way to see how the rail is.
    Probing {
        bad_probes: u32,
    },
    /// Nothing is known of the rail yet: one payment at a time.
    Beginning {
        one_is_out: bool,
    },
}

impl BreakerState {
    pub(crate) fn grants(self, now: Instant) -> Grants {
        match self {
            Self::Closed { .. } => Grants::All,
            Self::Open { until, .. } if now >= until => Grants::One,
            Self::Beginning { one_is_out: false } => Grants::One,
            Self::Open { .. } | Self::Probing { .. } | Self::Beginning { .. } => Grants::None,
        }
    }
}

/// What a rail may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grants {
    All,
    One,
    None,
}

/// How a call went, as far as it says something about the rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RailSignal {
    Good,
    /// The rail took it and has not decided. It works, but nobody was paid yet.
    Accepted,
    Bad,
    /// The rail's final no to this payment. A run of them says something about the rail.
    Refused(RailRefusal),
    /// One is enough to open the breaker. The rail may have said for how long.
    Hold(Option<Duration>),
}

/// The state after a sign. `probe`: it came from the one payment that was sent to see.
pub(crate) fn next(
    state: BreakerState,
    sign: &RailSignal,
    probe: bool,
    pace: &BreakerPace,
    now: Instant,
) -> BreakerState {
    let open = |bad_probes, asked_for: Option<Duration>| {
        let pause = pause(pace, bad_probes).max(asked_for.unwrap_or_default().min(ASKED_FOR_MAX));
        BreakerState::Open { until: now + pause, bad_probes }
    };
    let asked_for = match sign {
        RailSignal::Hold(asked_for) => *asked_for,
        _ => None,
    };
    match (state, sign) {
        (BreakerState::Probing { bad_probes }, RailSignal::Bad | RailSignal::Hold(_)) if probe => {
            open(bad_probes + 1, asked_for)
        }
        (BreakerState::Open { until, bad_probes }, RailSignal::Hold(_)) => {
            match open(bad_probes, asked_for) {
                BreakerState::Open { until: later, bad_probes } => {
                    BreakerState::Open { until: until.max(later), bad_probes }
                }
                other => other,
            }
        }
        (BreakerState::Probing { bad_probes }, RailSignal::Hold(_)) => open(bad_probes, asked_for),
        (BreakerState::Closed { .. } | BreakerState::Beginning { .. }, RailSignal::Hold(_)) => {
            open(0, asked_for)
        }
        (BreakerState::Probing { .. } | BreakerState::Beginning { .. }, RailSignal::Good) if probe => {
            BreakerState::Closed { ended: 0, failed: 0 }
        }
        // One refusal says nothing about the rail, in either direction: the next payment tries.
        (BreakerState::Probing { bad_probes }, RailSignal::Refused(_)) if probe => {
            BreakerState::Open { until: now, bad_probes }
        }
        (BreakerState::Beginning { .. }, RailSignal::Refused(_)) if probe => {
            BreakerState::Beginning { one_is_out: false }
        }
        // A first call that fails is counted like any other.
        (BreakerState::Beginning { .. }, RailSignal::Bad) if probe => counted(1, 1, pace, &open),
        (BreakerState::Closed { ended, failed }, sign) => {
            counted(ended + 1, failed + u32::from(*sign == RailSignal::Bad), pace, &open)
        }
        (unchanged, _) => unchanged,
    }
}

fn counted(
    ended: u32,
    failed: u32,
    pace: &BreakerPace,
    open: &dyn Fn(u32, Option<Duration>) -> BreakerState,
) -> BreakerState {
    match ended >= pace.calls_min {
        true if failed * 100 >= ended * pace.failed_percent => open(0, None),
        true => BreakerState::Closed { ended: 0, failed: 0 },
        false => BreakerState::Closed { ended, failed },
    }
}

/// How long it stays open after so many probes that failed.
fn pause(pace: &BreakerPace, bad_probes: u32) -> Duration {
    let first = Duration::from_millis(pace.open_ms.into());
    (first * 2_u32.pow(bad_probes.min(DOUBLED_MAX))).min(OPEN_MAX.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: BreakerPace = BreakerPace { calls_min: 4, failed_percent: 50, open_ms: 1_000 };

    #[test]
    fn a_pause_that_was_asked_for_is_kept_and_none_grows_to_hours() {
        let long = |open_ms| pause(&BreakerPace { open_ms, ..PACE }, 9);
        assert_eq!(long(300_000), OPEN_MAX);
        assert_eq!(long(3_600_000), Duration::from_secs(3600));
    }
}
