//! What became of a callback.

/// What became of a callback, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackResult {
    /// It was signed and says something of the payment: it is kept, and settles the payment where it is final.
    Kept,
    /// It was signed and final, and the adapter does not confirm it or failed at it: the rail is to send it again.
    Vetoed,
    /// It was signed and names a payment that is not known here. A person has to look.
    Unmatched,
    /// The payment is asked about now.
    Taken,
    /// There is nothing to ask: it is being called about, has its verdict, or was never sent.
    Idle,
    /// Not an address that we gave out, or not signed by the rail.
    Forged,
    /// The database could not be told.
    Failed,
}

impl CallbackResult {
    pub const ALL: [Self; 7] =
        [Self::Kept, Self::Vetoed, Self::Unmatched, Self::Taken, Self::Idle, Self::Forged, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Vetoed => "vetoed",
            Self::Unmatched => "unmatched",
            Self::Taken => "taken",
            Self::Idle => "idle",
            Self::Forged => "forged",
            Self::Failed => "failed",
        }
    }
}
