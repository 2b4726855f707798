use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};

use crate::callbacks::Hint;
use crate::outbox::lease::Repaired;
use crate::outbox::read::QueueCount;
use crate::outbox::unconfirmed_commits;
use crate::rail::{CallError, Rule};

/// All that a host counts. Label values come from configuration and from closed lists, never from a guest or a rail.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub notify_wakeups: IntCounter,
    pub poll_wakeups: IntCounter,
    pub claim_batches: IntCounter,
    pub claims_failed: IntCounter,
    pub queue_counts_failed: IntCounter,
    pub claim_seconds: Histogram,
    pub reaper_requeues: IntCounter,
    pub lease_lost: IntCounter,
    pub late_answers: IntCounter,
    pub clock_moved_back: IntCounter,
    pub terminal_guard_hits: IntCounter,
    pub writes_failed: IntCounter,
    pub writes_waiting: IntGauge,
    pub handed_back: IntCounter,
    pub held: IntCounter,
    pub unused: IntCounter,
    pub differing_hosts: IntGauge,
    pub history_days_left: Gauge,
    unconfirmed_commits: IntGauge,
    denied: IntCounterVec,
    vetoes: IntCounterVec,
    stopped: IntCounterVec,
    certificate_expires: GaugeVec,
    revoked: IntGaugeVec,
    pub retry_depth: Histogram,
    pub zombie_recovery_seconds: Histogram,
    rate_limited: IntCounterVec,
    attempts: IntCounterVec,
    dispatch_latency_ms: HistogramVec,
    call_seconds: HistogramVec,
    traps: IntCounterVec,
    breaker_state: IntGaugeVec,
    pending_depth: IntGaugeVec,
    leased: IntGauge,
    stuck: IntGauge,
    dead_letters: IntGauge,
    oldest_pending_age_seconds: Gauge,
    longest_wait_seconds: Gauge,
    attempts_pending: IntCounterVec,
    callbacks: IntCounterVec,
    closed: IntGaugeVec,
    float: GaugeVec,
    float_low: IntGaugeVec,
    float_unknown: IntCounterVec,
    expected: Mutex<BTreeSet<String>>,
}

const MILLISECONDS: [f64; 13] =
    [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0, 30_000.0];
const SECONDS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];
const RECOVERY: [f64; 8] = [1.0, 5.0, 15.0, 30.0, 45.0, 60.0, 120.0, 600.0];
const ATTEMPTS: [f64; 6] = [1.0, 2.0, 3.0, 5.0, 10.0, 20.0];
/// The certificates that a rail's file may give.
const CERTIFICATES: [&str; 2] = ["ca", "client"];

