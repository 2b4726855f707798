//! All that a relayer counts. Label values come from configuration and from closed lists, never from a guest or a rail.
//!
//! - [`claims`]: the claimer · [`calls`]: calls to rails and their callbacks · [`writes`]: outcomes on their way into the history
//! - [`rails`]: the state of each rail · [`queue`]: what the database counts for all hosts

mod calls;
mod claims;
mod queue;
mod rails;
mod writes;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use observe::Registry;
use outbox::lease::Repaired;
use outbox::read::QueueCount;
use outbox::unconfirmed_commits;

use crate::callback_result::CallbackResult;

/// All that a host counts of its payments.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub claims: claims::ClaimMetrics,
    pub calls: calls::CallMetrics,
    pub writes: writes::WriteMetrics,
    pub rails: rails::RailMetrics,
    pub queue: queue::QueueMetrics,
    expected: Mutex<BTreeSet<String>>,
    /// Of the commits that a standby may not have, so many are counted.
    unconfirmed: AtomicU64,
}

impl Metrics {
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            registry: registry.clone(),
            claims: claims::ClaimMetrics::new(registry)?,
            calls: calls::CallMetrics::new(registry)?,
            writes: writes::WriteMetrics::new(registry)?,
            rails: rails::RailMetrics::new(registry)?,
            queue: queue::QueueMetrics::new(registry)?,
            expected: Mutex::default(),
            unconfirmed: AtomicU64::new(0),
        })
    }

    /// Counts from 0: a rail on which nothing happened yet is there all the same, so that its first failure shows as a change.
    pub(crate) fn expect_rail(&self, rail: &str) {
        self.calls.expect_rail(rail);
        self.writes.expect_rail(rail);
        self.rails.expect_rail(rail);
        self.queue.pending_depth.with_label_values(&[rail]);
        self.expected.lock().unwrap_or_else(PoisonError::into_inner).insert(rail.to_owned());
    }

    /// In the format that Prometheus reads.
    pub fn text(&self) -> prometheus::Result<String> {
        let happened = unconfirmed_commits();
        // Two requests at the same moment count each commit once.
        let counted = self.unconfirmed.fetch_max(happened, Ordering::AcqRel);
        self.queue.unconfirmed_commits.inc_by(happened.saturating_sub(counted));
        self.registry.text()
    }

    /// Leases that repair ended, of any host and over any rail.
    pub(crate) fn repaired(&self, leases: &[Repaired]) {
        self.writes.reaper_requeues.inc_by(leases.len() as u64);
        for lease in leases {
            self.writes
                .attempts
                .with_label_values(&[self.label(&lease.rail_type), lease.state.as_str()])
                .inc();
            if lease.state != "ZOMBIE_REQUEUE" {
                self.writes.retry_depth.observe(f64::from(lease.attempt_no));
            }
        }
    }

    /// The rail's name is the caller's to choose.
    pub(crate) fn called_back(&self, rail: &str, result: CallbackResult) {
        self.calls.callbacks.with_label_values(&[self.label(rail), result.as_str()]).inc();
    }

    /// Rails that we do not serve share one label: their names are free text elsewhere, and labels must not grow with them.
    fn label<'r>(&self, rail: &'r str) -> &'r str {
        match self.expected.lock().unwrap_or_else(PoisonError::into_inner).contains(rail) {
            true => rail,
            false => "(other)",
        }
    }

    /// What the database counts for all hosts together. Rails that this host does not serve count as one.
    pub fn count_queue(&self, counts: &[QueueCount]) {
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_closed = |rail: &&String| self.rails.closed.with_label_values(&[rail.as_str()]).get() == 1;
        let closed: BTreeSet<&str> = expected.iter().filter(is_closed).map(String::as_str).collect();
        let depth = |rail: &str| counts.iter().find(|found| found.rail_type.as_deref() == Some(rail));
        for rail in &expected {
            self.queue
                .pending_depth
                .with_label_values(&[rail])
                .set(depth(rail).map_or(0, |found| found.pending));
        }
        let strangers = counts
            .iter()
            .filter(|found| found.rail_type.as_ref().is_some_and(|name| !expected.contains(name)));
        self.queue
            .pending_depth
            .with_label_values(&["(other)"])
            .set(strangers.map(|found| found.pending).sum());
        if let Some(total) = counts.iter().find(|found| found.rail_type.is_none()) {
            self.queue.leased.set(total.leased_count);
            self.queue.stuck.set(total.expired_lease_count);
            self.queue.dead_letters.set(total.dead_letters.unwrap_or(0));
            self.queue.oldest_pending_age_seconds.set(total.oldest_pending_age_seconds.unwrap_or(0.0));
            // No person is to be woken for a bank that is closed.
            let is_in_hours =
                |count: &&QueueCount| count.rail_type.as_deref().is_some_and(|rail| !closed.contains(rail));
            let waits = counts.iter().filter(is_in_hours).filter_map(|count| count.longest_wait_seconds);
            self.queue.longest_wait_seconds.set(waits.fold(0.0, f64::max));
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_repair_wrote_is_counted_by_rail_and_state() {
        let metrics = Metrics::new(&Registry::default()).expect("distinct names");
        metrics.expect_rail("mtn");
        let ended = |rail: &str, state: &str, attempt_no| Repaired {
            outbox_id: Uuid::nil(),
            attempt_no,
            state: state.to_owned(),
            rail_type: rail.to_owned(),
        };
        metrics.repaired(&[
            ended("mtn", "ZOMBIE_REQUEUE", 1),
            ended("mtn", "FAILED", 20),
            ended("elsewhere", "ZOMBIE_REQUEUE", 2),
        ]);
        let text = metrics.text().expect("text");
        for line in [
            r#"attempts_total{rail="mtn",state="ZOMBIE_REQUEUE"} 1"#,
            r#"attempts_total{rail="mtn",state="FAILED"} 1"#,
            r#"attempts_total{rail="(other)",state="ZOMBIE_REQUEUE"} 1"#,
            "reaper_requeues_total 3",
            "retry_depth_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing from\n{text}");
        }
    }

    #[test]
    fn what_waits_for_a_rail_that_is_closed_wakes_nobody() {
        let metrics = Metrics::new(&Registry::default()).expect("distinct names");
        metrics.expect_rail("bank");
        let count = |rail: Option<&str>, wait: f64| QueueCount {
            rail_type: rail.map(str::to_owned),
            longest_wait_seconds: Some(wait),
            ..QueueCount::default()
        };
        let counts = [count(Some("bank"), 9_000.0), count(Some("mtn"), 7.0), count(None, 9_000.0)];
        metrics.count_queue(&counts);
        assert!(has(&metrics, "longest_wait_seconds 9000"));
        metrics.rails.closed("bank", true);
        metrics.count_queue(&counts);
        assert!(has(&metrics, "longest_wait_seconds 7"));
    }

    fn has(metrics: &Metrics, line: &str) -> bool {
        metrics.text().expect("text").lines().any(|found| found == line)
    }

    #[test]
    fn a_certificate_that_left_the_rails_file_leaves_the_gauge() {
        let metrics = Metrics::new(&Registry::default()).expect("distinct names");
        let (ca, client) = (("ca".to_owned(), 7), ("client".to_owned(), 8));
        metrics.rails.certificates("bank", &[ca.clone(), client.clone()]);
        metrics.rails.certificates("mtn", &[client]);
        let of_client = |rail: &str| {
            format!("rail_certificate_expires_seconds{{certificate=\"client\",rail=\"{rail}\"}} 8")
        };
        assert!(has(&metrics, &of_client("bank")) && has(&metrics, &of_client("mtn")));
        metrics.rails.certificates("bank", &[ca]);
        assert!(!has(&metrics, &of_client("bank")) && has(&metrics, &of_client("mtn")));
        assert!(has(&metrics, r#"rail_certificate_expires_seconds{certificate="ca",rail="bank"} 7"#));
    }

    #[test]
    fn a_revoked_component_shows_until_it_is_replaced() {
        let metrics = Metrics::new(&Registry::default()).expect("distinct names");
        metrics.expect_rail("mtn");
        let is = |value| has(&metrics, &format!("rail_revoked{{rail=\"mtn\"}} {value}"));
        assert!(is(0));
        metrics.rails.revoked("mtn", true);
        assert!(is(1));
        metrics.rails.revoked("mtn", false);
        assert!(is(0));
    }
}
