//! What the command line may say.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::{documents, enqueue, examples, list, operate, plugin, retention, serve, settle, show};
use crate::telemetry::LogFormat;
use crate::version;

/// Leases payments from a PostgreSQL outbox and hands each to its rail.
#[cfg_attr(
    feature = "dev",
    doc = "\n\nIf no database is configured, every command accepts --dev: it uses a private, real PostgreSQL in the project's own folder."
)]
#[derive(Debug, Parser)]
#[command(name = "railhost", version = version::TEXT, after_help = examples::ALL)]
pub(crate) struct Arguments {
    /// The configuration file; rails are read from the folder `rails` beside it.
    #[arg(long, global = true, env = "RAILHOST_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Use the private PostgreSQL of the development mode; it is started for this command and stopped after it.
    #[cfg(feature = "dev")]
    #[arg(long, global = true)]
    pub(super) dev: bool,
    /// Answer in JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Format of the log lines on standard error. RAILHOST_LOG selects which lines are logged.
    #[arg(long, global = true, env = "RAILHOST_LOG_FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(super) command: Command,
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
pub(super) enum Command {
    #[cfg(feature = "dev")]
    #[command(flatten)]
    Dev(dev::Command),
    /// Send payments to their rails until stopped.
    #[command(after_help = examples::SERVE)]
    Serve(serve::Serve),
    /// Bring the database's schema up to date and tell it what the rail files say.
    #[command(after_help = examples::MIGRATE)]
    Migrate,
    /// Accept one payment, or a CSV or JSON-lines file of them.
    #[command(after_help = examples::ENQUEUE)]
    Enqueue(enqueue::Enqueue),
    /// Cancel payments that have certainly not been sent.
    #[command(after_help = examples::CANCEL)]
    Cancel(settle::Cancel),
    /// Show the queue per rail and in total, and what needs review.
    #[command(after_help = examples::STATUS)]
    Status(show::Status),
    /// List payments by rail, participant, state, code and time.
    #[command(after_help = examples::LIST)]
    List(list::List),
    /// Find payments by any of their ids, by payee or by amount.
    #[command(after_help = examples::FIND)]
    Find(list::Find),
    /// Show everything that happened to one payment.
    #[command(after_help = examples::TIMELINE)]
    Timeline(show::Timeline),
    /// Prove that no number of any stream is missing.
    #[command(after_help = examples::GAPS)]
    Gaps(show::Gaps),
    /// Stop new disbursements on a rail. Payments that may have been sent are still queried.
    #[command(after_help = examples::PAUSE)]
    Pause(operate::RailArgs),
    /// End a pause.
    #[command(after_help = examples::RESUME)]
    Resume(operate::RailArgs),
    /// Refuse a participant's new payments and hold its waiting ones.
    #[command(after_help = examples::SUSPEND)]
    Suspend(operate::Suspend),
    /// End a suspension.
    #[command(after_help = examples::REINSTATE)]
    Reinstate(operate::Reinstate),
    /// Dispatch a participant's payments in strict order, or in parallel.
    #[command(after_help = examples::ORDER)]
    Order(operate::OrderArgs),
    /// Create a new payment that replaces one that failed without moving money.
    #[command(after_help = examples::REISSUE)]
    Reissue(settle::Reissue),
    /// Record what you found out about a payment whose outcome is unknown.
    #[command(after_help = examples::RESOLVE)]
    Resolve(settle::ResolveArgs),
    /// Create history partitions for the coming months; export, detach and drop the expired ones.
    #[command(after_help = examples::RETENTION)]
    Retention(retention::RetentionArgs),
    /// Check configuration, adapters, database and schema without changing anything and without calling a rail.
    #[command(after_help = examples::CHECK)]
    Check,
    /// Write, inspect, test and sign rail adapters.
    #[command(subcommand, after_help = examples::PLUGIN)]
    Plugin(plugin::Plugin),
    /// Print a shell completion script.
    #[command(after_help = examples::COMPLETIONS)]
    Completions(documents::Completions),
    /// Print the manual page, or write one for each command.
    #[command(after_help = examples::MAN)]
    Man(documents::Man),
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
