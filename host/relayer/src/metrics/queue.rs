//! What the database counts for all hosts together.

use observe::Registry;
use prometheus::{Gauge, IntCounter, IntGauge, IntGaugeVec};

/// What the database counts for all hosts together.
#[derive(Debug)]
pub struct QueueMetrics {
    pub(crate) pending_depth: IntGaugeVec,
    pub(crate) leased: IntGauge,
    pub(crate) stuck: IntGauge,
    pub(crate) dead_letters: IntGauge,
    pub(crate) oldest_pending_age_seconds: Gauge,
    pub(crate) longest_wait_seconds: Gauge,
    pub(crate) queue_counts_failed: IntCounter,
    pub(crate) history_days_left: Gauge,
    pub(crate) differing_hosts: IntGauge,
    pub(crate) unconfirmed_commits: IntCounter,
}

impl QueueMetrics {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            pending_depth: registry.gauges(
                "outbox_pending_depth",
                "Payments without a verdict.",
                &["rail"],
            )?,
            leased: registry.gauge("leased_count", "Payments that a host holds.")?,
            stuck: registry.gauge("stuck_dispatching_count", "Leases that have expired.")?,
            dead_letters: registry.gauge("dlq_depth", "Failed payments in the history that is kept.")?,
            oldest_pending_age_seconds: registry
                .seconds("oldest_pending_age_seconds", "Age of the oldest payment without a verdict.")?,
            longest_wait_seconds: registry
                .seconds("longest_wait_seconds", "Age of the oldest due payment that no host has leased.")?,
            queue_counts_failed: registry.counter(
                "queue_counts_failed_total",
                "Counts of the queue that the database did not answer.",
            )?,
            history_days_left: registry.seconds(
                "history_days_left",
                "Days until the last month of the history that exists is over.",
            )?,
            differing_hosts: registry.gauge(
                "hosts_differing",
                "Rails that another live host runs with another component or file.",
            )?,
            unconfirmed_commits: registry.counter(
                "unconfirmed_commits_total",
                "Commits that PostgreSQL answered with a warning: a standby may not have them.",
            )?,
        })
    }
}
