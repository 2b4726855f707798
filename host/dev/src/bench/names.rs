//! Contestants that are always there, and the rail that they share.

pub(super) const OURS: &str = "railhost";

pub(super) const FLOOR: &str = "floor";

pub(super) const FUNCTIONS: &str = "functions";

/// The rail of payments that only a queue is measured with.
pub(super) const MOCK: &str = "mock";

/// At a time, over a rail that answers at once.
pub(super) const MOCK_CALLS: u32 = 2_500;
