//! Why binaries were not fetched.

use super::error::Error;

/// Why there is no package.
pub(super) enum ServerFailure {
    /// It could not be had, for this reason.
    NotHad(String),
    /// It could, and is not to be trusted or not to be kept.
    Refused(Error),
}

impl From<Error> for ServerFailure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}
