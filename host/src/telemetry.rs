//! Where what the program says goes: lines on standard error, as text or JSON, and the span of each payment to an
//! OpenTelemetry collector where one is named.

use std::env;
use std::io::{self, IsTerminal};

use anyhow::Context;
use clap::ValueEnum;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Level;
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The variables by which OpenTelemetry names a collector; any of them turns the export on.
const COLLECTOR: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

#[derive(Debug)]
pub(crate) struct Telemetry(Option<SdkTracerProvider>);

impl Telemetry {
    /// `filter` is what is said where RAILHOST_LOG does not decide.
    pub(crate) fn start(format: LogFormat, filter: &str) -> anyhow::Result<Self> {
        let lines = fmt::layer().with_writer(io::stderr);
        let lines = match format {
            LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
        };
        let filter = EnvFilter::try_from_env("RAILHOST_LOG").unwrap_or_else(|_| EnvFilter::new(filter));
        // A line says itself which payment it is about. The span of a payment is worth its price where every step is told, and to
        // a collector. The level is said once more, for without it whatever any library mumbles is asked about one by one.
        let level = filter.max_level_hint().unwrap_or(LevelFilter::TRACE);
        let told = filter_fn(move |metadata| {
            *metadata.level() <= level && (level >= LevelFilter::DEBUG || metadata.is_event())
        });
        let lines = lines.with_filter(filter.and(told.with_max_level_hint(level)));
        let provider = exporter()?;
        match &provider {
            None => registry().with(lines).init(),
            Some(provider) => {
                let spans = tracing_opentelemetry::layer()
                    .with_tracer(provider.tracer("railhost"))
                    .with_filter(Targets::new().with_target("railhost", Level::INFO));
                registry().with(lines).with(spans).init();
            }
        }
        Ok(Self(provider))
    }

    /// Sends what is still on its way to the collector.
    pub(crate) fn end(self) {
        if let Some(Err(error)) = self.0.map(|provider| provider.shutdown()) {
            tracing::warn!(%error, "the last spans did not reach the collector: {error}");
        }
    }
}

fn exporter() -> anyhow::Result<Option<SdkTracerProvider>> {
    if !COLLECTOR.iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty())) {
        return Ok(None);
    }
    let exporter = SpanExporter::builder()
        .with_tonic()
        .build()
        .with_context(|| format!("{} names no collector that can be used", COLLECTOR.join(" or ")))?;
    let resource = Resource::builder().with_service_name("railhost").build();
    Ok(Some(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build()))
}
