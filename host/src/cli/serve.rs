//! Runs a host until it is told to stop.

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use railhost::observe::{self, Health, Metrics};
use railhost::outbox::ready;
use railhost::rail::{Options, Rails, Sandbox};
use railhost::relayer;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::BadArgument;
use super::print::say;
use super::session::Session;

/// How often the rails' files are looked at for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What a shell expects of a program that a signal ended.
const INTERRUPTED: i32 = 130;

#[derive(Debug, Args)]
pub(super) struct Serve {}

impl Serve {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        let config = &session.config;
        if config.rails.is_empty() {
            return Err(
                BadArgument(format!("{} has no rails to serve", config.rails_folder.display())).into()
            );
        }
        let sandbox = Arc::new(Sandbox::new(
            &config.adapters.cache,
            Options { calls_max: config.adapters.calls_max, ..Options::default() },
        )?);
        let rails = Rails::load(&sandbox, &config.rails_folder).await?;
        ready::verify(session.database(), &config.rail_facts()).await?;
        let options = config.relayer.options();
        let listener = match config.relayer.listen {
            None => None,
            Some(address) => Some(TcpListener::bind(address).await.map_err(|error| {
                BadArgument(format!("{}: relayer.listen is {address}: {error}", config.file.display()))
            })?),
        };
        let metrics = Arc::new(Metrics::new()?);
        let health = Health { database: session.database().clone(), metrics: metrics.clone() };
        let pages = match &listener {
            Some(listener) => format!("; pages on http://{}", listener.local_addr()?),
            None => String::new(),
        };
        let names: Vec<_> = rails.all().iter().map(|rail| rail.name.clone()).collect();
        let (stop, stopped) = watch::channel(false);
        let host =
            relayer::run(session.database(), sandbox.clone(), &rails, metrics, options.clone(), stopped);
        say(&format!(
            "Host {} serves {}; ready after {} ms{pages}. SIGTERM or Ctrl-C drains, a second one ends at once.",
            options.worker_id,
            names.join(", "),
            started.elapsed().as_millis()
        ));
        let left = tokio::select! {
            left = host => left?,
            ended = rails.watch(&sandbox, LOOK_EVERY) => match ended? {},
            ended = signals(&stop, options.drain) => match ended? {},
            never = answer(listener, health) => match never {},
        };
        match left {
            0 => say("Drained: nothing is in flight."),
            left => say(&format!("{left} payments were still in flight; other hosts ask about them.")),
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn answer(listener: Option<TcpListener>, health: Health) -> Infallible {
    match listener {
        Some(listener) => observe::serve(listener, health).await,
        None => std::future::pending().await,
    }
}

/// The first signal drains, the second ends the process as it is: the database is consistent at any time.
async fn signals(stop: &watch::Sender<bool>, drain: Duration) -> std::io::Result<Infallible> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if stop.send_replace(true) {
            std::process::exit(INTERRUPTED);
        }
        say(&format!("Draining, for at most {} s.", drain.as_secs()));
    }
}