impl Metrics {
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let in_registry = Maker(&registry);
        let build = in_registry.gauges("railhost_build_info", "Which build runs; always 1.", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Ok(Self {
            notify_wakeups: in_registry.counter("notify_wakeups_total", "Bells that were heard.")?,
            poll_wakeups: in_registry.counter("poll_wakeups_total", "Looks at the queue without a bell.")?,
            claim_batches: in_registry.counter("claim_batches_total", "Claims that brought payments.")?,
            claims_failed: in_registry
                .counter("claims_failed_total", "Claims that the database did not answer.")?,
            queue_counts_failed: in_registry.counter(
                "queue_counts_failed_total",
                "Counts of the queue that the database did not answer.",
            )?,
            claim_seconds: in_registry.histogram(
                "poll_duration_seconds",
                "How long a claim takes.",
                &SECONDS,
            )?,
            reaper_requeues: in_registry
                .counter("reaper_requeues_total", "Expired leases that were ended.")?,
            lease_lost: in_registry.counter("lease_lost_total", "Outcomes that came after their lease.")?,
            late_answers: in_registry.counter("late_answers_total", "Late answers that were kept.")?,
            clock_moved_back: in_registry.counter(
                "database_clock_moved_back_total",
                "Claims that were earlier than the one before.",
            )?,
            terminal_guard_hits: in_registry
                .counter("terminal_guard_hits_total", "Second verdicts that the last guard refused.")?,
            writes_failed: in_registry.counter(
                "outcome_writes_failed_total",
                "Writes of outcomes that the database did not take.",
            )?,
            writes_waiting: in_registry.gauge(
                "outcome_writes_waiting",
                "Batches that cannot be written now; the host takes nothing new meanwhile.",
            )?,
            handed_back: in_registry.counter(
                "claims_handed_back_total",
                "Payments of claims whose answer never came, handed back.",
            )?,
            unused: in_registry
                .counter("leases_unused_total", "Leases that went back before anything was sent.")?,
            held: in_registry
                .counter("payments_held_total", "Payments that met a rail which cannot pay now.")?,
            differing_hosts: in_registry.gauge(
                "hosts_differing",
                "Rails that another live host runs with another component or file.",
            )?,
            history_days_left: in_registry.seconds(
                "history_days_left",
                "Days until the last month of the history that exists is over.",
            )?,
            unconfirmed_commits: in_registry.gauge(
                "unconfirmed_commits_total",
                "Commits that PostgreSQL answered with a warning: a standby may not have them.",
            )?,
            stopped: in_registry.counters(
                "rails_stopped_total",
                "Rails that this host had paused until a person resumes them.",
                &["rail"],
            )?,
            denied: in_registry.counters(
                "egress_denied_total",
                "Requests that were kept from leaving and readings that were not believed.",
                &["rail", "rule"],
            )?,
            vetoes: in_registry.counters(
                "adapter_vetoes_total",
                "Verdicts of the host that an adapter did not bear out: the rail was asked again.",
                &["rail"],
            )?,
            certificate_expires: in_registry.amounts(
                "rail_certificate_expires_seconds",
                "When a certificate of a rail ends, in seconds since 1970.",
                &["rail", "certificate"],
            )?,
            revoked: in_registry.gauges(
                "rail_revoked",
                "1 where the component of a rail is revoked: nothing is sent until it is replaced.",
                &["rail"],
            )?,
            retry_depth: in_registry.histogram(
                "retry_depth",
                "Attempts of a payment at its verdict.",
                &ATTEMPTS,
            )?,
            zombie_recovery_seconds: in_registry.histogram(
                "zombie_recovery_seconds",
                "From the claim of a host that lost its lease to the next claim.",
                &RECOVERY,
            )?,
            rate_limited: in_registry.counters(
                "rail_rate_limited_total",
                "Claims and calls that the rail's rate held back.",
                &["rail"],
            )?,
            attempts: in_registry.counters("attempts_total", "Attempts written.", &["rail", "state"])?,
            dispatch_latency_ms: in_registry.histograms(
                "dispatch_latency_ms",
                "From the claim to the durable outcome.",
                &MILLISECONDS,
            )?,
            call_seconds: in_registry.histograms("plugin_call_seconds", "Time in an adapter.", &SECONDS)?,
            traps: in_registry.counters(
                "plugin_traps_total",
                "Calls that an adapter did not end itself.",
                &["rail", "kind"],
            )?,
            breaker_state: in_registry.gauges(
                "rail_breaker_state",
                "0 closed, 1 one payment may try, 2 open or trying.",
                &["rail"],
            )?,
            pending_depth: in_registry.gauges(
                "outbox_pending_depth",
                "Payments without a verdict.",
                &["rail"],
            )?,
            leased: in_registry.gauge("leased_count", "Payments that a host holds.")?,
            stuck: in_registry.gauge("stuck_dispatching_count", "Leases that have expired.")?,
            dead_letters: in_registry.gauge("dlq_depth", "Failed payments in the history that is kept.")?,
            oldest_pending_age_seconds: in_registry
                .seconds("oldest_pending_age_seconds", "Age of the oldest payment without a verdict.")?,
            longest_wait_seconds: in_registry
                .seconds("longest_wait_seconds", "How long a payment has been due that no host took.")?,
            callbacks: in_registry.counters(
                "callbacks_total",
                "Callbacks of rails, by what became of them.",
                &["rail", "hint"],
            )?,
            closed: in_registry.gauges(
                "rail_closed",
                "1 while the rail is outside of its hours, and payments wait.",
                &["rail"],
            )?,
            float: in_registry.amounts(
                "rail_float",
                "What is left to pay from, as the rail said last.",
                &["rail", "currency"],
            )?,
            float_low: in_registry.gauges(
                "rail_float_low",
                "1 while less is left than the rail's floor, and nothing is paid.",
                &["rail", "currency"],
            )?,
            float_unknown: in_registry.counters(
                "rail_float_unknown_total",
                "Questions about what is left that the rail did not answer.",
                &["rail"],
            )?,
            attempts_pending: in_registry.counters(
                "attempts_pending_total",
                "Attempts after which the rail has the payment and will say more.",
                &["rail"],
            )?,
            expected: Mutex::default(),
            registry,
        })
    }

