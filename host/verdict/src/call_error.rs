//! Why an adapter gave no answer.

use std::time::Duration;

use thiserror::Error as ThisError;

use crate::digest::Digest;

/// Why a call ended without an answer. What may have left is the witness's to say.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum CallError {
    #[error("no answer within {} ms", .0.as_millis())]
    Deadline(Duration),
    #[error("used more than {0} ms of processor time")]
    Cpu(u32),
    #[error("asked for more than {0} MiB of memory")]
    Memory(u32),
    #[error("asked for more than {0} table elements")]
    Table(usize),
    #[error("asked for more of the host than one call may: {0}")]
    Resources(String),
    #[error("recursed too deeply")]
    Stack,
    #[error("trapped: {0}")]
    Trap(String),
    #[error("does not fit its contract: {0}")]
    Mismatch(String),
    #[error("gave an answer that is not allowed: {0}")]
    BadAnswer(String),
    #[error("gave a value that is not allowed: {0}")]
    BadValue(String),
    #[error("all {0} call slots are in use")]
    Busy(usize),
    #[error("component {0} is revoked")]
    Revoked(Digest),
}

impl CallError {
    /// One word of a closed list.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Deadline(_) => "deadline",
            Self::Cpu(_) => "cpu",
            Self::Memory(_) => "memory",
            Self::Table(_) => "table",
            Self::Resources(_) => "resources",
            Self::Stack => "stack",
            Self::Trap(_) => "trap",
            Self::Mismatch(_) => "mismatch",
            Self::BadAnswer(_) => "bad-answer",
            Self::BadValue(_) => "bad-value",
            Self::Busy(_) => "busy",
            Self::Revoked(_) => "revoked",
        }
    }
}
