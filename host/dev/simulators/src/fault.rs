//! Replies that go wrong.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub kind: FaultKind,
    /// Nothing is taken into the books.
    pub before: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Close,
    Reset,
    Hang,
    /// With this status, or with the one that the reply would have had.
    Truncate(Option<u16>),
    Html(u16),
    Empty(u16),
    Slow(Duration),
    Busy(Option<u32>),
    /// With the rail's own code.
    Refuse(u16, String),
    /// About another payment, which was refused with this code.
    Stranger(String),
}

impl Fault {
    /// For counting.
    pub(crate) fn name(&self) -> String {
        let kind = match self.kind {
            FaultKind::Close => "close",
            FaultKind::Reset => "reset",
            FaultKind::Hang => "hang",
            FaultKind::Truncate(_) => "truncate",
            FaultKind::Html(_) => "html",
            FaultKind::Empty(_) => "empty",
            FaultKind::Slow(_) => "slow",
            FaultKind::Busy(_) => return "busy".to_owned(),
            FaultKind::Refuse(..) => return "refuse".to_owned(),
            FaultKind::Stranger(_) => return "stranger".to_owned(),
        };
        format!("{kind}-{}", if self.before { "before" } else { "after" })
    }
}
