//! Why a command was not done, told apart by exit code.

use thiserror::Error as ThisError;

/// An argument that only a look at the configuration or the input could refuse.
#[derive(Debug, ThisError)]
#[error("{0}")]
pub struct BadArgument(pub String);

impl BadArgument {
    pub fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

/// What was named is not there.
#[derive(Debug, ThisError)]
#[error("{0}")]
pub struct Missing(pub String);

/// A payment that breaks its rail's rules, with all that is wrong with it.
#[derive(Debug, ThisError)]
#[error("refused: {0}")]
pub struct Refused(pub String);
