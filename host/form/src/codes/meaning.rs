//! The words of a table of codes: what a code means for the payment, and for which operation.

use serde::Deserialize;

/// What a code means for the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// The rail paid.
    Success,
    /// The rail has the payment and has not decided.
    Pending,
    /// The rail has heard of it: pending where nothing says more, and no word against what does.
    Received,
    /// The rail does not know the key. In a question only.
    NotFound,
    /// The money may have moved: the rail has to be asked.
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
    /// The money moved.
    Paid,
    /// The money did not move, whatever the reason.
    NotPaid,
    /// The rail does not know the payment.
    NotFound,
    /// Not decided: pending, unknown, or nothing was read.
    Open,
}

impl Side {
    /// Its name in messages.
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
    /// Its name in the rail file.
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

    /// What it says of the money. Facts of different sides contradict each other.
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

/// What a request about a payment is for. The same code may mean different things in replies to the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// To pay.
    Disburse,
    /// To ask what became of a payment.
    QueryStatus,
}

impl Operation {
    /// Both: a line of the table that names no operation holds for them all.
    pub const ALL: [Self; 2] = [Self::Disburse, Self::QueryStatus];

    /// Its name in the rail file.
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
    /// Name of the fact in the rail file, or [`HTTP`] for the status of the reply.
    pub field: String,
    /// What the rail wrote there, as a text.
    pub value: String,
}

impl Code {
    /// Takes both texts as they are.
    pub fn new(field: &str, value: impl Into<String>) -> Self {
        Self { field: field.to_owned(), value: value.into() }
    }
}

/// The field under which the reply's HTTP status is looked up where nothing else was read.
pub const HTTP: &str = "http";
