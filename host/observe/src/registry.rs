//! Metrics by name, made where they are counted.

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, TextEncoder,
};

/// All metrics of a process. Each room makes its own in it; two of one name are an error.
#[derive(Debug, Clone, Default)]
pub struct Registry(prometheus::Registry);

impl Registry {
    /// In the format that Prometheus reads.
    pub fn text(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.0.gather())
    }

    pub fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.add(IntCounter::new(name, help)?)
    }

    pub fn counters(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.add(IntGauge::new(name, help)?)
    }

    pub fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// Gauges that are not whole numbers.
    pub fn amounts(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<GaugeVec> {
        self.add(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub fn seconds(&self, name: &str, help: &str) -> prometheus::Result<Gauge> {
        self.add(Gauge::new(name, help)?)
    }

    pub fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<Histogram> {
        self.add(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
    }

    /// One by rail.
    pub fn histograms(&self, name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<HistogramVec> {
        self.add(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &["rail"])?)
    }

    fn add<M: Clone + prometheus::core::Collector + 'static>(&self, metric: M) -> prometheus::Result<M> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}
