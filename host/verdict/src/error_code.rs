//! The error codes that a host writes.

/// Why an attempt is not a success: part of the contract with whoever reads the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The guard or the adapter's `validate` found the payment wrong.
    InvalidPayload,
    /// The adapter did not want it sent, and nothing left.
    RefusedLocally,
    RailDeclined,
    RailPending,
    OutcomeUnknown,
    NotSent,
    /// The rail refused a token that was good a while ago: it did not look at the payment, and the next attempt brings another.
    TokenRefused,
    /// Credentials, route or float: ours to mend.
    OnHold,
    /// The same, and the rail is paused until a person resumes it.
    Stopped,
    NotFound,
    /// A question brought nothing new.
    QueryFailed,
    /// The host reads a verdict and the adapter something else: the rail is asked again.
    AdapterVeto,
    /// A success that names another amount or payee than instructed: it stands, and a person looks at it.
    EchoDiffers,
}

impl ErrorCode {
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
        }
    }
}
