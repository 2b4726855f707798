//! How often a rail is sent to and asked, and how much at a time.

use std::time::Duration;

use serde::Deserialize;

/// A payment has at most this many attempts.
pub const ATTEMPTS_MAX: i32 = 20;
/// What a holder keeps of its lease to write down what it heard.
pub const COMPLETION_MARGIN: Duration = Duration::from_secs(5);
/// A call that follows its claim within this time can still end inside the lease.
const START_SLACK: Duration = Duration::from_secs(3);
/// A lease is not longer, however long the call.
const LEASE_SECONDS_MAX: f64 = 600.0;
/// Where a call takes no more than a minute, the payments of a dead host move again within two: its lease ends, repair comes by
/// every 5 s and makes them due after one more, and hosts look once a second.
const LEASE_SECONDS_MAX_OF_SHORT_CALLS: f64 = 110.0;
const SHORT_CALL: Duration = Duration::from_secs(60);

/// `[pace]` of a rail file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pace {
    /// Calls at a time, in each host.
    pub concurrency: u32,
    /// How long a payment is ours.
    pub lease_seconds: f64,
    /// Between two requests to pay.
    pub retry: Backoff,
    /// Between two questions.
    pub query: Backoff,
    /// For this long the questions have to go on.
    pub reconcile_seconds: u32,
    /// A payment may be there and not yet be found for this long.
    pub visibility_seconds: u32,
    /// For this long the rail remembers a key; for ever where it is left out.
    pub dedup_window_seconds: Option<u32>,
    /// Where a rail cannot be asked: the same key may be sent again.
    pub resend_is_safe: bool,
    /// When the rail is left alone because too many calls failed.
    pub breaker: BreakerPace,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            concurrency: 64,
            lease_seconds: 45.0,
            retry: Backoff { base_ms: 1_000, factor: 2.0, cap_ms: 300_000 },
            query: Backoff { base_ms: 2_000, factor: 1.7, cap_ms: 120_000 },
            reconcile_seconds: 900,
            visibility_seconds: 30,
            dedup_window_seconds: None,
            resend_is_safe: false,
            breaker: BreakerPace::default(),
        }
    }
}

/// Delays that grow.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// The first delay in milliseconds: 10 or more.
    pub base_ms: u32,
    /// Each delay is this many times as long as the one before: 1 to 10.
    pub factor: f64,
    /// The longest delay in milliseconds, not below `base_ms`.
    pub cap_ms: u32,
}

impl Backoff {
    /// The delay after so many attempts, the first being 1.
    pub fn after(&self, attempts: i32) -> Duration {
        let grown = f64::from(self.base_ms) * self.factor.powi(attempts.max(1) - 1);
        Duration::from_millis(grown.min(f64::from(self.cap_ms)) as u64)
    }
}

/// When a rail is left alone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerPace {
    /// Looked at only when so many calls have ended.
    pub calls_min: u32,
    /// The share of them that has to have failed, in per cent.
    pub failed_percent: u32,
    /// Then nothing is sent for this long, and after it a single payment.
    pub open_ms: u32,
}

impl Default for BreakerPace {
    fn default() -> Self {
        Self { calls_min: 20, failed_percent: 50, open_ms: 10_000 }
    }
}

impl Pace {
    /// What is wrong with it, by its key and with what is expected. `call` is the longest that one call of the rail may take.
    pub fn problem(&self, call: Duration, idempotent: bool) -> Option<String> {
        if self.resend_is_safe && !idempotent {
            return Some("pace.resend_is_safe is true, expected idempotent = true beside it".to_owned());
        }
        if !(1..=20_000).contains(&self.concurrency) {
            return Some(format!("pace.concurrency is {}, expected 1 to 20000", self.concurrency));
        }
        let least = (START_SLACK + call + COMPLETION_MARGIN).as_secs_f64();
        let most = match call <= SHORT_CALL {
            true => LEASE_SECONDS_MAX_OF_SHORT_CALLS,
            false => LEASE_SECONDS_MAX,
        };
        if !(least..=most).contains(&self.lease_seconds) {
            return Some(format!(
                "pace.lease_seconds is {}, expected {least} to {most}: timeouts.call_ms, {} s to start and {} s to write the outcome; a longer lease would leave the payments of a dead host waiting",
                self.lease_seconds,
                START_SLACK.as_secs(),
                COMPLETION_MARGIN.as_secs()
            ));
        }
        for (name, steps) in [("retry", &self.retry), ("query", &self.query)] {
            if steps.base_ms < 10 || !(1.0..=10.0).contains(&steps.factor) || steps.cap_ms < steps.base_ms {
                return Some(format!(
                    "pace.{name} expects base_ms of 10 or more, factor 1 to 10, cap_ms not below base_ms"
                ));
            }
        }
        let spans: Duration = (1..ATTEMPTS_MAX).map(|attempts| self.query.after(attempts)).sum();
        if spans < Duration::from_secs(self.reconcile_seconds.into()) {
            return Some(format!(
                "pace.query spans {} s in {ATTEMPTS_MAX} attempts, expected pace.reconcile_seconds, {}",
                spans.as_secs(),
                self.reconcile_seconds
            ));
        }
        if self.breaker.open_ms < 100 || !(1..=100).contains(&self.breaker.failed_percent) {
            return Some("pace.breaker expects open_ms of 100 or more, failed_percent 1 to 100".to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Duration = Duration::from_secs(30);

    #[test]
    fn the_defaults_are_sound_and_pauses_grow_to_their_cap() {
        let pace = Pace::default();
        assert_eq!(pace.problem(CALL, true), None);
        assert_eq!(pace.retry.after(1), Duration::from_secs(1));
        assert_eq!(pace.retry.after(3), Duration::from_secs(4));
        assert_eq!(pace.retry.after(20), Duration::from_secs(300));
    }

    #[test]
    fn what_cannot_work_is_refused_with_key_and_expectation() {
        let lease = Pace { lease_seconds: 37.0, ..Pace::default() };
        assert!(lease.problem(CALL, true).expect("too short").contains("expected 38 to 110"));
        let lease = Pace { lease_seconds: 111.0, ..Pace::default() };
        assert!(lease.problem(SHORT_CALL, true).expect("too long").contains("expected 68 to 110"));
        assert_eq!(lease.problem(Duration::from_secs(61), true), None, "such a call takes its time");
        let window = Pace { reconcile_seconds: 86_400, ..Pace::default() };
        assert!(window.problem(CALL, true).expect("too long").contains("pace.query spans"));
        let careless = Pace { resend_is_safe: true, ..Pace::default() };
        assert_eq!(careless.problem(CALL, true), None);
        assert!(careless.problem(CALL, false).expect("it pays twice").contains("resend_is_safe"));
        let steps = Backoff { base_ms: 10, factor: 0.5, cap_ms: 10 };
        assert!(
            Pace { retry: steps, ..Pace::default() }
                .problem(CALL, true)
                .expect("shrinks")
                .contains("pace.retry")
        );
    }
}
