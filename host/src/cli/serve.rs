//! Runs a host until it is told to stop.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use railhost::callbacks;
use railhost::observe::{self, Health, Metrics};
use railhost::outbox::lease::{Executor, RailLoad};
use railhost::outbox::read::Reader;
use railhost::outbox::{Database, Error, ready};
use railhost::rail::{LoadEvent, LoadOutcome, Rails, Rules};
use railhost::relayer;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::watch;

use super::print::say;
use super::session::Session;
use super::{BadArgument, adapters};
use crate::config::Config;
use crate::telemetry;

/// How often the rails' files are looked at for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A server that comes up with this host may take this long.
const DATABASE_STARTS_WITHIN: Duration = Duration::from_secs(60);
const DATABASE_ASKED_EVERY: Duration = Duration::from_secs(1);
const RECORDED_AGAIN: Duration = Duration::from_secs(5);
/// What a shell expects of a program that a signal ended.
const INTERRUPTED: i32 = 130;

#[derive(Debug, Args)]
pub(super) struct Serve {}

impl Serve {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        // From the beginning: a host that is told to stop while it starts also ends well.
        let mut heard = Signals::listen()?;
        let (config, database) = (&session.config, session.database());
        if config.rails.is_empty() {
            return Err(
                BadArgument(format!("{} has no rails to serve", config.rails_folder.display())).into()
            );
        }
        check_collector(config.production)?;
        let mut options = config.relayer.options(config.retention.months_ahead);
        options.spans = telemetry::tells_spans();
        let sandbox = Arc::new(adapters::sandbox(config)?);
        let (events, loads) = mpsc::unbounded_channel();
        let rails = Arc::new(
            Rails::load(&sandbox, &config.rails_folder, Rules { production: config.production }, events)
                .await?,
        );
        let listener = listen(config, "relayer.listen", config.relayer.listen).await?;
        let callbacks = listen(config, "callbacks.listen", config.callbacks.listen).await?;
        tokio::select! {
            ready = database_is_ready(session) => ready?,
            () = heard.first() => {
                say("Told to stop before anything was begun.");
                return Ok(ExitCode::SUCCESS);
            }
        }
        let metrics = Arc::new(Metrics::new()?);
        let (stop, stopped) = watch::channel(false);
        let executor = Executor::new(database, options.worker_id.clone(), 1);
        let health = Health {
            reader: Reader::new(database),
            executor: executor.clone(),
            metrics: metrics.clone(),
            draining: stopped.clone(),
        };
        let mut pages = String::new();
        for (what, listener) in [("pages", &listener), ("callbacks", &callbacks)] {
            if let Some(listener) = listener {
                pages += &format!("; {what} on http://{}", listener.local_addr()?);
            }
        }
        let names: Vec<_> = rails.all().iter().map(|rail| rail.name.clone()).collect();
        let hints = take_hints(callbacks, database, &rails, metrics.clone());
        let records = record_loads(loads, executor, rails.clone(), metrics.clone());
        let host = relayer::run(database, sandbox.clone(), rails.clone(), metrics, options.clone(), stopped);
        say(&format!(
            "Host {} serves {}; ready after {} ms{pages}. SIGTERM or Ctrl-C drains, a second one ends at once.",
            options.worker_id,
            names.join(", "),
            started.elapsed().as_millis()
        ));
        let left = tokio::select! {
            left = host => left?,
            ended = rails.watch(&sandbox, LOOK_EVERY) => match ended? {},
            never = heard.drain(&stop, options.drain) => match never {},
            never = answer(listener, health) => match never {},
            never = hints => match never {},
            never = records => match never {},
        };
        match left {
            0 => say("Drained: nothing is in flight."),
            left => say(&format!("{left} payments were still in flight; other hosts ask about them.")),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Waits for a PostgreSQL that is still starting; whatever else is wrong with it ends the start.
async fn database_is_ready(session: &Session) -> anyhow::Result<()> {
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

/// What payments are about does not travel in the clear.
fn check_collector(production: bool) -> Result<(), BadArgument> {
    let plain = telemetry::collector().filter(|collector| production && !collector.starts_with("https:"));
    plain.map_or(Ok(()), |collector| {
        Err(BadArgument(format!("the collector is {collector}, expected https: production is true")))
    })
}

/// Every load and refusal of a rail stands in the database, however long that takes.
async fn record_loads(
    mut loads: UnboundedReceiver<LoadEvent>,
    executor: Executor,
    rails: Arc<Rails>,
    metrics: Arc<Metrics>,
) -> Infallible {
    loop {
        let Some(event) = loads.recv().await else { return std::future::pending().await };
        if event.added {
            tracing::warn!(
                rail = event.rail,
                "{}: its file is new; this host serves it after a restart",
                event.rail
            );
        }
        for rail in rails.all() {
            for (certificate, expires) in rail.current().certificates() {
                metrics.certificate(&rail.name, certificate, *expires);
            }
        }
        let load = RailLoad {
            rail_type: event.rail,
            outcome: match event.outcome {
                LoadOutcome::Loaded => "LOADED",
                LoadOutcome::Refused => "REFUSED",
                LoadOutcome::Revoked => "REVOKED",
            },
            component: event.component.map(|digest| *digest.as_bytes()),
            file: *event.file.as_bytes(),
            detail: event.detail,
        };
        while let Err(error) = executor.note_rail_load(&load).await {
            tracing::warn!(%error, "a load of {} is not recorded yet: {error}", load.rail_type);
            tokio::time::sleep(RECORDED_AGAIN).await;
        }
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
    rails: &Rails,
    metrics: Arc<Metrics>,
) -> Infallible {
    match listener {
        Some(listener) => callbacks::serve(listener, database, rails, metrics).await,
        None => std::future::pending().await,
    }
}

async fn answer(listener: Option<TcpListener>, health: Health) -> Infallible {
    match listener {
        Some(listener) => observe::serve(listener, health).await,
        None => std::future::pending().await,
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// For whoever watches the rails' files; until then it must not end the process.
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
    async fn drain(mut self, stop: &watch::Sender<bool>, limit: Duration) -> Infallible {
        loop {
            self.first().await;
            if stop.send_replace(true) {
                std::process::exit(INTERRUPTED);
            }
            say(&format!("Draining, for at most {} s.", limit.as_secs()));
        }
    }
}
