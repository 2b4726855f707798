//! Why an adapter gave no answer.

use std::time::Duration;

use thiserror::Error as ThisError;

use crate::digest::Digest;

/// Why a call ended without an answer. What may have left is the witness's to say.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum CallError {
    /// The call took longer than `timeouts.call_ms` of the rail file. Holds that time.
    #[error("no answer within {} ms", .0.as_millis())]
    Deadline(Duration),
    /// The guest computed for longer than it may. Holds the limit in milliseconds.
    #[error("used more than {0} ms of processor time")]
    Cpu(u32),
    /// The guest asked for more memory than it may have. Holds the limit in MiB.
    #[error("asked for more than {0} MiB of memory")]
    Memory(u32),
    /// The guest asked for a larger table than it may have. Holds the limit in elements.
    #[error("asked for more than {0} table elements")]
    Table(usize),
    /// The engine ended the guest for a reason that is no trap, such as too many handles. Holds the engine's message.
    #[error("asked for more of the host than one call may: {0}")]
    Resources(String),
    /// The guest used up its stack.
    #[error("recursed too deeply")]
    Stack,
    /// The guest trapped or exited. Holds the trap with the last line that the guest wrote, or the exit code.
    #[error("trapped: {0}")]
    Trap(String),
    /// The component cannot be started, or a function is not that of the contract. Holds the engine's message.
    #[error("does not fit its contract: {0}")]
    Mismatch(String),
    /// The answer has the types of the contract but breaks a rule of the host, such as too many values.
    #[error("gave an answer that is not allowed: {0}")]
    BadAnswer(String),
    /// A value of the adapter does not fit the variables of the rail file. Holds which, and why.
    #[error("gave a value that is not allowed: {0}")]
    BadValue(String),
    /// No slot was free, so the guest did not run. Holds how many slots there are.
    #[error("all {0} call slots are in use")]
    Busy(usize),
    /// The component may not run any more, so the guest did not run. Holds its digest.
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
