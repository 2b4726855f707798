//! Where what the program says goes: lines on standard error, as text or JSON, and the span of each payment to an
//! OpenTelemetry collector where one is named.
//!
//! One filter stands in front of everything and lets through what anybody wants; behind it each part picks its own. The filters
//! that the library can put in front of single layers forget lines: whoever only asks whether a line would be told leaves them in
//! the wrong state for the next one.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs};

use anyhow::Context as _;
use clap::ValueEnum;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};
use opentelemetry_otlp::{SpanExporter, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use outbox::Notices;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterFn, LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use terminal::BadArgument;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Says which lines are told.
const FILTER: &str = "RAILHOST_LOG";
/// The variables by which OpenTelemetry names a collector; any of them turns the export on.
const COLLECTOR: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
/// By which the collector knows us.
const CLIENT_CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
const CLIENT_KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";

#[derive(Debug)]
pub(crate) struct Telemetry(Option<SdkTracerProvider>);

static TELLS_SPANS: AtomicBool = AtomicBool::new(false);

/// Spans of payments are worth their price: to a collector, and where every step is told.
pub(crate) fn tells_spans() -> bool {
    TELLS_SPANS.load(Ordering::Relaxed)
}

impl Telemetry {
    /// `filter` is what is said where RAILHOST_LOG does not decide.
    pub(crate) fn start(format: LogFormat, filter: &str) -> anyhow::Result<Self> {
        let told = match env::var(FILTER) {
            Ok(asked) => read(&asked)?,
            Err(_) => read(filter)?,
        };
        let provider = exporter()?;
        terminal::print::speak_json(format == LogFormat::Json);
        TELLS_SPANS.store(provider.is_some() || tells_every_step(&told), Ordering::Relaxed);
        subscriber(format, told, provider.as_ref(), io::stderr).init();
        Ok(Self(provider))
    }

    /// Sends what is still on its way to the collector.
    pub(crate) fn end(self) {
        if let Some(Err(error)) = self.0.map(|provider| provider.shutdown()) {
            tracing::warn!(%error, "the last spans did not reach the collector: {error}");
        }
    }
}

/// Lines to a writer, spans to a collector, warnings of the database to whoever waits for its answer.
fn subscriber<W>(
    format: LogFormat,
    told: Targets,
    provider: Option<&SdkTracerProvider>,
    writer: W,
) -> impl Subscriber + Send + Sync + 'static
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let every_step = tells_every_step(&told);
    let lines = fmt::layer().with_writer(writer);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let lines = Picky { events: told.clone(), spans: None, inner: lines };
    let exported = provider.map(|_| Targets::new().with_target("railhost", Level::INFO));
    let spans = provider.zip(exported.clone()).map(|(provider, wanted)| {
        let inner = tracing_opentelemetry::layer().with_tracer(provider.tracer("railhost"));
        Picky { events: wanted.clone(), spans: Some(wanted), inner }
    });
    let loudest = loudest(&told).max(match provider {
        Some(_) => LevelFilter::INFO,
        None => LevelFilter::WARN,
    });
    let anybody = move |metadata: &Metadata<'_>| {
        let (target, level) = (metadata.target(), metadata.level());
        let of_lines = (metadata.is_event() || every_step) && told.would_enable(target, level);
        of_lines
            || exported.as_ref().is_some_and(|exported| exported.would_enable(target, level))
            || Notices::hears(metadata)
    };
    let anybody = FilterFn::new(anybody).with_max_level_hint(loudest);
    registry().with(anybody).with(Notices).with(lines).with(spans)
}

fn loudest(told: &Targets) -> LevelFilter {
    told.iter().map(|(_, level)| level).chain(told.default_level()).max().unwrap_or(LevelFilter::OFF)
}

fn tells_every_step(told: &Targets) -> bool {
    loudest(told) >= LevelFilter::DEBUG
}

