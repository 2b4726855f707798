//! What can happen next, and what must never have happened. [`host`] is what a host does, [`rail`] what becomes of its requests.

mod host;
mod rail;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use chrono::{DateTime, Utc};
use harness::reference::{Micros, Outbox, Rail, Request, SECOND};
use uuid::Uuid;
use verdict::history::History;
use verdict::outcome::Outcome;

use crate::setup::Setup;

const PAYMENT: Uuid = Uuid::from_u128(1);
const RAIL: &str = "rail";
const WORKERS: [&str; 2] = ["A", "B"];
/// Longer than anything can be on its way without being found.
const QUIET: Micros = 61 * SECOND;
const VISIBILITY_SECONDS: u32 = 30;

#[derive(Clone)]
pub(crate) struct World {
    outbox: Rc<Outbox>,
    /// What a failover may bring back.
    earlier: Vec<Rc<Outbox>>,
    hosts: [Host; 2],
    under_way: Vec<Message>,
    rail: BTreeMap<[u8; 36], Account>,
    tokens: u128,
    kills: u8,
    expiries: u8,
    pauses: u8,
    losses: u8,
    holds: u8,
    vetoes: u8,
    strangers: u8,
    refusals: u8,
    failovers: u8,
    /// What the rail does with a request at the door, once it has decided.
    turns_away: Option<bool>,
}

#[derive(Clone)]
enum Host {
    Idle,
    Leased(Held),
    Waiting {
        held: Held,
        asks: bool,
    },
    Decided {
        held: Held,
        outcome: Rc<Outcome>,
    },
    /// The rail cannot pay anybody now: the payment waits, and nothing is used up.
    Holding {
        held: Held,
        delay_seconds: i64,
    },
    /// Its claim was not answered.
    InDoubt,
}

#[derive(Clone)]
struct Held {
    token: Uuid,
    claimed_at: Micros,
    unsettled: bool,
    attempts: i32,
    history: Rc<History>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Message {
    /// The lease for which it was sent.
    token: Uuid,
    key: [u8; 36],
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum What {
    Pay,
    Ask,
    Said(Said),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Said {
    Settled,
    Accepted,
    /// At the door: nothing is kept of it.
    Refused,
    /// At the door too, and it is no fault of the payment.
    Held,
    Duplicate,
    Failed,
    NotFound,
}

/// What the rail has under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Account {
    executions: u8,
    arrived_at: Micros,
    said: Said,
}

fn time(at: Micros) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(at).expect("a time")
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut outbox = Outbox { now: 1_800_000_000 * SECOND, ..Outbox::default() };
        let rail = Rail { hand_over_marks: !setup.deduplicates, ..Rail::default() };
        outbox.rails.insert(RAIL.to_owned(), rail);
        let request = Request {
            instruction_id: "i".to_owned(),
            participant_id: "p".to_owned(),
            idempotency_key: "k".to_owned(),
            rail_type: RAIL.to_owned(),
            payload: "{}".to_owned(),
        };
        let (now, fronts) = (outbox.now, outbox.queue_fronts());
        outbox.enqueue(&request, &fronts, PAYMENT, now).expect("it is new");
        Self {
            outbox: Rc::new(outbox),
            earlier: Vec::new(),
            hosts: [Host::Idle, Host::Idle],
            under_way: Vec::new(),
            rail: BTreeMap::new(),
            tokens: 0,
            kills: setup.kills,
            expiries: setup.expiries,
            pauses: setup.pauses,
            turns_away: None,
            losses: setup.losses,
            holds: setup.holds,
            vetoes: setup.vetoes,
            strangers: setup.strangers,
            refusals: setup.refusals,
            failovers: setup.failovers,
        }
    }

    /// Paid twice, or otherwise than the books say.
    pub(crate) fn check(&self) -> Result<(), String> {
        let executions: u8 = self.rail.values().map(|account| account.executions).sum();
        if executions > 1 {
            return Err(format!("doubled: paid {executions} times"));
        }
        match self.outbox.verdict(PAYMENT).map(|verdict| (verdict.state, verdict.money_moved)) {
            Some(("DISPATCHED", _)) if executions == 0 => {
                Err("disagreed: dispatched and not paid".to_owned())
            }
            Some(("FAILED", "no")) if executions > 0 => Err("disagreed: refused and paid".to_owned()),
            _ => self.outbox.check(),
        }
    }

