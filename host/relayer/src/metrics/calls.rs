//! What is counted of calls to each rail and of what it tells us unasked.

use std::time::Duration;

use observe::Registry;
use prometheus::{HistogramVec, IntCounterVec};
use verdict::call_error::CallError;
use verdict::witness::GateRule;

use crate::callback_result::CallbackResult;

const SECONDS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];

/// What is counted of calls to each rail and of what it tells us unasked.
#[derive(Debug)]
pub struct CallMetrics {
    pub(crate) call_seconds: HistogramVec,
    pub(crate) traps: IntCounterVec,
    pub(crate) denied: IntCounterVec,
    pub(crate) vetoes: IntCounterVec,
    pub(crate) stopped: IntCounterVec,
    pub(crate) rate_limited: IntCounterVec,
    pub(crate) callbacks: IntCounterVec,
}

impl CallMetrics {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            call_seconds: registry.histograms(
                "plugin_call_seconds",
                "Time of one call: the adapter, and the wait for its rail.",
                &SECONDS,
            )?,
            traps: registry.counters(
                "plugin_traps_total",
                "Adapter calls that ended in a trap, a limit or a deadline.",
                &["rail", "kind"],
            )?,
            denied: registry.counters(
                "egress_denied_total",
                "Requests that were kept from leaving and readings that were not believed.",
                &["rail", "rule"],
            )?,
            vetoes: registry.counters(
                "adapter_vetoes_total",
                "Verdicts of the host that an adapter vetoed; the rail was queried again.",
                &["rail"],
            )?,
            stopped: registry.counters(
                "rails_stopped_total",
                "Rails that this host paused; a person has to resume them.",
                &["rail"],
            )?,
            rate_limited: registry.counters(
                "rail_rate_limited_total",
                "Claims and calls that the rail's rate held back.",
                &["rail"],
            )?,
            callbacks: registry.counters(
                "callbacks_total",
                "Callbacks of rails, by what became of them.",
                &["rail", "result"],
            )?,
        })
    }

    pub(super) fn expect_rail(&self, rail: &str) {
        for kind in ["deadline", "trap"] {
            self.traps.with_label_values(&[rail, kind]);
        }
        for rule in GateRule::ALL {
            self.denied.with_label_values(&[rail, rule.as_str()]);
        }
        for result in CallbackResult::ALL {
            self.callbacks.with_label_values(&[rail, result.as_str()]);
        }
        for counter in [&self.vetoes, &self.stopped, &self.rate_limited] {
            counter.with_label_values(&[rail]);
        }
        self.call_seconds.with_label_values(&[rail]);
    }

    pub(crate) fn called(&self, rail: &str, took: Duration, failed: Option<&CallError>) {
        self.call_seconds.with_label_values(&[rail]).observe(took.as_secs_f64());
        if let Some(error) = failed {
            self.traps.with_label_values(&[rail, error.kind()]).inc();
        }
    }

    pub(crate) fn denied(&self, rail: &str, rule: &str) {
        self.denied.with_label_values(&[rail, rule]).inc();
    }

    pub(crate) fn vetoed(&self, rail: &str) {
        self.vetoes.with_label_values(&[rail]).inc();
    }

    pub(crate) fn stopped(&self, rail: &str) {
        self.stopped.with_label_values(&[rail]).inc();
    }

    pub(crate) fn rate_limited(&self, rail: &str) {
        self.rate_limited.with_label_values(&[rail]).inc();
    }
}
