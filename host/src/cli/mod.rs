//! The command line: what a person or a script asks, one file per kind of question.

mod bench;
mod check;
mod demo;
mod enqueue;
pub(crate) mod exit;
mod import;
mod operate;
mod plugin;
mod print;
mod retention;
mod serve;
mod session;
mod settle;
mod show;
mod simulate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use thiserror::Error as ThisError;

use crate::config::Config;
use crate::telemetry::LogFormat;
use session::Session;

/// Leases payments from a PostgreSQL outbox and hands each to its rail.
///
/// Without a configured database every command takes --dev: a private, real PostgreSQL in the project's own folder.
#[derive(Debug, Parser)]
#[command(name = "railhost", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The configuration file; rails are read from the folder `rails` beside it.
    #[arg(long, global = true, env = "RAILHOST_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use the private PostgreSQL of the development mode; it is started for this command and stopped after it.
    #[arg(long, global = true)]
    dev: bool,
    /// Answer in JSON.
    #[arg(long, global = true)]
    json: bool,
    /// How log lines are written to standard error; RAILHOST_LOG says which.
    #[arg(long, global = true, env = "RAILHOST_LOG_FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

impl Arguments {
    /// What is logged where RAILHOST_LOG does not say: a service tells more than an answer does.
    pub(crate) fn log_default(&self) -> &'static str {
        match self.command {
            Command::Serve(_) => "info,sqlx=warn",
            _ => "warn",
        }
    }
}

const EXAMPLES: &str = "Examples:
  railhost demo                                   see payments move through a PostgreSQL of its own
  railhost --dev serve                            carry them to their rails
  railhost --dev enqueue --file payments.csv      accept a file of payments, again if need be
  railhost --dev status                           what waits, what is leased, what is parked
  railhost --dev timeline 0198c5a2-...            where is this payment?
  railhost --dev pause mock --by ada --why 'float is low'
  railhost --dev resolve 0198c5a2-... --money-moved no --evidence 'statement of 3 May' --by ada --why 'asked the rail'

Exit codes: 0 done, 3 gaps found, 64 wrong arguments or configuration, 65 some lines refused,
66 no such payment, 69 PostgreSQL not available or not migrated, 77 refused as things stand, 1 anything else.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Show payments moving through a private PostgreSQL, and what to try next.
    Demo(demo::Demo),
    /// Carry payments to their rails, until told to stop.
    Serve(serve::Serve),
    /// Bring the database's schema up to date and tell it what the rails' files say.
    Migrate,
    /// Accept one payment, or a CSV or JSON-lines file of them.
    Enqueue(enqueue::Enqueue),
    /// The queue per rail and in total, and what needs a person.
    Status,
    /// Everything that happened to one payment.
    Timeline(show::Timeline),
    /// Prove that no number of any stream is missing.
    Gaps(show::Gaps),
    /// Stop new disbursements on a rail; what may have left is still asked about.
    Pause(operate::Rail),
    /// End a pause.
    Resume(operate::Rail),
    /// Refuse a participant's new payments and hold back its waiting ones.
    Suspend(operate::Participant),
    /// End a suspension.
    Reinstate(operate::Participant),
    /// Dispatch a participant's payments one after the other, or side by side.
    Order(operate::Order),
    /// Put a new payment in the place of one that failed without moving money.
    Reissue(settle::Reissue),
    /// Record what was found out about a payment whose outcome the rail left open.
    Resolve(settle::Resolve),
    /// Create months of history ahead; export, detach and drop the ones past their time.
    Retention(retention::Run),
    /// Check configuration, adapters, database and schema without changing anything and without calling a rail.
    Check,
    /// Play a rail on loopback, as badly as the real one, with a ledger of what it paid.
    Simulate(simulate::Simulate),
    /// Measure this host, its rivals and the limit side by side on a throwaway PostgreSQL.
    Bench(bench::Bench),
    /// Write, inspect, test and sign rail adapters.
    #[command(subcommand)]
    Plugin(plugin::Plugin),
}

/// Who acts, and why; kept with the act for ever.
#[derive(Debug, Args)]
struct Signature {
    /// Who acts.
    #[arg(long, env = "USER")]
    by: String,
    /// Why.
    #[arg(long)]
    why: String,
}

/// An argument that only a look at the configuration or the input could refuse.
#[derive(Debug, ThisError)]
#[error("{0}")]
pub(crate) struct BadArgument(String);

const CONFIG_DEFAULT: &str = "config/development.toml";

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let asked_for = arguments.config.is_some();
    let file = arguments.config.unwrap_or_else(|| CONFIG_DEFAULT.into());
    if let Command::Simulate(simulate) = arguments.command {
        return simulate.run().await;
    }
    if let Command::Bench(bench) = arguments.command {
        return bench.run().await;
    }
    let config = Config::load(&file, asked_for)?;
    if let Command::Plugin(plugin) = arguments.command {
        return plugin.run(&config, arguments.json).await;
    }
    let dev = arguments.dev || matches!(arguments.command, Command::Demo(_));
    let session = Session::open(config, dev, arguments.json).await?;
    let answer = match arguments.command {
        Command::Serve(serve) => serve.run(&session).await,
        other => tokio::select! {
            answer = session.answer(other) => answer,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
        },
    };
    session.close().await?;
    answer
}

impl Session {
    async fn answer(&self, command: Command) -> anyhow::Result<ExitCode> {
        match command {
            Command::Demo(demo) => demo.run(self).await,
            Command::Migrate => self.migrate().await,
            Command::Enqueue(enqueue) => enqueue.run(self).await,
            Command::Status => show::status(self).await,
            Command::Timeline(timeline) => timeline.run(self).await,
            Command::Gaps(gaps) => gaps.run(self).await,
            Command::Pause(rail) => rail.pause(self).await,
            Command::Resume(rail) => rail.resume(self).await,
            Command::Suspend(participant) => participant.suspend(self).await,
            Command::Reinstate(participant) => participant.reinstate(self).await,
            Command::Order(order) => order.run(self).await,
            Command::Reissue(reissue) => reissue.run(self).await,
            Command::Resolve(resolve) => resolve.run(self).await,
            Command::Retention(retention) => retention.run(self).await,
            Command::Check => check::run(self).await,
            Command::Bench(_) | Command::Plugin(_) | Command::Serve(_) | Command::Simulate(_) => {
                unreachable!("it was answered before")
            }
        }
    }
}
