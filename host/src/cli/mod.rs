//! The command line: what a person or a script asks, one file per kind of question.

mod accept;
mod adapters;
mod bench;
mod bulk;
mod check;
mod choose;
mod demo;
mod documents;
mod enqueue;
mod examples;
pub(crate) mod exit;
mod import;
mod list;
mod operate;
mod plugin;
mod print;
mod retention;
mod serve;
mod session;
mod settle;
mod show;
mod shown;
mod simulate;
mod strict_json;
mod sums;

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
#[command(name = "railhost", version, after_help = examples::ALL)]
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
            // What a connection dies of is said by the command itself.
            _ => "warn,sqlx=error",
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show payments moving through a private PostgreSQL, and what to try next.
    #[command(after_help = examples::DEMO)]
    Demo(demo::Demo),
    /// Carry payments to their rails, until told to stop.
    #[command(after_help = examples::SERVE)]
    Serve(serve::Serve),
    /// Bring the database's schema up to date and tell it what the rails' files say.
    #[command(after_help = examples::MIGRATE)]
    Migrate,
    /// Accept one payment, or a CSV or JSON-lines file of them.
    #[command(after_help = examples::ENQUEUE)]
    Enqueue(enqueue::Enqueue),
    /// Take back payments of which nothing can have left.
    #[command(after_help = examples::CANCEL)]
    Cancel(settle::Cancel),
    /// The queue per rail and in total, and what needs a person.
    #[command(after_help = examples::STATUS)]
    Status(show::Status),
    /// Payments by rail, participant, state, code and time.
    #[command(after_help = examples::LIST)]
    List(list::List),
    /// Payments by any of their ids, by payee or by amount.
    #[command(after_help = examples::FIND)]
    Find(list::Find),
    /// Everything that happened to one payment.
    #[command(after_help = examples::TIMELINE)]
    Timeline(show::Timeline),
    /// Prove that no number of any stream is missing.
    #[command(after_help = examples::GAPS)]
    Gaps(show::Gaps),
    /// Stop new disbursements on a rail; what may have left is still asked about.
    #[command(after_help = examples::PAUSE)]
    Pause(operate::Rail),
    /// End a pause.
    #[command(after_help = examples::RESUME)]
    Resume(operate::Rail),
    /// Refuse a participant's new payments and hold back its waiting ones.
    #[command(after_help = examples::SUSPEND)]
    Suspend(operate::Suspend),
    /// End a suspension.
    #[command(after_help = examples::REINSTATE)]
    Reinstate(operate::Reinstate),
    /// Dispatch a participant's payments one after the other, or side by side.
    #[command(after_help = examples::ORDER)]
    Order(operate::Order),
    /// Put a new payment in the place of one that failed without moving money.
    #[command(after_help = examples::REISSUE)]
    Reissue(settle::Reissue),
    /// Record what was found out about a payment whose outcome the rail left open.
    #[command(after_help = examples::RESOLVE)]
    Resolve(settle::Resolve),
    /// Create months of history ahead; export, detach and drop the ones past their time.
    #[command(after_help = examples::RETENTION)]
    Retention(retention::Run),
    /// Check configuration, adapters, database and schema without changing anything and without calling a rail.
    #[command(after_help = examples::CHECK)]
    Check,
    /// Play a rail on loopback, as badly as the real one, with a ledger of what it paid.
    #[command(after_help = examples::SIMULATE)]
    Simulate(simulate::Simulate),
    /// Measure this host, its rivals and the limit side by side on a throwaway PostgreSQL.
    #[command(after_help = examples::BENCH)]
    Bench(bench::Bench),
    /// Write, inspect, test and sign rail adapters.
    #[command(subcommand, after_help = examples::PLUGIN)]
    Plugin(plugin::Plugin),
    /// Print what a shell needs to complete commands.
    #[command(after_help = examples::COMPLETIONS)]
    Completions(documents::Completions),
    /// Print the manual page, or write one for each command.
    #[command(after_help = examples::MAN)]
    Man(documents::Man),
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

impl BadArgument {
    pub(crate) fn new(problem: String) -> Self {
        Self(problem)
    }
}

/// What was named is not there.
#[derive(Debug, ThisError)]
#[error("{0}")]
pub(crate) struct Missing(String);

