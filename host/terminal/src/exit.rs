//! Exit codes, after `sysexits.h`, so that a script can tell what went wrong.

use std::process::ExitCode;

/// Wrong arguments or configuration.
pub const USAGE: u8 = 64;
/// Some of the input was refused; the rest went in.
pub const DATA: u8 = 65;
/// Nothing is there under that name.
pub const NOT_FOUND: u8 = 66;
/// PostgreSQL cannot be reached, or is not ready for this host.
pub const UNAVAILABLE: u8 = 69;
/// What was asked for is refused as things stand.
pub const REFUSED: u8 = 77;
/// The proof failed: there are gaps.
pub const DISPROVED: u8 = 3;

pub fn refused_some() -> ExitCode {
    DATA.into()
}

pub fn usage_code() -> ExitCode {
    USAGE.into()
}

pub fn unavailable() -> ExitCode {
    UNAVAILABLE.into()
}

pub fn disproved() -> ExitCode {
    DISPROVED.into()
}
