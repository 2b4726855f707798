//! What can happen in the small world of the property test, and how often.
//!
//! Operations name payments and leases by position, not by id: `pick` counts through what exists when the operation
//! runs, so that a sequence still means something after operations before it were dropped while shrinking.

use harness::reference::{ReferenceOutcome, Request, Words};
use proptest::prelude::*;
use proptest::{collection, option, sample};

pub(crate) const PARTICIPANTS: [&str; 3] = ["p0", "p1", "p2"];
/// The first keeps hand-over marks, the second has a rate limit, nothing is known of the third.
pub(crate) const RAILS: [&str; 3] = ["airtel", "bank", "mtn"];
pub(crate) const WORKERS: [&str; 3] = ["w0", "w1", "w2"];
const KEYS: usize = 12;

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Enqueue {
        rows: Vec<Row>,
        single: bool,
    },
    Claim(Claim),
    ClaimWrongly(WrongClaim),
    Complete {
        worker: Option<usize>,
        rows: Vec<(Pick, ReferenceOutcome)>,
        single: bool,
    },
    LateAnswer {
        pick: Pick,
        worker: usize,
        state: &'static str,
        money_moved: &'static str,
    },
    Repair {
        batch_size: i32,
        worker: usize,
    },
    Extend {
        worker: Option<usize>,
        picks: Vec<Pick>,
        seconds: i64,
    },
    Release {
        worker: Option<usize>,
        picks: Vec<Pick>,
    },
    MarkHandedOver {
        worker: Option<usize>,
        picks: Vec<Pick>,
    },
    Hold {
        worker: Option<usize>,
        picks: Vec<Pick>,
        delay_seconds: i64,
    },
    /// The worker says that it knows of one lease at most.
    HandBack {
        worker: usize,
        knows: Option<Pick>,
    },
    /// A whole round through what is pending.
    Sweep,
    ReconcileClock,
    Cancel {
        pick: usize,
    },
    Pause {
        rail: usize,
        paused: bool,
    },
    Configure {
        rail: usize,
        marks: bool,
    },
    Suspend {
        participant: usize,
        suspended: bool,
    },
    Order {
        participant: usize,
        strict: bool,
    },
    ActWithoutReason {
        participant: usize,
    },
    Reconcile {
        limit: i32,
    },
    Resolve {
        pick: usize,
        money_moved: &'static str,
    },
    Reissue {
        pick: usize,
        key: usize,
    },
    NextDue {
        rails: Option<Vec<usize>>,
    },
    Report {
        worker: usize,
        rails: Vec<usize>,
        asleep: bool,
    },
    Retire {
        worker: usize,
    },
    /// Superuser's hand: the history of a payment without a lease grows to that many attempts.
    Age {
        pick: usize,
        attempts: i32,
    },
    Advance {
        quarter_seconds: i64,
    },
    Transaction {
        inside: Vec<Operation>,
        commit: bool,
    },
}

/// One request of a batch: key number and which of its bodies, or something that no enqueue accepts.
#[derive(Clone, Debug)]
pub(crate) enum Row {
    Good { key: usize, body: usize },
    Bad { key: usize, flaw: Flaw },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Flaw {
    NoInstruction,
    EmptyKey,
    SpaceAfterKey,
    LongParticipant,
    NoParticipant,
    TabInParticipant,
    LongRail,
    NoPayload,
    PayloadIsAList,
    PayloadTooLarge,
}

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) batch_size: i32,
    pub(crate) worker: usize,
    pub(crate) lease_seconds: i64,
    /// Rail, limit, length of its leases; `None` leases any.
    pub(crate) rails: Option<Vec<(usize, i32, i64)>>,
    /// Lower bound of `next_attempt_at` for the named rails: this long ago.
    pub(crate) after_seconds_ago: Option<i64>,
    pub(crate) takeovers: i32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum WrongClaim {
    NegativeBatch,
    HugeBatch,
    NoWorker,
    AbsurdLease,
    NegativeTakeovers,
    RailTwice,
    LimitsTooShort,
    LimitsWithoutRails,
}

/// A lease: one that is live, one that ever was, or a payment with a token nobody gave out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    Held(usize),
    Ever(usize),
    Invented(usize),
}

