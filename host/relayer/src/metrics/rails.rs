//! The state of each rail.

use observe::Registry;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec};

/// The certificates that a rail file may give.
const CERTIFICATES: [&str; 2] = ["ca", "client"];

/// The state of each rail.
#[derive(Debug)]
pub struct RailMetrics {
    pub(crate) breaker_state: IntGaugeVec,
    pub(crate) closed: IntGaugeVec,
    pub(crate) revoked: IntGaugeVec,
    pub(crate) certificate_expires: GaugeVec,
    pub(crate) float: GaugeVec,
    pub(crate) float_low: IntGaugeVec,
    pub(crate) float_unknown: IntCounterVec,
}

impl RailMetrics {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            breaker_state: registry.gauges(
                "rail_breaker_state",
                "0 closed, 1 one payment may try, 2 open or trying.",
                &["rail"],
            )?,
            closed: registry.gauges(
                "rail_closed",
                "1 while the rail is outside of its hours, and payments wait.",
                &["rail"],
            )?,
            revoked: registry.gauges(
                "rail_revoked",
                "1 where the component of a rail is revoked: nothing is sent until it is replaced.",
                &["rail"],
            )?,
            certificate_expires: registry.amounts(
                "rail_certificate_expires_seconds",
                "When a certificate of a rail ends, in seconds since 1970.",
                &["rail", "certificate"],
            )?,
            float: registry.amounts(
                "rail_float",
                "What is left to pay from, as the rail said last.",
                &["rail", "currency"],
            )?,
            float_low: registry.gauges(
                "rail_float_low",
                "1 while less is left than the rail's floor, and nothing is paid.",
                &["rail", "currency"],
            )?,
            float_unknown: registry.counters(
                "rail_float_unknown_total",
                "Questions about what is left that the rail did not answer.",
                &["rail"],
            )?,
        })
    }

    pub(super) fn expect_rail(&self, rail: &str) {
        for gauge in [&self.breaker_state, &self.closed, &self.revoked] {
            gauge.with_label_values(&[rail]);
        }
        self.float_unknown.with_label_values(&[rail]);
    }

    pub(crate) fn closed(&self, rail: &str, is_closed: bool) {
        self.closed.with_label_values(&[rail]).set(is_closed.into());
    }

    /// What is left, in the currency's smallest unit.
    pub fn float(&self, rail: &str, currency: &str, left_minor: i128, is_low: bool) {
        let unit =
            10_f64.powi(payment::decimals(currency).and_then(|n| i32::try_from(n).ok()).unwrap_or_default());
        self.float.with_label_values(&[rail, currency]).set(left_minor as f64 / unit);
        self.float_low.with_label_values(&[rail, currency]).set(is_low.into());
    }

    pub(crate) fn float_unknown(&self, rail: &str) {
        self.float_unknown.with_label_values(&[rail]).inc();
    }

    pub fn certificate(&self, rail: &str, certificate: &str, expires_unix_seconds: i64) {
        self.certificate_expires.with_label_values(&[rail, certificate]).set(expires_unix_seconds as f64);
    }

    /// All certificates that a rail file gives. One that it gave before and gives no more leaves the gauge.
    pub fn certificates(&self, rail: &str, given: &[(String, i64)]) {
        for name in CERTIFICATES.into_iter().filter(|name| given.iter().all(|(given, _)| given != name)) {
            // Of most rails it was never there.
            self.certificate_expires.remove_label_values(&[rail, name]).ok();
        }
        for (name, expires_unix_seconds) in given {
            self.certificate(rail, name, *expires_unix_seconds);
        }
    }

    pub fn revoked(&self, rail: &str, is_revoked: bool) {
        self.revoked.with_label_values(&[rail]).set(is_revoked.into());
    }

    pub(crate) fn breaker(&self, rail: &str, state: i64) {
        self.breaker_state.with_label_values(&[rail]).set(state);
    }
}