    /// Every state that one step leads to.
    pub(crate) fn next(&self, setup: &Setup) -> Vec<(String, Self)> {
        let mut next = Vec::new();
        for host in 0..WORKERS.len() {
            self.host_acts(host, setup, &mut next);
        }
        for at in 0..self.under_way.len() {
            self.network_acts(at, setup, &mut next);
        }
        self.rail_acts(&mut next);
        self.time_acts(&mut next);
        for (back, earlier) in self.earlier.iter().enumerate().filter(|_| self.failovers > 0) {
            let mut world = self.clone();
            world.failovers -= 1;
            world.outbox = Rc::new(Outbox { now: self.outbox.now, ..(**earlier).clone() });
            world.earlier.truncate(back);
            next.push(("the database comes back without its last commits".to_owned(), world));
        }
        next
    }

    fn time_acts(&self, next: &mut Vec<(String, Self)>) {
        let lease = self.outbox.pending.get(&PAYMENT).and_then(|row| row.lease.as_ref());
        if let Some(lease) = lease.filter(|lease| lease.expires_at > self.outbox.now && self.expiries > 0) {
            let mut world = self.clone();
            world.expiries -= 1;
            Rc::make_mut(&mut world.outbox).now = lease.expires_at;
            next.push((format!("the lease of {} runs out", lease.worker), world));
        }
        if self.pauses > 0 && lease.is_some_and(|lease| lease.expires_at > self.outbox.now + QUIET) {
            let mut world = self.clone();
            world.pauses -= 1;
            Rc::make_mut(&mut world.outbox).now += QUIET;
            next.push(("a minute passes".to_owned(), world));
        }
    }

    /// The books, to be changed in one transaction.
    fn commit(&mut self) -> &mut Outbox {
        if self.failovers > 0 {
            self.earlier.push(self.outbox.clone());
            let keep = self.earlier.len().saturating_sub(2);
            self.earlier.drain(..keep);
        }
        Rc::make_mut(&mut self.outbox)
    }

    /// Two states with the same one are the same.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn hash(&self, hasher: &mut impl Hasher) {
        books(&self.outbox, hasher);
        self.earlier.iter().for_each(|earlier| books(earlier, hasher));
        for host in &self.hosts {
            match host {
                Host::Idle => 0.hash(hasher),
                Host::Leased(held) => (1, held.token).hash(hasher),
                Host::Waiting { held, asks } => (2, held.token, asks).hash(hasher),
                Host::Decided { held, outcome } => {
                    let delay = outcome.retry_delay_seconds.map(f64::to_bits);
                    (3, held.token, outcome.state as u8, outcome.unsettled, &outcome.error_code, delay)
                        .hash(hasher);
                }
                Host::Holding { held, delay_seconds } => (4, held.token, delay_seconds).hash(hasher),
                Host::InDoubt => 5.hash(hasher),
            }
        }
        (&self.under_way, &self.rail).hash(hasher);
        (self.kills, self.expiries, self.pauses, self.losses, self.holds, self.failovers).hash(hasher);
        (self.vetoes, self.strangers, self.refusals, self.turns_away).hash(hasher);
    }
}

fn books(outbox: &Outbox, hasher: &mut impl Hasher) {
    outbox.now.hash(hasher);
    if let Some(row) = outbox.pending.get(&PAYMENT) {
        (row.next_attempt_at, row.unsettled, row.handed_over_at, row.claimed_at).hash(hasher);
        row.lease.as_ref().map(|lease| (lease.token, &lease.worker, lease.expires_at)).hash(hasher);
    }
    for attempt in outbox.attempts.get(&PAYMENT).into_iter().flatten() {
        (attempt.state, attempt.money_moved, attempt.token, attempt.claimed_at, attempt.completed_at)
            .hash(hasher);
        attempt.words.error_code.hash(hasher);
    }
    for ((_, token), late) in &outbox.late_answers {
        (token, late.state, late.money_moved, &late.words.error_code).hash(hasher);
    }
}
