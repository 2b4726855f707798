//! The bounds of a search, and the mistakes that it may be given.

/// A mistake that a host may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    FreshKey,
    SilenceIsRefusal,
    NoFence,
    /// No reply is taken for a word on the rail, which costs nothing.
    SilenceIsHold,
    /// A host forgets what it sent, and hands it back as never sent.
    HandsBackWhatItSent,
    /// What the adapter does not confirm is taken for refused.
    VetoIsRefusal,
    /// Where the adapter reads the opposite, its word counts.
    VetoIsVote,
    /// A reply about another payment counts.
    StrangersReplyCounts,
    /// What we refuse ourselves did not move, whatever left before.
    LocalRefusalIsFinal,
}

/// The bounds of the search.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub bug: Option<Bug>,
    pub deduplicates: bool,
    /// Beyond these nobody claims any more.
    pub attempts: i32,
    pub kills: u8,
    /// Leases that run out while they are held.
    pub expiries: u8,
    /// Times that it is quiet for so long that a not-found permits to send again.
    pub pauses: u8,
    /// Requests, replies and answers of the database that do not arrive.
    pub losses: u8,
    /// Times that the rail says that it cannot pay anybody now.
    pub holds: u8,
    /// Verdicts that the adapter does not confirm.
    pub vetoes: u8,
    /// Replies that are about another payment.
    pub strangers: u8,
    /// Times that we refuse to send it ourselves.
    pub refusals: u8,
    /// Times that the database comes back without its last commits.
    pub failovers: u8,
    /// The rail may turn away what it took before, or takes a moment later.
    pub fickle: bool,
}

impl Setup {
    /// Much goes wrong, for a few attempts.
    pub(crate) const WIDE: Self = Self {
        bug: None,
        deduplicates: true,
        attempts: 3,
        kills: 1,
        expiries: 1,
        pauses: 0,
        losses: 1,
        holds: 0,
        vetoes: 0,
        strangers: 0,
        refusals: 0,
        failovers: 0,
        fickle: true,
    };
    /// Nothing but delays, for more of them.
    pub(crate) const DEEP: Self =
        Self { attempts: 4, kills: 0, expiries: 1, pauses: 1, losses: 0, ..Self::WIDE };
    /// The rail has to be left alone now and then.
    pub(crate) const HELD: Self = Self { kills: 0, holds: 2, ..Self::WIDE };
    /// Replies are mixed up, and payments refused that were sent before.
    pub(crate) const MUDDLED: Self = Self { kills: 0, strangers: 1, refusals: 1, ..Self::WIDE };
    /// The adapter doubts what the host reads.
    pub(crate) const VETOED: Self = Self { kills: 0, vetoes: 3, ..Self::WIDE };
}
