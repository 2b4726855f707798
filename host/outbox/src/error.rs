use std::io::ErrorKind;

use sqlx::postgres::PgDatabaseError;
use thiserror::Error as ThisError;

/// What the outbox refuses, and why. Decisions are made on the variant, which comes from the SQLSTATE alone.
#[derive(Debug, ThisError)]
pub enum Error {
    /// P7002. Somebody else may hold the payment by now: record the answer as late, count, stop; never complete again.
    #[error("lease lost: {0}")]
    LeaseLost(String),
    /// P7003.
    #[error("invalid completion state: {0}")]
    InvalidState(String),
    /// P7004. The key belongs to another request; a replay would have had the same body.
    #[error("key reused: {0}")]
    KeyReused(String),
    /// P7005.
    #[error("attempt ceiling passed: {0}")]
    CeilingPassed(String),
    /// P7006.
    #[error("participant suspended: {0}")]
    ParticipantSuspended(String),
    /// P7007. The history has no partition for the id; accepting it would leave a verdict without a place.
    #[error("no partition: {0}")]
    NoPartition(String),
    /// P7008. A reissue or resolution that the history of the payment does not allow.
    #[error("not allowed: {0}")]
    NotAllowed(String),
    /// P7009.
    #[error("retention refused: {0}")]
    RetentionRefused(String),
    /// P0001. History is append-only.
    #[error("append-only: {0}")]
    AppendOnly(String),
    /// P0002.
    #[error("not found: {0}")]
    NotFound(String),
    /// 22xxx: an argument out of its bounds, or text that the database cannot hold.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// 23505 on the one-terminal index: the fence above it was wrong, the backstop held.
    #[error("terminal guard: {0}")]
    TerminalGuard(String),
    /// 23xxx otherwise: a rule of the schema was hit that no function should have let through.
    #[error("integrity: {0}")]
    Integrity(String),
    /// 28xxx, 3D000: a login that is not let in, or not into this database.
    #[error("login refused: {0}")]
    LoginRefused(String),
    /// 42501.
    #[error("permission denied: {0}")]
    Denied(String),
    /// 40001, 40P01, 55P03, 57014: it took no effect, and the same call may succeed when repeated.
    #[error("conflict: {0}")]
    Conflict(String),
    /// No answer, or none that says whether the call took effect.
    #[error("database unreachable: {0}")]
    Unreachable(String),
    /// The schema is not the one this host was built for.
    #[error("schema: {0}")]
    Schema(String),
    #[error("database error {code}: {message}")]
    Other { code: String, message: String },
}

/// How the name of the one-terminal index ends, on the parent and on every partition.
const TERMINAL_INDEX: &str = "_one_terminal_per_outbox";

impl Error {
    /// The error for a SQLSTATE, whether it was raised or came back as the answer of one row.
    pub(super) fn of(code: &str, message: String) -> Self {
        match code {
            "P7002" => Self::LeaseLost(message),
            "P7003" => Self::InvalidState(message),
            "P7004" => Self::KeyReused(message),
            "P7005" => Self::CeilingPassed(message),
            "P7006" => Self::ParticipantSuspended(message),
            "P7007" => Self::NoPartition(message),
            "P7008" => Self::NotAllowed(message),
            "P7009" => Self::RetentionRefused(message),
            "P0001" => Self::AppendOnly(message),
            "P0002" => Self::NotFound(message),
            "42501" => Self::Denied(message),
            // A statement that was cancelled, by us or by its time limit, took no effect.
            "40001" | "40P01" | "55P03" | "57014" => Self::Conflict(message),
            "42P01" | "42883" | "3F000" => Self::Schema(message),
            // Shutdown, crash recovery, too many connections: the server is there but not for us, not now.
            "57P01" | "57P02" | "57P03" | "53300" => Self::Unreachable(message),
            "3D000" => Self::LoginRefused(message),
            _ if code.starts_with("28") => Self::LoginRefused(message),
            _ if code.starts_with("22") => Self::InvalidArgument(message),
            _ if code.starts_with("23") => Self::Integrity(message),
            _ if code.starts_with("08") => Self::Unreachable(message),
            _ => Self::Other { code: code.to_owned(), message },
        }
    }

    /// Whether a row's own content caused it, so that its neighbours may do better without it.
    pub(super) fn is_of_one_row(&self) -> bool {
        matches!(self, Self::InvalidArgument(_) | Self::TerminalGuard(_) | Self::Integrity(_))
    }

    /// Whether the same call may succeed later without a change of its arguments: the server is away, busy, or somebody has
    /// to mend it. What is left are refusals of what was said.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Denied(_)
                | Self::LoginRefused(_)
                | Self::Conflict(_)
                | Self::Unreachable(_)
                | Self::Schema(_)
                | Self::Other { .. }
        )
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let sqlx::Error::Database(raised) = &error else {
            return match error {
                sqlx::Error::RowNotFound => Self::NotFound("no such row".to_owned()),
                sqlx::Error::Encode(_) => Self::InvalidArgument(error.to_string()),
                sqlx::Error::Configuration(why) => Self::InvalidArgument(why.to_string()),
                sqlx::Error::Io(why) if why.kind() == ErrorKind::PermissionDenied => {
                    Self::LoginRefused(why.to_string())
                }
                sqlx::Error::Io(why) => Self::Unreachable(why.to_string()),
                // The answer has another shape than this host was built for; whether the call took effect it does not say.
                sqlx::Error::Decode(_)
                | sqlx::Error::ColumnDecode { .. }
                | sqlx::Error::ColumnNotFound(_)
                | sqlx::Error::ColumnIndexOutOfBounds { .. }
                | sqlx::Error::TypeNotFound { .. } => Self::Schema(error.to_string()),
                _ => Self::Unreachable(error.to_string()),
            };
        };
        let Some(raised) = raised.try_downcast_ref::<PgDatabaseError>() else {
            return Self::Other { code: String::new(), message: error.to_string() };
        };
        if raised.code() == "23505" && raised.constraint().is_some_and(|name| name.ends_with(TERMINAL_INDEX))
        {
            return Self::TerminalGuard(raised.message().to_owned());
        }
        Self::of(raised.code(), raised.message().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sqlstate_of_the_contract_has_its_own_name() {
        let names: Vec<String> =
            ["P7002", "P7003", "P7004", "P7005", "P7006", "P7007", "P7008", "P7009", "P0001"]
                .into_iter()
                .map(|code| format!("{:?}", Error::of(code, String::new())))
                .collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn an_unlisted_sqlstate_keeps_its_code() {
        assert_eq!(Error::of("XX000", "odd".to_owned()).to_string(), "database error XX000: odd");
    }
}
