//! Exit codes, after `sysexits.h`, so that a script can tell what went wrong.

use std::process::ExitCode;

use railhost::rail::LoadError;
use railhost::{embedded, outbox};

use super::print::{asked_for_json, complain};
use crate::config;

/// Wrong arguments or configuration.
const USAGE: u8 = 64;
/// Some of the input was refused; the rest went in.
const DATA: u8 = 65;
/// Nothing is there under that name.
const NOT_FOUND: u8 = 66;
/// PostgreSQL cannot be reached, or is not ready for this host.
const UNAVAILABLE: u8 = 69;
/// What was asked for is refused as things stand.
const REFUSED: u8 = 77;
/// The proof failed: there are gaps.
const DISPROVED: u8 = 3;

pub(crate) fn refused_some() -> ExitCode {
    DATA.into()
}

pub(crate) fn usage_code() -> ExitCode {
    USAGE.into()
}

pub(crate) fn unavailable() -> ExitCode {
    UNAVAILABLE.into()
}

pub(crate) fn disproved() -> ExitCode {
    DISPROVED.into()
}

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
    USAGE.into()
}

/// Prints the error as one sentence and picks the code.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    complain(&format!("railhost: {error:#}"));
    if error.is::<config::Error>() || error.is::<LoadError>() || error.is::<super::BadArgument>() {
        return USAGE.into();
    }
    if error.is::<super::Refused>() {
        return DATA.into();
    }
    if error.is::<super::Missing>() {
        return NOT_FOUND.into();
    }
    if error.is::<embedded::Error>() {
        return UNAVAILABLE.into();
    }
    match error.downcast_ref::<outbox::Error>() {
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
