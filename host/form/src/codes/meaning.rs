//! The words of a table of codes: what a code means for the payment, and for which operation.

use serde::Deserialize;

/// What a code means for the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    Success,
    Pending,
    /// The rail has heard of it: pending where nothing says more, and no word against what does.
    Received,
    /// The rail does not know the key. In a question only.
    NotFound,
    Unknown,
    /// Not executed, and the key is still free.
    Retryable,
    /// The money did not move and will not.
    Terminal,
    /// The same, for a reason that a person should look at.
    TerminalReview,
    /// Something of ours: float, credentials, configuration.
    Hold,
    /// Something of ours that gets worse with every try: a wrong PIN, a blocked account. Only a person goes on.
    Stop,
}

/// What is known of the money, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Paid,
    NotPaid,
    NotFound,
    Open,
}

impl Side {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::NotPaid => "not paid",
            Self::NotFound => "not found",
            Self::Open => "open",
        }
    }
}

impl Meaning {
    /// Its name in the rail's file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Pending => "pending",
            Self::Received => "received",
            Self::NotFound => "not-found",
            Self::Unknown => "unknown",
            Self::Retryable => "retryable",
            Self::Terminal => "terminal",
            Self::TerminalReview => "terminal-review",
            Self::Hold => "hold",
            Self::Stop => "stop",
        }
    }

    pub fn side(self) -> Side {
        match self {
            Self::Success => Side::Paid,
            Self::NotFound => Side::NotFound,
            Self::Pending | Self::Received | Self::Unknown => Side::Open,
            Self::Retryable | Self::Hold | Self::Stop | Self::Terminal | Self::TerminalReview => {
                Side::NotPaid
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Disburse,
    QueryStatus,
}

impl Operation {
    pub const ALL: [Self; 2] = [Self::Disburse, Self::QueryStatus];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disburse => "disburse",
            Self::QueryStatus => "query-status",
        }
    }
}

/// A code that the rail gave, and the fact as which it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    pub field: String,
    pub value: String,
}

impl Code {
    pub fn new(field: &str, value: impl Into<String>) -> Self {
        Self { field: field.to_owned(), value: value.into() }
    }
}

/// The field under which the reply's HTTP status is looked up where nothing else was read.
pub const HTTP: &str = "http";
