//! Where what the program says goes: lines on standard error, as text or JSON, and the span of each payment to an
//! OpenTelemetry collector where one is named.
//!
//! One filter stands in front of everything and lets through what anybody wants; behind it each part picks its own. The filters
//! that the library can put in front of single layers forget lines: whoever only asks whether a line would be told leaves them in
//! the wrong state for the next one.

pub(crate) mod collector;

use std::env;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use opentelemetry::trace::TracerProvider;
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
/// The crates of this program that say anything. `railhost` in a filter means all of them.
const ROOMS: [&str; 6] = ["dev", "observe", "outbox", "rail", "railhost", "relayer"];

#[derive(Debug)]
pub(crate) struct Telemetry(Option<SdkTracerProvider>);

static SPANS_WANTED: AtomicBool = AtomicBool::new(false);

/// Spans of payments are worth their price: to a collector, and where every step is told.
pub(crate) fn tells_spans() -> bool {
    SPANS_WANTED.load(Ordering::Relaxed)
}

impl Telemetry {
    /// `filter` is what is said where RAILHOST_LOG does not decide.
    pub(crate) fn start(format: LogFormat, filter: &str) -> anyhow::Result<Self> {
        let told = match env::var(FILTER) {
            Ok(asked) => read(&asked)?,
            Err(_) => read(filter)?,
        };
        let provider = collector::exporter()?;
        terminal::print::speak_json(format == LogFormat::Json);
        SPANS_WANTED.store(provider.is_some() || tells_every_step(&told), Ordering::Relaxed);
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
    let lines = FilteredLayer { events: told.clone(), spans: None, inner: lines };
    let exported = provider.map(|_| Targets::new().with_targets(ROOMS.map(|room| (room, Level::INFO))));
    let spans = provider.zip(exported.clone()).map(|(provider, wanted)| {
        let inner = tracing_opentelemetry::layer().with_tracer(provider.tracer("railhost"));
        FilteredLayer { events: wanted.clone(), spans: Some(wanted), inner }
    });
    let max_level = max_level(&told).max(match provider {
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
    let anybody = FilterFn::new(anybody).with_max_level_hint(max_level);
    registry().with(anybody).with(Notices).with(lines).with(spans)
}

fn max_level(told: &Targets) -> LevelFilter {
    told.iter().map(|(_, level)| level).chain(told.default_level()).max().unwrap_or(LevelFilter::OFF)
}

fn tells_every_step(told: &Targets) -> bool {
    max_level(told) >= LevelFilter::DEBUG
}

fn read(filter: &str) -> anyhow::Result<Targets> {
    let wanted = "expected LEVEL or TARGET=LEVEL, separated by commas, such as info,sqlx=warn,rail=debug";
    let asked: Targets =
        filter.parse().map_err(|_| BadArgument::new(format!("{FILTER} is {filter:?}, {wanted}")))?;
    let of_all = asked.iter().find(|(target, _)| *target == "railhost").map(|(_, level)| level);
    let unnamed = ROOMS.into_iter().filter(|room| !asked.iter().any(|(target, _)| target == *room));
    let rooms: Vec<_> = unnamed.zip(std::iter::repeat(of_all)).collect();
    Ok(asked.with_targets(rooms.into_iter().filter_map(|(room, level)| Some((room, level?)))))
}

/// A layer that is told only what it wants.
struct FilteredLayer<L> {
    events: Targets,
    /// All of them where none are named: who writes lines has to know every span that a line may stand in.
    spans: Option<Targets>,
    inner: L,
}

impl<L> FilteredLayer<L> {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let wanted = match metadata.is_event() {
            true => Some(&self.events),
            false => self.spans.as_ref(),
        };
        wanted.is_none_or(|wanted| wanted.would_enable(metadata.target(), metadata.level()))
    }
}

impl<S, L> Layer<S> for FilteredLayer<L>
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
            ("railhost=trace,relayer=warn", 7),
            ("railhost=off,rail=debug", 4),
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
}