/// The request under that key. Bodies 1 to 3 differ from body 0 in payload, rail and participant.
pub(crate) fn request(key: usize, body: usize) -> Request {
    let participant = PARTICIPANTS[(key + usize::from(body == 3)) % PARTICIPANTS.len()];
    let rail = RAILS[(key / 2 + usize::from(body == 2)) % RAILS.len()];
    // Put side by side without a seam, the two parts of neighbouring keys read the same.
    let seam = if key.is_multiple_of(2) {
        (format!("i{}", key / 2), "k".to_owned())
    } else {
        ("i".to_owned(), format!("{}k", key / 2))
    };
    let (instruction_id, idempotency_key) = seam;
    Request {
        instruction_id,
        participant_id: participant.to_owned(),
        idempotency_key,
        rail_type: rail.to_owned(),
        payload: format!(r#"{{"key": {key}, "amount": "{}.00"}}"#, 10 + usize::from(body == 1)),
    }
}

pub(crate) fn sequence(operations_max: usize) -> impl Strategy<Value = Vec<(usize, Operation)>> {
    let one = prop_oneof![
        12 => operation(),
        1 => (collection::vec(operation(), 1..4), any::<bool>())
            .prop_map(|(inside, commit)| Operation::Transaction { inside, commit }),
    ];
    // The number says which of its role's sessions takes the turn.
    collection::vec((0..2_usize, one), 1..=operations_max)
}

fn operation() -> BoxedStrategy<Operation> {
    let participant = 0..PARTICIPANTS.len();
    let rail = 0..RAILS.len();
    let worker = 0..WORKERS.len();
    let picks = || collection::vec(pick(), 1..5);
    let holder = || option::weighted(0.15, 0..WORKERS.len());
    prop_oneof![
        10 => (collection::vec(row(), 1..7), any::<bool>()).prop_map(|(rows, single)| Operation::Enqueue { rows, single }),
        14 => claim().prop_map(Operation::Claim),
        1 => wrong_claim().prop_map(Operation::ClaimWrongly),
        14 => (holder(), collection::vec((pick(), outcome()), 1..5), any::<bool>())
            .prop_map(|(worker, rows, single)| Operation::Complete { worker, rows, single }),
        2 => (pick(), worker.clone(), state(), sample::select(vec!["yes", "no", "unknown", "maybe"]))
            .prop_map(|(pick, worker, state, money_moved)| Operation::LateAnswer { pick, worker, state, money_moved }),
        3 => (sample::select(vec![1, 2, 100]), worker.clone())
            .prop_map(|(batch_size, worker)| Operation::Repair { batch_size, worker }),
        3 => (holder(), picks(), sample::select(vec![1, 30, 600]))
            .prop_map(|(worker, picks, seconds)| Operation::Extend { worker, picks, seconds }),
        3 => (holder(), picks()).prop_map(|(worker, picks)| Operation::Release { worker, picks }),
        3 => (holder(), picks()).prop_map(|(worker, picks)| Operation::MarkHandedOver { worker, picks }),
        3 => (holder(), picks(), sample::select(vec![0, 30]))
            .prop_map(|(worker, picks, delay_seconds)| Operation::Hold { worker, picks, delay_seconds }),
        1 => (worker.clone(), option::of(pick())).prop_map(|(worker, knows)| Operation::HandBack { worker, knows }),
        1 => Just(Operation::Sweep),
        1 => Just(Operation::ReconcileClock),
        2 => (0..100_usize).prop_map(|pick| Operation::Cancel { pick }),
        2 => (rail.clone(), any::<bool>()).prop_map(|(rail, paused)| Operation::Pause { rail, paused }),
        1 => (rail, any::<bool>()).prop_map(|(rail, marks)| Operation::Configure { rail, marks }),
        2 => (participant.clone(), any::<bool>())
            .prop_map(|(participant, suspended)| Operation::Suspend { participant, suspended }),
        3 => (participant.clone(), prop::bool::weighted(0.7))
            .prop_map(|(participant, strict)| Operation::Order { participant, strict }),
        1 => participant.prop_map(|participant| Operation::ActWithoutReason { participant }),
        3 => sample::select(vec![1, 2, 10_000]).prop_map(|limit| Operation::Reconcile { limit }),
        1 => (0..100_usize, sample::select(vec!["yes", "no", "no", "unknown"]))
            .prop_map(|(pick, money_moved)| Operation::Resolve { pick, money_moved }),
        2 => (0..100_usize, 0..KEYS + 8).prop_map(|(pick, key)| Operation::Reissue { pick, key }),
        1 => option::of(some_rails()).prop_map(|rails| Operation::NextDue { rails }),
        1 => (worker.clone(), some_rails(), any::<bool>())
            .prop_map(|(worker, rails, asleep)| Operation::Report { worker, rails, asleep }),
        1 => worker.prop_map(|worker| Operation::Retire { worker }),
        2 => (0..100_usize, 18..20).prop_map(|(pick, attempts)| Operation::Age { pick, attempts }),
        // Leases last 30 or 60 seconds: the end of one is often met exactly, and just missed on both sides.
        8 => sample::select(vec![1, 4, 4, 8, 119, 120, 120, 121, 240, 4 * 3600, 4 * 4000])
            .prop_map(|quarter_seconds| Operation::Advance { quarter_seconds }),
    ]
    .boxed()
}

fn row() -> impl Strategy<Value = Row> {
    let flaws = vec![
        Flaw::NoInstruction,
        Flaw::EmptyKey,
        Flaw::SpaceAfterKey,
        Flaw::LongParticipant,
        Flaw::NoParticipant,
        Flaw::TabInParticipant,
        Flaw::LongRail,
        Flaw::NoPayload,
        Flaw::PayloadIsAList,
        Flaw::PayloadTooLarge,
    ];
    prop_oneof![
        10 => (0..KEYS).prop_map(|key| Row::Good { key, body: 0 }),
        2 => (0..KEYS, 0..4_usize).prop_map(|(key, body)| Row::Good { key, body }),
        1 => (0..KEYS, sample::select(flaws)).prop_map(|(key, flaw)| Row::Bad { key, flaw }),
    ]
}

fn claim() -> impl Strategy<Value = Claim> {
    let with_room = || (sample::select(vec![1, 2, 3, 100]), sample::select(vec![30, 60]));
    let rails = some_rails().prop_flat_map(move |rails| {
        let room = collection::vec(with_room(), rails.len());
        (Just(rails), room).prop_map(|(rails, room)| {
            rails.into_iter().zip(room).map(|(rail, (limit, lease))| (rail, limit, lease)).collect::<Vec<_>>()
        })
    });
    (
        sample::select(vec![1, 2, 3, 100]),
        0..WORKERS.len(),
        sample::select(vec![30, 60]),
        option::of(rails),
        option::weighted(0.2, sample::select(vec![0, 1, 30])),
        sample::select(vec![0, 1, 100, 100]),
    )
        .prop_map(|(batch_size, worker, lease_seconds, rails, after_seconds_ago, takeovers)| Claim {
            batch_size,
            worker,
            lease_seconds,
            rails,
            after_seconds_ago,
            takeovers,
        })
}

fn wrong_claim() -> impl Strategy<Value = WrongClaim> {
    sample::select(vec![
        WrongClaim::NegativeBatch,
        WrongClaim::HugeBatch,
        WrongClaim::NoWorker,
        WrongClaim::AbsurdLease,
        WrongClaim::NegativeTakeovers,
        WrongClaim::RailTwice,
        WrongClaim::LimitsTooShort,
        WrongClaim::LimitsWithoutRails,
    ])
}

fn some_rails() -> impl Strategy<Value = Vec<usize>> {
    sample::subsequence((0..RAILS.len()).collect::<Vec<_>>(), 1..=RAILS.len())
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        8 => (0..100_usize).prop_map(Pick::Held),
        2 => (0..100_usize).prop_map(Pick::Ever),
        1 => (0..100_usize).prop_map(Pick::Invented),
    ]
}

