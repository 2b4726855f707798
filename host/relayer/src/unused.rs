//! Why a lease goes back before anything was handed to the rail.

/// Why a lease goes back unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unused {
    /// Less is left in the payment's currency than the floor. A claim does not take it again before that changes.
    FloatLow,
    /// The rail is outside of its hours. The same.
    OutOfHours,
    /// The hours of the rail ended while the payment waited for its turn.
    OutOfHoursMeanwhile,
    /// The breaker gave no ticket.
    BreakerOpen,
    /// The component of the rail's adapter is revoked.
    Revoked,
    RailPaused,
    ParticipantSuspended,
    /// The lease is no longer ours.
    LeaseLost,
    /// A call would not end within the lease.
    TooLate,
    /// The host was told to stop.
    Stopping,
    /// The mark that says the payment is about to leave is not on disk.
    NotMarked,
    /// The sandbox has no slot for the call.
    NoSandboxSlot,
}

impl Unused {
    pub(crate) const ALL: [Self; 12] = [
        Self::FloatLow,
        Self::OutOfHours,
        Self::OutOfHoursMeanwhile,
        Self::BreakerOpen,
        Self::Revoked,
        Self::RailPaused,
        Self::ParticipantSuspended,
        Self::LeaseLost,
        Self::TooLate,
        Self::Stopping,
        Self::NotMarked,
        Self::NoSandboxSlot,
    ];

    /// The label of the metric.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::FloatLow => "float_low",
            Self::OutOfHours => "out_of_hours",
            Self::OutOfHoursMeanwhile => "out_of_hours_meanwhile",
            Self::BreakerOpen => "breaker_open",
            Self::Revoked => "revoked",
            Self::RailPaused => "rail_paused",
            Self::ParticipantSuspended => "participant_suspended",
            Self::LeaseLost => "lease_lost",
            Self::TooLate => "too_late",
            Self::Stopping => "stopping",
            Self::NotMarked => "not_marked",
            Self::NoSandboxSlot => "no_sandbox_slot",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_reason_has_a_label_of_its_own() {
        let labels: BTreeSet<_> = Unused::ALL.into_iter().map(Unused::as_str).collect();
        assert_eq!(labels.len(), Unused::ALL.len());
    }
}