    /// From 0 on: a rail that nothing happened on yet is there all the same, and its first failure is seen to be one.
    pub(crate) fn expect_rail(&self, rail: &str) {
        for state in ["DISPATCHED", "RETRYABLE", "FAILED", "ZOMBIE_REQUEUE"] {
            self.attempts.with_label_values(&[rail, state]);
        }
        for kind in ["deadline", "trap"] {
            self.traps.with_label_values(&[rail, kind]);
        }
        for rule in Rule::ALL {
            self.denied.with_label_values(&[rail, rule.as_str()]);
        }
        self.vetoes.with_label_values(&[rail]);
        self.closed.with_label_values(&[rail]);
        self.float_unknown.with_label_values(&[rail]);
        for hint in Hint::ALL {
            self.callbacks.with_label_values(&[rail, hint.as_str()]);
        }
        self.stopped.with_label_values(&[rail]);
        self.attempts_pending.with_label_values(&[rail]);
        self.dispatch_latency_ms.with_label_values(&[rail]);
        self.call_seconds.with_label_values(&[rail]);
        self.rate_limited.with_label_values(&[rail]);
        self.breaker_state.with_label_values(&[rail]);
        self.revoked.with_label_values(&[rail]);
        self.pending_depth.with_label_values(&[rail]);
        self.expected.lock().unwrap_or_else(PoisonError::into_inner).insert(rail.to_owned());
    }

