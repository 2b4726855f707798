//! What is counted of outcomes on their way into the history.

use std::time::Duration;

use observe::Registry;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge};

use crate::unused::Unused;

const MILLISECONDS: [f64; 13] =
    [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0, 30_000.0];
const ATTEMPTS: [f64; 6] = [1.0, 2.0, 3.0, 5.0, 10.0, 20.0];

/// What is counted of outcomes on their way into the history.
#[derive(Debug)]
pub struct WriteMetrics {
    pub(crate) attempts: IntCounterVec,
    pub(crate) attempts_pending: IntCounterVec,
    pub(crate) dispatch_latency_ms: HistogramVec,
    pub(crate) retry_depth: Histogram,
    pub(crate) reaper_requeues: IntCounter,
    pub(crate) lease_lost: IntCounter,
    pub(crate) late_answers: IntCounter,
    pub(crate) terminal_guard_hits: IntCounter,
    pub(crate) writes_failed: IntCounter,
    pub(crate) writes_waiting: IntGauge,
    pub(crate) held: IntCounter,
    pub(crate) unused: IntCounter,
    pub(crate) returned: IntCounterVec,
}

impl WriteMetrics {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            attempts: registry.counters("attempts_total", "Attempts written.", &["rail", "state"])?,
            attempts_pending: registry.counters(
                "attempts_pending_total",
                "Attempts after which the rail has the payment and will say more.",
                &["rail"],
            )?,
            dispatch_latency_ms: registry.histograms(
                "dispatch_latency_ms",
                "From the claim to the durable outcome.",
                &MILLISECONDS,
            )?,
            retry_depth: registry.histogram(
                "retry_depth",
                "Attempts of a payment at its verdict.",
                &ATTEMPTS,
            )?,
            reaper_requeues: registry.counter("reaper_requeues_total", "Expired leases that were ended.")?,
            lease_lost: registry.counter("lease_lost_total", "Outcomes that came after their lease.")?,
            late_answers: registry.counter("late_answers_total", "Late answers that were kept.")?,
            terminal_guard_hits: registry.counter(
                "terminal_guard_hits_total",
                "Second verdicts refused by the unique index on terminal attempts.",
            )?,
            writes_failed: registry.counter(
                "outcome_writes_failed_total",
                "Writes of outcomes that the database did not take.",
            )?,
            writes_waiting: registry.gauge(
                "outcome_writes_waiting",
                "Batches that cannot be written now; the host takes nothing new meanwhile.",
            )?,
            held: registry
                .counter("payments_held_total", "Payments that met a rail which cannot pay now.")?,
            unused: registry
                .counter("leases_unused_total", "Leases that went back before anything was sent.")?,
            returned: registry.counters(
                "leases_returned_total",
                "Leases that a host gave back before anything was sent, by reason.",
                &["rail", "reason"],
            )?,
        })
    }

    pub(super) fn expect_rail(&self, rail: &str) {
        for state in ["DISPATCHED", "RETRYABLE", "FAILED", "ZOMBIE_REQUEUE"] {
            self.attempts.with_label_values(&[rail, state]);
        }
        for reason in Unused::ALL {
            self.returned.with_label_values(&[rail, reason.as_str()]);
        }
        self.attempts_pending.with_label_values(&[rail]);
        self.dispatch_latency_ms.with_label_values(&[rail]);
    }

    pub(crate) fn written(
        &self,
        rail: &str,
        state: &str,
        pending: bool,
        attempt: i32,
        since_claim: Duration,
    ) {
        self.attempts.with_label_values(&[rail, state]).inc();
        if pending {
            self.attempts_pending.with_label_values(&[rail]).inc();
        }
        self.dispatch_latency_ms.with_label_values(&[rail]).observe(since_claim.as_secs_f64() * 1000.0);
        if state != "RETRYABLE" {
            self.retry_depth.observe(f64::from(attempt));
        }
    }

    pub(crate) fn returned(&self, rail: &str, reason: &str) {
        self.returned.with_label_values(&[rail, reason]).inc();
    }

    /// Leases that a claim ended because their hosts had lost them.
    pub(crate) fn taken_over(&self, rail: &str, leases: u64) {
        self.reaper_requeues.inc_by(leases);
        self.attempts.with_label_values(&[rail, "ZOMBIE_REQUEUE"]).inc_by(leases);
    }
}
