//! Runs a host until it is told to stop.

mod exchanges;
mod record;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use observe::Registry;
use outbox::lease::Executor;
use outbox::read::Reader;
use outbox::{Database, Error, ready};
use rail::{Rails, Rules, Sandbox};
use relayer::{Health, Metrics, callbacks};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::record::LoadRecorder;
use super::adapters;
use super::session::CommandContext;
use crate::config::Config;
use crate::{telemetry, version};
use terminal::BadArgument;
use terminal::print::say;

/// How often the rail files are looked at for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A server that comes up with this host may take this long.
const DATABASE_STARTS_WITHIN: Duration = Duration::from_secs(60);
const DATABASE_ASKED_EVERY: Duration = Duration::from_secs(1);
/// What a shell expects of a program that a signal ended.
const INTERRUPTED: i32 = 130;

#[derive(Debug, Args)]
pub(super) struct Serve {}

impl Serve {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        // From the beginning: a host that is told to stop while it starts also ends well.
        let mut heard = Signals::listen()?;
        let (config, database) = (&session.config, session.database());
        check(config)?;
        let mut options = options(config);
        let sandbox = Arc::new(adapters::sandbox(config)?);
        let executor = Executor::new(database, options.worker_id.clone(), 1);
        let (events, told) = mpsc::unbounded_channel();
        let mut recorder = LoadRecorder::new(told, executor.clone());
        let kept = config.relayer.record_to.as_deref().map(exchanges::keep).transpose()?;
        let (exchanged, keeper) = kept.unzip();
        options.recorder = exchanged;
        let rules = rules(config, options.recorder.is_some());
        let loaded = tokio::select! {
            loaded = Rails::load(&sandbox, &config.rails_folder, rules, events) => loaded,
            () = heard.first() => return Ok(told_early()),
        };
        let rails = match loaded {
            Ok(rails) => Arc::new(rails),
            Err(error) => {
                record_the_rest(recorder, &mut heard).await;
                return Err(error.into());
            }
        };
        let listeners = Listeners::open(config).await?;
        tokio::select! {
            ready = database_is_ready(session) => ready?,
            () = heard.first() => return Ok(told_early()),
        }
        let metrics = Arc::new(Metrics::new(&registry()?)?);
        let (stop, stopped) = watch::channel(false);
        let (reader, draining) = (Reader::new(database), stopped.clone());
        let health = Health { reader, executor, metrics: metrics.clone(), draining };
        let addresses = listeners.addresses()?;
        let Listeners { pages, callbacks } = listeners;
        let hints = take_hints(callbacks, database, sandbox.clone(), rails.clone(), metrics.clone());
        let host =
            relayer::run(database, sandbox.clone(), rails.clone(), metrics.clone(), options.clone(), stopped);
        say_ready(&options.worker_id, &rails, started, &addresses);
        let ended: anyhow::Result<usize> = tokio::select! {
            left = host => left.map_err(Into::into),
            ended = rails.watch(&sandbox, LOOK_EVERY) => match ended {
                Ok(never) => match never {},
                Err(error) => Err(error.into()),
            },
            never = heard.drain(&stop, options.drain) => match never {},
            never = answer(pages, health) => match never {},
            never = hints => match never {},
            never = recorder.hear(&rails, &metrics) => match never {},
        };
        record_the_rest(recorder, &mut heard).await;
        drop(options);
        wait_for(keeper).await;
        say_end(ended?);
        Ok(ExitCode::SUCCESS)
    }
}

fn check(config: &Config) -> anyhow::Result<()> {
    if config.rails.is_empty() {
        return Err(BadArgument(format!("{} has no rails to serve", config.rails_folder.display())).into());
    }
    telemetry::collector::check(config.production)?;
    Ok(())
}

fn options(config: &Config) -> relayer::RelayerOptions {
    let mut options = config.relayer.options(config.retention.months_ahead);
    options.spans = telemetry::tells_spans();
    options
}

fn rules(config: &Config, recorded: bool) -> Rules {
    Rules { production: config.production, recorded, examine: Some(conformance::examine) }
}

/// Whoever keeps the exchanges ends with the last sender.
async fn wait_for(keeper: Option<JoinHandle<()>>) {
    if let Some(keeper) = keeper {
        keeper.await.ok();
    }
}