/// A payment that breaks its rail's rules, with all that is wrong with it.
#[derive(Debug, ThisError)]
#[error("refused: {0}")]
pub(crate) struct Refused(String);

const CONFIG_DEFAULT: &str = "config/development.toml";

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let asked_for = arguments.config.is_some();
    let file = arguments.config.unwrap_or_else(|| CONFIG_DEFAULT.into());
    let command = match arguments.command {
        Command::Simulate(simulate) => return simulate.run().await,
        Command::Bench(bench) => return bench.run().await,
        Command::Completions(completions) => return completions.run(),
        Command::Man(man) => return man.run(),
        other => other,
    };
    let load = || Ok(Config::load(&file, asked_for)?);
    let command = match command {
        Command::Plugin(plugin) if !plugin.needs_database() => return plugin.run(load, arguments.json).await,
        other => other,
    };
    let checks = matches!(command, Command::Check);
    // Whoever checks wants to know all that is wrong; everybody else is refused at the first of it.
    let config = if checks { Config::gather(&file, asked_for)? } else { load()? };
    let is_private = matches!(&command, Command::Plugin(plugin) if plugin.is_private());
    let dev = arguments.dev || is_private || matches!(command, Command::Demo(_));
    if checks && !dev && config.database().is_err() {
        return check::run(&config, None, arguments.json).await;
    }
    let session = Session::open(config, dev, arguments.json).await?;
    let ends_with_interrupt = matches!(&command, Command::Status(status) if status.watch);
    let answer = match command {
        Command::Serve(serve) => serve.run(&session).await,
        other => tokio::select! {
            answer = session.answer(other) => answer,
            _ = tokio::signal::ctrl_c() => match ends_with_interrupt {
                true => Ok(ExitCode::SUCCESS),
                false => Err(anyhow::anyhow!("interrupted")),
            },
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
            Command::Cancel(cancel) => cancel.run(self).await,
            Command::Status(status) => status.run(self).await,
            Command::List(list) => list.run(self).await,
            Command::Find(find) => find.run(self).await,
            Command::Timeline(timeline) => timeline.run(self).await,
            Command::Gaps(gaps) => gaps.run(self).await,
            Command::Pause(rail) => rail.pause(self).await,
            Command::Resume(rail) => rail.resume(self).await,
            Command::Suspend(suspend) => suspend.run(self).await,
            Command::Reinstate(reinstate) => reinstate.run(self).await,
            Command::Order(order) => order.run(self).await,
            Command::Reissue(reissue) => reissue.run(self).await,
            Command::Resolve(resolve) => resolve.run(self).await,
            Command::Retention(retention) => retention.run(self).await,
            Command::Check => check::run(&self.config, Some(self.database()), self.json).await,
            Command::Plugin(plugin) => plugin.run_on(self).await,
            Command::Bench(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::Serve(_)
            | Command::Simulate(_) => unreachable!("it was answered before"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// The words of a line as a shell makes them; what follows a wide gap is a remark.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        let mut chars = line.trim().chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '\'' => quoted = !quoted,
                ' ' if !quoted && chars.peek() == Some(&' ') => break,
                ' ' if !quoted => words.push(String::new()),
                other => words.last_mut().expect("there is a word").push(other),
            }
        }
        words
    }

    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        help.lines().filter(|line| line.starts_with("  railhost ")).map(str::to_owned).collect()
    }

    /// Of a command and all below it, each of which has to have some.
    fn all_examples(command: &clap::Command, words: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for inner in command.get_subcommands() {
            let words = format!("{words}{} ", inner.get_name());
            let own = examples(inner);
            assert!(!own.is_empty(), "{words}has no example");
            assert!(own.iter().all(|line| format!("{line} ").contains(&words)), "{words}: {own:?}");
            lines.extend(own);
            lines.extend(all_examples(inner, &words));
        }
        lines
    }

    #[test]
    fn every_command_has_examples_and_each_is_understood() {
        let all = Arguments::command();
        all.clone().debug_assert();
        let mut lines = examples(&all);
        lines.extend(all_examples(&all, ""));
        for line in lines {
            if let Err(problem) = Arguments::try_parse_from(words(&line)) {
                panic!("{line}: {problem}");
            }
        }
    }
}