    /// In the format that Prometheus reads.
    pub fn text(&self) -> prometheus::Result<String> {
        self.unconfirmed_commits.set(i64::try_from(unconfirmed_commits()).unwrap_or(i64::MAX));
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    pub(crate) fn called(&self, rail: &str, took: Duration, failed: Option<&CallError>) {
        self.call_seconds.with_label_values(&[rail]).observe(took.as_secs_f64());
        if let Some(error) = failed {
            self.traps.with_label_values(&[rail, error.kind()]).inc();
        }
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

    /// Leases that a claim ended because their hosts had lost them.
    pub(crate) fn taken_over(&self, rail: &str, leases: u64) {
        self.reaper_requeues.inc_by(leases);
        self.attempts.with_label_values(&[rail, "ZOMBIE_REQUEUE"]).inc_by(leases);
    }

    /// Leases that repair ended, of any host and over any rail.
    pub(crate) fn repaired(&self, leases: &[Repaired]) {
        self.reaper_requeues.inc_by(leases.len() as u64);
        for lease in leases {
            self.attempts.with_label_values(&[self.label(&lease.rail_type), lease.state.as_str()]).inc();
            if lease.state != "ZOMBIE_REQUEUE" {
                self.retry_depth.observe(f64::from(lease.attempt_no));
            }
        }
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

    /// The rail's name is the caller's to choose.
    pub(crate) fn called_back(&self, rail: &str, hint: Hint) {
        self.callbacks.with_label_values(&[self.label(rail), hint.as_str()]).inc();
    }

    /// A rail that we do not serve is like any other: names are free text elsewhere, and labels must not grow with them.
    fn label<'r>(&self, rail: &'r str) -> &'r str {
        match self.expected.lock().unwrap_or_else(PoisonError::into_inner).contains(rail) {
            true => rail,
            false => "(other)",
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

    pub fn certificate(&self, rail: &str, certificate: &str, expires_unix_seconds: i64) {
        self.certificate_expires.with_label_values(&[rail, certificate]).set(expires_unix_seconds as f64);
    }

    /// All that a rail's file gives; what it gave before and gives no more ends for nobody.
    pub fn certificates(&self, rail: &str, given: &[(String, i64)]) {
        for name in CERTIFICATES.into_iter().filter(|name| given.iter().all(|(given, _)| given != name)) {
            // Not there already, of most rails.
            self.certificate_expires.remove_label_values(&[rail, name]).ok();
        }
        for (name, expires_unix_seconds) in given {
            self.certificate(rail, name, *expires_unix_seconds);
        }
    }

    pub fn revoked(&self, rail: &str, is_revoked: bool) {
        self.revoked.with_label_values(&[rail]).set(is_revoked.into());
    }

    pub(crate) fn rate_limited(&self, rail: &str) {
        self.rate_limited.with_label_values(&[rail]).inc();
    }

    pub(crate) fn breaker(&self, rail: &str, state: i64) {
        self.breaker_state.with_label_values(&[rail]).set(state);
    }

    /// What the database counts for all hosts together. Rails that this host does not serve are one.
    pub fn queue(&self, counts: &[QueueCount]) {
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_closed = |rail: &&String| self.closed.with_label_values(&[rail.as_str()]).get() == 1;
        let closed: BTreeSet<&str> = expected.iter().filter(is_closed).map(String::as_str).collect();
        let depth = |rail: &str| counts.iter().find(|found| found.rail_type.as_deref() == Some(rail));
        for rail in &expected {
            self.pending_depth.with_label_values(&[rail]).set(depth(rail).map_or(0, |found| found.pending));
        }
        let strangers = counts
            .iter()
            .filter(|found| found.rail_type.as_ref().is_some_and(|name| !expected.contains(name)));
        self.pending_depth.with_label_values(&["(other)"]).set(strangers.map(|found| found.pending).sum());
        if let Some(total) = counts.iter().find(|found| found.rail_type.is_none()) {
            self.leased.set(total.leased_count);
            self.stuck.set(total.expired_lease_count);
            self.dead_letters.set(total.dead_letters.unwrap_or(0));
            self.oldest_pending_age_seconds.set(total.oldest_pending_age_seconds.unwrap_or(0.0));
            // Nobody is to be woken for a bank that is closed.
            let is_open =
                |count: &&QueueCount| count.rail_type.as_deref().is_some_and(|rail| !closed.contains(rail));
            let waits = counts.iter().filter(is_open).filter_map(|count| count.longest_wait_seconds);
            self.longest_wait_seconds.set(waits.fold(0.0, f64::max));
        }
    }
}

/// Makes metrics that are in the registry.
struct Maker<'r>(&'r Registry);

impl Maker<'_> {
    fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.add(IntCounter::new(name, help)?)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.add(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn amounts(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<GaugeVec> {
        self.add(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn seconds(&self, name: &str, help: &str) -> prometheus::Result<Gauge> {
        self.add(Gauge::new(name, help)?)
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<Histogram> {
        self.add(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
    }

    fn histograms(&self, name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<HistogramVec> {
        self.add(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &["rail"])?)
    }

    fn add<M: Clone + prometheus::core::Collector + 'static>(&self, metric: M) -> prometheus::Result<M> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_repair_wrote_is_counted_by_rail_and_state() {
        let metrics = Metrics::new().expect("distinct names");
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
        let metrics = Metrics::new().expect("distinct names");
        metrics.expect_rail("bank");
        let count = |rail: Option<&str>, wait: f64| QueueCount {
            rail_type: rail.map(str::to_owned),
            longest_wait_seconds: Some(wait),
            ..QueueCount::default()
        };
        let counts = [count(Some("bank"), 9_000.0), count(Some("mtn"), 7.0), count(None, 9_000.0)];
        metrics.queue(&counts);
        assert!(has(&metrics, "longest_wait_seconds 9000"));
        metrics.closed("bank", true);
        metrics.queue(&counts);
        assert!(has(&metrics, "longest_wait_seconds 7"));
    }

    fn has(metrics: &Metrics, line: &str) -> bool {
        metrics.text().expect("text").lines().any(|found| found == line)
    }

    #[test]
    fn a_certificate_that_left_the_rails_file_leaves_the_gauge() {
        let metrics = Metrics::new().expect("distinct names");
        let (ca, client) = (("ca".to_owned(), 7), ("client".to_owned(), 8));
        metrics.certificates("bank", &[ca.clone(), client.clone()]);
        metrics.certificates("mtn", &[client]);
        let of_client = |rail: &str| {
            format!("rail_certificate_expires_seconds{{certificate=\"client\",rail=\"{rail}\"}} 8")
        };
        assert!(has(&metrics, &of_client("bank")) && has(&metrics, &of_client("mtn")));
        metrics.certificates("bank", &[ca]);
        assert!(!has(&metrics, &of_client("bank")) && has(&metrics, &of_client("mtn")));
        assert!(has(&metrics, r#"rail_certificate_expires_seconds{certificate="ca",rail="bank"} 7"#));
    }

    #[test]
    fn a_revoked_component_shows_until_it_is_replaced() {
        let metrics = Metrics::new().expect("distinct names");
        metrics.expect_rail("mtn");
        let is = |value| has(&metrics, &format!("rail_revoked{{rail=\"mtn\"}} {value}"));
        assert!(is(0));
        metrics.revoked("mtn", true);
        assert!(is(1));
        metrics.revoked("mtn", false);
        assert!(is(0));
    }
}
