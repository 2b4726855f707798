//! Where a test may break the host: places at which the process dies, and guards that it leaves out. Both are armed by the
//! environment, and only in a debug build with the feature `armed`, which the test harness asks for. In any other build
//! there is nothing here to arm.
//!
//! ```
//! use faults::{CrashPoint, Guard, crash_point, is_left_out};
//!
//! for point in CrashPoint::ALL {
//!     crash_point(point); // nobody asked for it, so the process goes on
//! }
//! assert!(!is_left_out(Guard::StableKey), "a guard is there unless a test leaves it out");
//! ```

const ARMABLE: bool = cfg!(all(feature = "armed", debug_assertions));

/// The place and the hit at which the process dies, such as `CompletionSent:2`.
pub const CRASH_AT: &str = "RAILHOST_CRASH_AT";
/// The guards that are left out, such as `StableKey`, separated by commas.
pub const LEFT_OUT: &str = "RAILHOST_LEAVE_OUT";

/// Every place where losing the process must not lose or repeat a payment, in the order in which one meets them. `…Sent`: the
/// statement or request is on its way, and nobody knows whether it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    ClaimSent,
    ClaimCommitted,
    Admitted,
    MarkSent,
    MarkCommitted,
    InstanceReady,
    BeforeFirstByte,
    RequestSent,
    StatusSeen,
    ReplyRead,
    AdapterReturned,
    Decided,
    CompletionSent,
    CompletionCommitted,
    LateAnswerSent,
    ReleaseSent,
    ExtensionSent,
    RepairSent,
    HintSent,
    Swapping,
    Draining,
}

impl CrashPoint {
    pub const ALL: [Self; 21] = [
        Self::ClaimSent,
        Self::ClaimCommitted,
        Self::Admitted,
        Self::MarkSent,
        Self::MarkCommitted,
        Self::InstanceReady,
        Self::BeforeFirstByte,
        Self::RequestSent,
        Self::StatusSeen,
        Self::ReplyRead,
        Self::AdapterReturned,
        Self::Decided,
        Self::CompletionSent,
        Self::CompletionCommitted,
        Self::LateAnswerSent,
        Self::ReleaseSent,
        Self::ExtensionSent,
        Self::RepairSent,
        Self::HintSent,
        Self::Swapping,
        Self::Draining,
    ];
}

/// What keeps a payment from being lost, doubled or misjudged. A harness that does not notice that one is missing is worth
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Every attempt has the same key.
    StableKey,
    /// Silence after a request is no refusal.
    SilenceIsUnknown,
    /// A question that failed permits nothing.
    FailedQuestionPermitsNothing,
    /// What came of an attempt is written, however long that takes.
    OutcomeIsWritten,
    /// A call slot is free when its outcome is durable, whatever the database's reason not to take it.
    CallSlotWaitsForItsOutcome,
    /// A reply counts only where it is about this payment.
    RepliesAreBound,
    /// An adapter's reading can make the host ask again, and nothing else.
    AdapterOnlyBrakes,
    /// A refusal of ours says nothing about what may have left before.
    RefusalsOfOursAreWeighed,
    /// A rail that refuses everybody is left alone.
    RefusalsTrip,
    /// A rail that starts or is resumed is tried with one payment. Tests that look at many at a time leave it out.
    BeginsWithOne,
}

/// Dies here, without unwinding, if a test asked for it.
#[inline]
pub fn crash_point(at: CrashPoint) {
    if ARMABLE && armed::strikes(at) {
        std::process::abort();
    }
}

/// Does the work, or dies while it is on its way.
#[inline]
pub async fn sending<T>(at: CrashPoint, work: impl Future<Output = T>) -> T {
    if ARMABLE && armed::strikes(at) {
        tokio::time::timeout(armed::on_the_way(), work).await.ok();
        std::process::abort();
    }
    work.await
}

/// Whether a test left this guard out.
#[inline]
pub fn is_left_out(guard: Guard) -> bool {
    ARMABLE && armed::is_left_out(guard)
}

/// For hosts inside of a test, whose environment is everybody's.
pub fn leave_out(guard: Guard) {
    if ARMABLE {
        armed::leave_out(guard);
    }
}

mod armed {
    use std::env;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use uuid::Uuid;

    use super::{CRASH_AT, CrashPoint, Guard, LEFT_OUT};

    pub(super) fn strikes(at: CrashPoint) -> bool {
        static ARMED: OnceLock<Option<(CrashPoint, u32)>> = OnceLock::new();
        static HITS: AtomicU32 = AtomicU32::new(0);
        let armed = ARMED.get_or_init(|| env::var(CRASH_AT).ok().map(|text| read(&text)));
        armed.is_some_and(|(point, hit)| point == at && HITS.fetch_add(1, Ordering::Relaxed) + 1 == hit)
    }

    /// A test that names a place wrongly would otherwise pass.
    fn read(text: &str) -> (CrashPoint, u32) {
        let found = text.split_once(':').and_then(|(name, hit)| {
            let point = CrashPoint::ALL.into_iter().find(|point| format!("{point:?}") == name)?;
            Some((point, hit.parse().ok()?))
        });
        found.unwrap_or_else(|| panic!("{CRASH_AT} is {text:?}, expected POINT:HIT"))
    }

    /// About as long as a statement takes, so that some arrive and some do not.
    pub(super) fn on_the_way() -> Duration {
        Duration::from_micros(Uuid::new_v4().as_u128() as u64 % 4_000)
    }

    static LEFT_OUT_HERE: AtomicU32 = AtomicU32::new(0);

    pub(super) fn leave_out(guard: Guard) {
        LEFT_OUT_HERE.fetch_or(1 << guard as u32, Ordering::Relaxed);
    }

    pub(super) fn is_left_out(guard: Guard) -> bool {
        static LEFT: OnceLock<Vec<String>> = OnceLock::new();
        let read = || env::var(LEFT_OUT).map(|text| text.split(',').map(str::to_owned).collect());
        let left = LEFT.get_or_init(|| read().unwrap_or_default());
        LEFT_OUT_HERE.load(Ordering::Relaxed) & 1 << guard as u32 != 0
            || !left.is_empty() && left.contains(&format!("{guard:?}"))
    }
}