fn say_ready(worker_id: &str, rails: &Rails, started: Instant, addresses: &str) {
    let names: Vec<_> = rails.all().iter().map(|rail| rail.name.clone()).collect();
    say(&format!(
        "Host {worker_id} serves {}; ready after {} ms{addresses}. SIGTERM or Ctrl-C drains; a second one exits at once.",
        names.join(", "),
        started.elapsed().as_millis()
    ));
}

fn say_end(left: usize) {
    match left {
        0 => say("Drained: nothing is in flight."),
        left => say(&format!(
            "{left} payments were still in flight. Other hosts will query their rails about them."
        )),
    }
}

fn told_early() -> ExitCode {
    say("Stopped before any work was started.");
    ExitCode::SUCCESS
}

/// The last rows are worth a few seconds, unless somebody is in a hurry.
async fn record_the_rest(recorder: LoadRecorder, heard: &mut Signals) {
    tokio::select! {
        () = recorder.finish() => {}
        () = heard.first() => {}
    }
}

/// Waits for a PostgreSQL that is still starting; whatever else is wrong with it ends the start.
async fn database_is_ready(session: &CommandContext) -> anyhow::Result<()> {
    let (asked, facts) = (Instant::now(), session.config.rail_facts());
    let mut told = false;
    loop {
        match ready::verify(session.database(), &facts).await {
            Err(error @ Error::Unreachable(_)) if asked.elapsed() < DATABASE_STARTS_WITHIN => {
                if !std::mem::replace(&mut told, true) {
                    say(&format!("PostgreSQL cannot be reached yet, waiting for it: {error}"));
                }
                tokio::time::sleep(DATABASE_ASKED_EVERY).await;
            }
            done => return Ok(done?),
        }
    }
}

/// Where the host is talked to, as far as it is configured.
struct Listeners {
    pages: Option<TcpListener>,
    callbacks: Option<TcpListener>,
}

impl Listeners {
    async fn open(config: &Config) -> anyhow::Result<Self> {
        let pages = listen(config, "relayer.listen", config.relayer.listen).await?;
        let callbacks = listen(config, "callbacks.listen", config.callbacks.listen).await?;
        Ok(Self { pages, callbacks })
    }

    /// Each behind a semicolon.
    fn addresses(&self) -> std::io::Result<String> {
        let mut told = String::new();
        for (what, listener) in [("pages", &self.pages), ("callbacks", &self.callbacks)] {
            if let Some(listener) = listener {
                told += &format!("; {what} on http://{}", listener.local_addr()?);
            }
        }
        Ok(told)
    }
}

async fn listen(
    config: &Config,
    key: &str,
    address: Option<SocketAddr>,
) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| BadArgument(format!("{}: {key} is {address}: {error}", config.file.display())))?;
    Ok(Some(listener))
}

async fn take_hints(
    listener: Option<TcpListener>,
    database: &Database,
    sandbox: Arc<Sandbox>,
    rails: Arc<Rails>,
    metrics: Arc<Metrics>,
) -> Infallible {
    match listener {
        Some(listener) => callbacks::serve(listener, database, sandbox, rails, metrics).await,
        None => std::future::pending().await,
    }
}

/// With which build runs.
fn registry() -> prometheus::Result<Registry> {
    let registry = Registry::default();
    let build =
        registry.gauges("railhost_build_info", "Which build runs; always 1.", &["version", "commit"])?;
    build.with_label_values(&[env!("CARGO_PKG_VERSION"), version::COMMIT]).set(1);
    Ok(registry)
}

async fn answer(listener: Option<TcpListener>, health: Health) -> Infallible {
    match listener {
        Some(listener) => {
            let counted = health.clone();
            tokio::join!(observe::serve(listener, Arc::new(health)), counted.count_queue()).0
        }
        None => std::future::pending().await,
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// For whoever watches the rail files; until then it must not end the process.
    _hangup: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn first(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// The first signal drains, the second ends the process as it is: the database is consistent at any time.
    async fn drain(&mut self, stop: &watch::Sender<bool>, limit: Duration) -> Infallible {
        loop {
            self.first().await;
            if stop.send_replace(true) {
                std::process::exit(INTERRUPTED);
            }
            say(&format!("Draining, for at most {} s.", limit.as_secs()));
        }
    }
}
