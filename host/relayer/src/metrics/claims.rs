//! What the claimer counts.

use observe::Registry;
use prometheus::{Histogram, IntCounter};

const SECONDS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];
const RECOVERY: [f64; 8] = [1.0, 5.0, 15.0, 30.0, 45.0, 60.0, 120.0, 600.0];

/// What the claimer counts.
#[derive(Debug)]
pub struct ClaimMetrics {
    pub(crate) notify_wakeups: IntCounter,
    pub(crate) poll_wakeups: IntCounter,
    pub(crate) claim_batches: IntCounter,
    pub(crate) claims_failed: IntCounter,
    pub(crate) claim_seconds: Histogram,
    pub(crate) handed_back: IntCounter,
    pub(crate) clock_moved_back: IntCounter,
    pub(crate) zombie_recovery_seconds: Histogram,
}

impl ClaimMetrics {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            notify_wakeups: registry.counter("notify_wakeups_total", "Notifications that were received.")?,
            poll_wakeups: registry.counter("poll_wakeups_total", "Claims made without a notification.")?,
            claim_batches: registry.counter("claim_batches_total", "Claims that brought payments.")?,
            claims_failed: registry
                .counter("claims_failed_total", "Claims that the database did not answer.")?,
            claim_seconds: registry.histogram(
                "poll_duration_seconds",
                "How long a claim takes.",
                &SECONDS,
            )?,
            handed_back: registry.counter(
                "claims_handed_back_total",
                "Payments of claims whose answer never came, handed back.",
            )?,
            clock_moved_back: registry.counter(
                "database_clock_moved_back_total",
                "Claims whose database time was before that of the claim before.",
            )?,
            zombie_recovery_seconds: registry.histogram(
                "zombie_recovery_seconds",
                "From the claim of a host that lost its lease to the next claim.",
                &RECOVERY,
            )?,
        })
    }
}
