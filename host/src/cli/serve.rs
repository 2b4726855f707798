//! Runs a host until it is told to stop.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use railhost::callbacks;
use railhost::observe::{self, Health, Metrics};
use railhost::outbox::{Database, ready};
use railhost::rail::{Options, Rails, Sandbox};
use railhost::relayer;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::BadArgument;
use super::print::say;
use super::session::Session;
use crate::config::Config;

/// How often the rails' files are looked at for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What a shell expects of a program that a signal ended.
const INTERRUPTED: i32 = 130;

#[derive(Debug, Args)]
pub(super) struct Serve {}

impl Serve {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        // From the beginning: a host that is told to stop while it starts also ends well.
        let heard = Signals::listen()?;
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
        let listener = listen(config, "relayer.listen", config.relayer.listen).await?;
        let callbacks = listen(config, "callbacks.listen", config.callbacks.listen).await?;
        let metrics = Arc::new(Metrics::new()?);
        let (stop, stopped) = watch::channel(false);
        let health = Health {
            database: session.database().clone(),
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
        let hints = take_hints(callbacks, session.database(), &rails, metrics.clone());
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
            never = heard.drain(&stop, options.drain) => match never {},
            never = answer(listener, health) => match never {},
            never = hints => match never {},
        };
        match left {
            0 => say("Drained: nothing is in flight."),
            left => say(&format!("{left} payments were still in flight; other hosts ask about them.")),
        }
        Ok(ExitCode::SUCCESS)
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

    /// The first signal drains, the second ends the process as it is: the database is consistent at any time.
    async fn drain(mut self, stop: &watch::Sender<bool>, limit: Duration) -> Infallible {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if stop.send_replace(true) {
                std::process::exit(INTERRUPTED);
            }
            say(&format!("Draining, for at most {} s.", limit.as_secs()));
        }
    }
}
