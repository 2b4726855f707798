//! What the gate saw, in the words of the decision.

use crate::witness::{Exchange, Sent};

/// What the gate saw of the request that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExchangeResult {
    Nothing,
    /// Something left, and no whole reply came back.
    Silence,
    /// A whole reply with this status.
    Status(u16),
}

impl ExchangeResult {
    pub(crate) fn of(exchange: Option<&Exchange>) -> Self {
        match exchange {
            None => Self::Nothing,
            Some(exchange) if exchange.left == Sent::Nothing => Self::Nothing,
            Some(Exchange { whole: true, status: Some(status), .. }) => Self::Status(*status),
            Some(_) => Self::Silence,
        }
    }

    pub(crate) fn status(self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status),
            Self::Nothing | Self::Silence => None,
        }
    }
}
