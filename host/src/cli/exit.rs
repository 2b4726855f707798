//! What went wrong, as one sentence and an exit code.

use std::process::ExitCode;

use rail::LoadError;
use terminal::exit::{DATA, NOT_FOUND, REFUSED, UNAVAILABLE, USAGE};
use terminal::print::{asked_for_json, complain};
use terminal::{BadArgument, Missing, Refused};

use crate::config;

/// Help and version are answers, everything else is a mistake in the arguments.
pub(crate) fn usage(problem: &clap::Error) -> ExitCode {
    if !problem.use_stderr() {
        // A closed standard output is no reason to fail.
        problem.print().ok();
        return ExitCode::SUCCESS;
    }
    if asked_for_json() {
        complain(problem.render().to_string().trim_end());
    } else {
        // With its colours.
        problem.print().ok();
    }
    #[cfg(not(feature = "dev"))]
    if let Some(asked) = of_development(problem) {
        complain(&format!(
            "{asked} is for development: railhost-dev has it, this is {}",
            crate::version::TEXT
        ));
    }
    USAGE.into()
}

/// What the shipped build does not have.
#[cfg(not(feature = "dev"))]
const OF_DEVELOPMENT: [&str; 5] = ["bench", "demo", "simulate", "plugin run", "--dev"];

/// What was asked for, if the development build has it.
#[cfg(not(feature = "dev"))]
fn of_development(problem: &clap::Error) -> Option<&'static str> {
    use clap::error::{ContextKind, ContextValue};
    [ContextKind::InvalidSubcommand, ContextKind::InvalidArg].into_iter().find_map(|kind| {
        match problem.get(kind) {
            Some(ContextValue::String(asked)) => {
                OF_DEVELOPMENT.into_iter().find(|known| known.trim_start_matches("plugin ") == asked)
            }
            _ => None,
        }
    })
}

/// Prints the error as one sentence and picks the code.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    complain(&format!("railhost: {error:#}"));
    if error.is::<config::Error>() || error.is::<LoadError>() || error.is::<BadArgument>() {
        return USAGE.into();
    }
    if error.is::<Refused>() {
        return DATA.into();
    }
    if error.is::<Missing>() {
        return NOT_FOUND.into();
    }
    #[cfg(feature = "dev")]
    if error.is::<dev::embedded::Error>() {
        return UNAVAILABLE.into();
    }
    let of_host = || match error.downcast_ref::<relayer::RunError>()? {
        relayer::RunError::Database(error) => Some(error),
        relayer::RunError::TaskEnded { .. } => None,
    };
    match error.downcast_ref::<outbox::Error>().or_else(of_host) {
        Some(outbox::Error::Unreachable(_) | outbox::Error::Schema(_) | outbox::Error::LoginRefused(_)) => {
            UNAVAILABLE.into()
        }
        Some(outbox::Error::NotFound(_)) => NOT_FOUND.into(),
        Some(outbox::Error::InvalidArgument(_)) => USAGE.into(),
        Some(
            outbox::Error::KeyReused(_)
            | outbox::Error::ParticipantSuspended(_)
            | outbox::Error::NotAllowed(_)
            | outbox::Error::RetentionRefused(_)
            | outbox::Error::Denied(_),
        ) => REFUSED.into(),
        _ => ExitCode::FAILURE,
    }
}
