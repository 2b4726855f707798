//! What the model is made of: the tables as plain structs.

use std::collections::BTreeMap;

use uuid::Uuid;

pub const ATTEMPTS_MAX: i32 = 20;
pub const SECOND: Micros = 1_000_000;

pub type Micros = i64;

/// `(instruction_id, idempotency_key)`.
pub type Key = (String, String);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outbox {
    pub now: Micros,
    /// The next number of each participant's stream.
    pub numbers: BTreeMap<String, i64>,
    /// How far the claims of a rail have come.
    pub fronts: BTreeMap<String, Micros>,
    /// The last place in the queue of each participant on each rail.
    pub places: BTreeMap<(String, String), Micros>,
    pub records: BTreeMap<Key, Record>,
    pub pending: BTreeMap<Uuid, Pending>,
    pub attempts: BTreeMap<Uuid, Vec<Attempt>>,
    pub holds: BTreeMap<Uuid, Hold>,
    pub late_answers: BTreeMap<(Uuid, Uuid), LateAnswer>,
    /// What a person found of the money, and when, by payment. The last finding counts.
    pub resolutions: BTreeMap<Uuid, Vec<(&'static str, Micros)>>,
    /// Successor by predecessor.
    pub reissues: BTreeMap<Uuid, Uuid>,
    pub participants: BTreeMap<String, Participant>,
    pub rails: BTreeMap<String, Rail>,
    pub hosts: BTreeMap<String, Host>,
    /// Act and target of every switch that was thrown.
    pub acts: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub instruction_id: String,
    pub participant_id: String,
    pub idempotency_key: String,
    pub rail_type: String,
    /// As `jsonb` prints it.
    pub payload: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub outbox_id: Uuid,
    pub sequence_id: i64,
    pub request: Request,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub request: Request,
    pub sequence_id: i64,
    pub created_at: Micros,
    pub next_attempt_at: Micros,
    pub attempt_count: i32,
    pub unsettled: bool,
    pub parked: bool,
    pub handed_over_at: Option<Micros>,
    /// Of the current lease or of the last one.
    pub claimed_at: Option<Micros>,
    pub lease: Option<Lease>,
}

impl Pending {
    /// The hand-over mark, unless an earlier lease left it.
    pub fn own_mark(&self) -> Option<Micros> {
        self.handed_over_at.filter(|at| Some(*at) >= self.claimed_at)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub token: Uuid,
    pub worker: String,
    pub expires_at: Micros,
}

/// What a holder says about its attempt; `None` leaves the database its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReferenceOutcome {
    pub state: &'static str,
    pub money_moved: Option<&'static str>,
    pub unsettled: Option<bool>,
    pub retry_delay_seconds: Option<i64>,
    pub words: Words,
}

/// What is carried along and decides nothing, except that two error codes mean that the past is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub rail_reference: Option<String>,
    pub rail_code: Option<String>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub latency_ms: Option<i32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub state: &'static str,
    pub money_moved: &'static str,
    pub request: Request,
    pub worker: String,
    pub token: Uuid,
    pub claimed_at: Micros,
    pub completed_at: Micros,
    pub words: Words,
    /// The holder spoke. False where the lease ran out and somebody else found it.
    pub by_holder: bool,
}

/// How often a payment met a rail that takes none for now, and what was said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub times: i32,
    pub first_at: Micros,
    pub last_at: Micros,
    pub rail_type: String,
    pub worker: String,
    pub error_code: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LateAnswer {
    pub worker: String,
    pub state: &'static str,
    pub money_moved: &'static str,
    pub words: Words,
    pub recorded_at: Micros,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Participant {
    pub suspended: bool,
    pub strict_order: bool,
    pub changed_at: Micros,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rail {
    pub paused: bool,
    pub hand_over_marks: bool,
    /// Per second, and the burst.
    pub rate: Option<(i32, i32)>,
    /// Tokens left, and when that was true; a bucket that was never touched is full.
    pub bucket: Option<(f64, Micros)>,
    pub changed_at: Micros,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub rails: Vec<String>,
    pub asleep: bool,
    pub seen_at: Micros,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub outbox_id: Uuid,
    pub sequence_id: i64,
    pub state: &'static str,
    pub replayed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    pub attempt_no: i32,
    pub state: &'static str,
    pub repeated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Invalid,
    LeaseLost,
    NoSuchState,
    KeyReused,
    CeilingPassed,
    Suspended,
    NotAllowed,
    Unknown,
}

impl Refusal {
    pub fn sqlstate(self) -> &'static str {
        match self {
            Self::Invalid => "22023",
            Self::LeaseLost => "P7002",
            Self::NoSuchState => "P7003",
            Self::KeyReused => "P7004",
            Self::CeilingPassed => "P7005",
            Self::Suspended => "P7006",
            Self::NotAllowed => "P7008",
            Self::Unknown => "P0002",
        }
    }
}

impl ReferenceOutcome {
    /// What a holder may not say at all, whoever it is.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if !["DISPATCHED", "FAILED", "RETRYABLE"].contains(&self.state) {
            return Err(Refusal::NoSuchState);
        }
        let known = self.money_moved.is_none_or(|money| ["yes", "no", "unknown"].contains(&money));
        let agrees = self.money_moved.is_none_or(|money| (self.state == "DISPATCHED") == (money == "yes"));
        // Nobody may call the past settled and the money's whereabouts unknown in one breath.
        let settled_unknown =
            self.state == "RETRYABLE" && self.money_moved == Some("unknown") && self.unsettled == Some(false);
        let delay = self.retry_delay_seconds.is_none_or(|delay| (0..=2_678_400).contains(&delay));
        if known && agrees && delay && !settled_unknown { Ok(()) } else { Err(Refusal::Invalid) }
    }
}

impl Attempt {
    pub fn is_verdict(&self) -> bool {
        matches!(self.state, "DISPATCHED" | "FAILED")
    }
}
