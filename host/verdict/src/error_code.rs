//! The error codes of the history: those that a host writes, and those that the database writes by itself.

use std::fmt;

use serde::{Deserialize, Deserializer};

/// Why an attempt is not a success: part of the contract with whoever reads the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The guard or the adapter's `validate` found the payment wrong.
    InvalidPayload,
    /// The adapter did not want it sent, and nothing left.
    RefusedLocally,
    /// The rail said no. Whether the payment may be tried again is for the class of the decision to say.
    RailDeclined,
    /// The rail has the payment and has not decided. From then on the key is never sent again.
    RailPending,
    /// Nobody knows whether the money moved: the rail is asked, or a person looks.
    OutcomeUnknown,
    /// Nothing of the payment left the host, by what the host itself saw.
    NotSent,
    /// The rail refused a token that was good a while ago: it did not look at the payment, and the next attempt brings another.
    TokenRefused,
    /// Credentials, route or float: ours to mend.
    OnHold,
    /// The same, and the rail is paused until a person resumes it.
    Stopped,
    /// The rail was asked and does not know the key.
    NotFound,
    /// Nothing new is known: the question brought nothing, or the rail's callback is waited for.
    QueryFailed,
    /// The host reads a verdict and the adapter something else: the rail is asked again.
    AdapterVeto,
    /// A success that names another amount or payee than instructed: it stands, and a person looks at it.
    EchoDiffers,
    /// Written by the database: the lease ran out, and nobody said what came of it.
    LeaseExpired,
    /// Written by the database: it was tried as often as a payment may be, and nothing left at the last.
    RetriesExhausted,
    /// Written by the database: a person took it back before anything left.
    Cancelled,
    /// Another release wrote one that this one does not know: the careful side counts.
    OfAnotherRelease,
}

impl ErrorCode {
    /// But for the one that stands for what is not known.
    pub const ALL: [Self; 16] = [
        Self::InvalidPayload,
        Self::RefusedLocally,
        Self::RailDeclined,
        Self::RailPending,
        Self::OutcomeUnknown,
        Self::NotSent,
        Self::TokenRefused,
        Self::OnHold,
        Self::Stopped,
        Self::NotFound,
        Self::QueryFailed,
        Self::AdapterVeto,
        Self::EchoDiffers,
        Self::LeaseExpired,
        Self::RetriesExhausted,
        Self::Cancelled,
    ];

    /// Reads a code of the history. One that this release does not know becomes [`Self::OfAnotherRelease`].
    pub fn read(text: &str) -> Self {
        Self::ALL.into_iter().find(|code| code.as_str() == text).unwrap_or(Self::OfAnotherRelease)
    }

    /// Nothing was on its way to execution when this was written. Nobody knows what a dead host did.
    pub(crate) fn was_not_executed(self) -> bool {
        match self {
            Self::InvalidPayload
            | Self::RefusedLocally
            | Self::RailDeclined
            | Self::NotSent
            | Self::TokenRefused
            | Self::OnHold
            | Self::Stopped
            | Self::NotFound
            | Self::QueryFailed => true,
            Self::RailPending
            | Self::OutcomeUnknown
            | Self::AdapterVeto
            | Self::EchoDiffers
            | Self::LeaseExpired
            | Self::RetriesExhausted
            | Self::Cancelled
            | Self::OfAnotherRelease => false,
        }
    }

    /// No byte of the payment left with the attempt of which this was written. A question carries none.
    pub(crate) fn did_not_leave(self) -> bool {
        match self {
            Self::InvalidPayload
            | Self::RefusedLocally
            | Self::NotSent
            | Self::NotFound
            | Self::QueryFailed => true,
            Self::RailDeclined
            | Self::RailPending
            | Self::OutcomeUnknown
            | Self::TokenRefused
            | Self::OnHold
            | Self::Stopped
            | Self::AdapterVeto
            | Self::EchoDiffers
            | Self::LeaseExpired
            | Self::RetriesExhausted
            | Self::Cancelled
            | Self::OfAnotherRelease => false,
        }
    }

    /// The rail spoke of the payment as its own, or gave its last word, whether or not the adapter confirmed it.
    pub(crate) fn burns_key(self) -> bool {
        match self {
            Self::RailPending | Self::AdapterVeto | Self::OfAnotherRelease => true,
            Self::InvalidPayload
            | Self::RefusedLocally
            | Self::RailDeclined
            | Self::OutcomeUnknown
            | Self::NotSent
            | Self::TokenRefused
            | Self::OnHold
            | Self::Stopped
            | Self::NotFound
            | Self::QueryFailed
            | Self::EchoDiffers
            | Self::LeaseExpired
            | Self::RetriesExhausted
            | Self::Cancelled => false,
        }
    }

    /// Its name in the history, such as `RAIL_DECLINED`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidPayload => "INVALID_PAYLOAD",
            Self::RefusedLocally => "REFUSED_LOCALLY",
            Self::RailDeclined => "RAIL_DECLINED",
            Self::RailPending => "RAIL_PENDING",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Self::NotSent => "NOT_SENT",
            Self::TokenRefused => "TOKEN_REFUSED",
            Self::OnHold => "ON_HOLD",
            Self::Stopped => "STOPPED",
            Self::NotFound => "NOT_FOUND",
            Self::QueryFailed => "QUERY_FAILED",
            Self::AdapterVeto => "ADAPTER_VETO",
            Self::EchoDiffers => "ECHO_DIFFERS",
            Self::LeaseExpired => "LEASE_EXPIRED",
            Self::RetriesExhausted => "RETRIES_EXHAUSTED",
            Self::Cancelled => "CANCELLED",
            Self::OfAnotherRelease => "OF_ANOTHER_RELEASE",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'d> Deserialize<'d> for ErrorCode {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::read(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_it_is_written() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::read(code.as_str()), code);
        }
    }

    #[test]
    fn a_code_of_another_release_is_taken_for_the_worst() {
        let code = ErrorCode::read("OF_TOMORROW");
        assert!(code.burns_key() && !code.was_not_executed() && !code.did_not_leave());
    }
}
