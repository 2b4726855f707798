//! What the command line may say.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::{documents, enqueue, examples, list, operate, plugin, retention, serve, settle, show};
use crate::telemetry::LogFormat;
use crate::version;

/// Leases payments from a PostgreSQL outbox and hands each to its rail.
///
/// Without a configured database every command takes --dev: a private, real PostgreSQL in the project's own folder.
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
    /// How log lines are written to standard error; RAILHOST_LOG says which.
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
