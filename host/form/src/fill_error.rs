//! Why a request was not written.

use payment::Violation;

/// Why there is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// The payment does not fit the form.
    #[error("{0}")]
    Payment(Violation),
    /// What the adapter gave does not.
    #[error("the adapter's values: {0}")]
    Adapter(String),
    /// Something of ours is missing or cannot be used.
    #[error("{0}")]
    Ours(String),
}