fn read(filter: &str) -> anyhow::Result<Targets> {
    let wanted = "expected LEVEL or TARGET=LEVEL, separated by commas, such as info,sqlx=warn,rail=debug";
    filter.parse().map_err(|_| BadArgument::new(format!("{FILTER} is {filter:?}, {wanted}")).into())
}

/// A layer that is told only what it wants.
struct Picky<L> {
    events: Targets,
    /// All of them where none are named: who writes lines has to know every span that a line may stand in.
    spans: Option<Targets>,
    inner: L,
}

impl<L> Picky<L> {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let wanted = match metadata.is_event() {
            true => Some(&self.events),
            false => self.spans.as_ref(),
        };
        wanted.is_none_or(|wanted| wanted.would_enable(metadata.target(), metadata.level()))
    }
}

impl<S, L> Layer<S> for Picky<L>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    L: Layer<S>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if self.wants(attributes.metadata()) {
            self.inner.on_new_span(attributes, id, context);
        }
    }

    fn on_record(&self, span: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if context.metadata(span).is_some_and(|metadata| self.wants(metadata)) {
            self.inner.on_record(span, values, context);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if self.wants(event.metadata()) {
            self.inner.on_event(event, context);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if context.metadata(id).is_some_and(|metadata| self.wants(metadata)) {
            self.inner.on_enter(id, context);
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if context.metadata(id).is_some_and(|metadata| self.wants(metadata)) {
            self.inner.on_exit(id, context);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if context.metadata(&id).is_some_and(|metadata| self.wants(metadata)) {
            self.inner.on_close(id, context);
        }
    }
}

/// The collector that the environment names.
fn collector() -> Option<String> {
    COLLECTOR.iter().rev().find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
}

/// What payments are about does not travel in the clear where money is real.
pub(crate) fn check_collector(production: bool) -> Result<(), BadArgument> {
    judge_collector(production, collector().as_deref())
}

fn judge_collector(production: bool, collector: Option<&str>) -> Result<(), BadArgument> {
    match collector {
        Some(plain) if production && !is_encrypted(plain) => {
            Err(BadArgument::new(format!("the collector is {plain}, expected https: production is true")))
        }
        _ => Ok(()),
    }
}

fn is_encrypted(collector: &str) -> bool {
    collector.starts_with("https:")
}

fn exporter() -> anyhow::Result<Option<SdkTracerProvider>> {
    let Some(collector) = collector() else { return Ok(None) };
    let mut exporter = SpanExporter::builder().with_tonic();
    if is_encrypted(&collector) {
        exporter = exporter.with_tls_config(tls()?);
    }
    let exporter = exporter
        .build()
        .with_context(|| format!("{} names no collector that can be used", COLLECTOR.join(" or ")))?;
    let resource = Resource::builder().with_service_name("railhost").build();
    Ok(Some(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build()))
}

/// The system's roots, or the one that the environment names by OpenTelemetry's variables; a client certificate likewise.
fn tls() -> anyhow::Result<ClientTlsConfig> {
    let file = |name: &str| -> anyhow::Result<Option<Vec<u8>>> {
        let Ok(path) = env::var(name) else { return Ok(None) };
        fs::read(&path).map(Some).with_context(|| format!("{name} is {path}, which cannot be read"))
    };
    let mut tls = match file("OTEL_EXPORTER_OTLP_CERTIFICATE")? {
        Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
        None => ClientTlsConfig::new().with_enabled_roots(),
    };
    if let Some(identity) = identity(file(CLIENT_CERTIFICATE)?, file(CLIENT_KEY)?)? {
        tls = tls.identity(identity);
    }
    Ok(tls)
}

/// Half of it would be left out silently, and the collector would turn us away without saying why.
fn identity(certificate: Option<Vec<u8>>, key: Option<Vec<u8>>) -> Result<Option<Identity>, BadArgument> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(Identity::from_pem(certificate, key))),
        (None, None) => Ok(None),
        _ => Err(BadArgument::new(format!(
            "only one of {CLIENT_CERTIFICATE} and {CLIENT_KEY} is set, expected both or none"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use tracing::{debug, error, info, trace, warn};

    use super::*;

    /// What was written, by whichever thread.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("written").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const ROUNDS: usize = 1_000;

    /// Each line has a place of its own in the program, and so is asked about by itself.
    macro_rules! say {
        ($level:ident) => {{
            $level!(target: "relayer", "a line");
            $level!(target: "rail::watch", "a line");
            $level!(target: "sqlx::query", "a line");
        }};
    }

    /// Three targets, five levels, and whoever asks whether a line would be told without telling it.
    fn say_everything() {
        for _ in 0..ROUNDS {
            let _inside = tracing::info_span!("payment").entered();
            for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                let asked = match level {
                    Level::ERROR => tracing::enabled!(target: "sqlx::query", Level::ERROR),
                    Level::WARN => tracing::enabled!(target: "sqlx::query", Level::WARN),
                    Level::INFO => tracing::enabled!(target: "sqlx::query", Level::INFO),
                    Level::DEBUG => tracing::enabled!(target: "sqlx::query", Level::DEBUG),
                    _ => tracing::enabled!(target: "sqlx::query", Level::TRACE),
                };
                std::hint::black_box(asked);
                match level {
                    Level::ERROR => say!(error),
                    Level::WARN => say!(warn),
                    Level::INFO => say!(info),
                    Level::DEBUG => say!(debug),
                    _ => say!(trace),
                }
            }
        }
    }

    #[test]
    fn no_line_is_lost_and_none_is_told_unasked() {
        let provider = SdkTracerProvider::builder().build();
        for (filter, lines_per_round) in [
            ("off", 0),
            ("error", 3),
            ("warn", 6),
            ("info", 9),
            ("debug", 12),
            ("trace", 15),
            ("info,sqlx=warn", 8),
            ("info,sqlx=warn,rail=debug", 9),
            ("warn,relayer=debug", 8),
            ("railhost=trace", 10),
            ("railhost=trace,sqlx=debug", 14),
            ("error,sqlx=off", 2),
        ] {
            for exported in [None, Some(&provider)] {
                let written = Written::default();
                let to = written.clone();
                let told = read(filter).expect("a filter");
                let subscriber = subscriber(LogFormat::Json, told, exported, move || to.clone());
                tracing::subscriber::with_default(subscriber, say_everything);
                let written = written.0.lock().expect("written");
                let lines = String::from_utf8_lossy(&written);
                let lines: Vec<Value> =
                    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
                assert_eq!(
                    lines.len(),
                    ROUNDS * lines_per_round,
                    "{filter}, exported: {}",
                    exported.is_some()
                );
            }
        }
    }

    #[test]
    fn a_filter_that_cannot_be_read_says_what_is_wanted() {
        let problem = format!("{:#}", read("railhost=loud").expect_err("no level"));
        assert!(problem.contains("RAILHOST_LOG") && problem.contains("TARGET=LEVEL"), "{problem}");
    }

    #[test]
    fn production_takes_no_collector_in_the_clear() {
        for plain in ["http://collector:4317", "collector:4317", "HTTP://collector"] {
            let refused = judge_collector(true, Some(plain)).expect_err("it is not encrypted").to_string();
            assert!(refused.contains(plain) && refused.contains("expected https"), "{refused}");
            judge_collector(false, Some(plain)).expect("a host for development takes it");
        }
        judge_collector(true, Some("https://collector:4317")).expect("it is encrypted");
        judge_collector(true, None).expect("nothing travels");
    }

    #[test]
    fn a_client_certificate_without_its_key_is_refused_by_both_names() {
        let pem = || Some(b"pem".to_vec());
        for (certificate, key) in [(pem(), None), (None, pem())] {
            let refused = identity(certificate, key).expect_err("half of it").to_string();
            assert!(refused.contains(CLIENT_CERTIFICATE) && refused.contains(CLIENT_KEY), "{refused}");
        }
        assert!(identity(pem(), pem()).is_ok_and(|both| both.is_some()));
        assert!(identity(None, None).is_ok_and(|none| none.is_none()));
    }
}
