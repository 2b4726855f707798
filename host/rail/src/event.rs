//! What became of a rail file, for whoever keeps the record.

use verdict::digest::Digest;

/// A rail was loaded or was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadEvent {
    pub rail: String,
    pub outcome: LoadOutcome,
    /// The component that was loaded, or that the rail file asks for, where that is known.
    pub component: Option<Digest>,
    /// Of the rail file as it was read.
    pub file: Digest,
    /// One sentence, safe to show.
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadOutcome {
    Loaded,
    /// A rail that was there goes on with what it had.
    Refused,
    /// The component may not speak any more.
    Revoked,
}

impl LoadOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Refused => "refused",
            Self::Revoked => "revoked",
        }
    }
}