fn state() -> impl Strategy<Value = &'static str> {
    sample::select(vec![
        "DISPATCHED",
        "DISPATCHED",
        "FAILED",
        "FAILED",
        "RETRYABLE",
        "RETRYABLE",
        "RETRYABLE",
        "ZOMBIE_REQUEUE",
    ])
}

fn outcome() -> impl Strategy<Value = ReferenceOutcome> {
    let sensible = |state| match state {
        "DISPATCHED" => vec![None, Some("yes")],
        "FAILED" => vec![None, Some("no"), Some("no"), Some("unknown")],
        _ => vec![None, None, Some("no"), Some("unknown")],
    };
    let money = move |state| {
        prop_oneof![
            12 => sample::select(sensible(state)),
            1 => sample::select(vec![Some("yes"), Some("no"), Some("maybe")]),
        ]
    };
    let said = state().prop_flat_map(move |state| (Just(state), money(state)));
    let delay =
        prop_oneof![6 => sample::select(vec![0, 1, 30, 3600]), 1 => sample::select(vec![-1, 2_678_401])];
    (said, option::of(any::<bool>()), option::of(delay), words()).prop_map(
        |((state, money_moved), unsettled, retry_delay_seconds, words)| ReferenceOutcome {
            state,
            money_moved,
            unsettled,
            retry_delay_seconds,
            words,
        },
    )
}

fn words() -> impl Strategy<Value = Words> {
    let code = vec![None, Some("OUTCOME_UNKNOWN"), Some("RAIL_PENDING"), Some("TIMEOUT"), Some("TIMEOUT")];
    (sample::select(code), option::of(0..5000_i32)).prop_map(|(code, latency_ms)| Words {
        rail_reference: latency_ms.map(|ms| format!("r{ms}")),
        rail_code: code.map(|_| "503".to_owned()),
        error_code: code.map(str::to_owned),
        error_message: code.map(|code| format!("it said {code}")),
        latency_ms,
    })
}
