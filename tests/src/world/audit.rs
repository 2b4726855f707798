//! Three independent books: what was submitted, what our tables say, what the rails' ledgers say.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

use rail_simulators::{Booked, Entry};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::rails::is_key_of;
use super::{World, all_text};
use crate::DbUser;

/// How the books compare. What follows `unresolved` must be zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    pub submitted: usize,
    pub dispatched: usize,
    pub refused: usize,
    /// Nobody knows, and the books say so.
    pub unresolved: usize,
    /// Submitted, and in none of our tables.
    pub lost: usize,
    /// Without a verdict, though everything was healed.
    pub stuck: usize,
    /// Paid more than once, under whatever key.
    pub doubled: usize,
    /// Paid by one book and not by another, or another amount.
    pub disagreed: usize,
    /// Heard by a rail without a payment or an attempt of ours before it.
    pub orphaned: usize,
    /// Written under a lease that was lost.
    pub stale_accepted: usize,
    /// Numbers without a payment.
    pub gaps: usize,
    /// Places where a secret was found.
    pub leaks: Vec<String>,
}

/// What a rail knows, by key.
type Ledger = HashMap<String, Entry>;

/// What our tables know of a payment.
#[derive(Debug, Default)]
struct Ours {
    state: Option<String>,
    money_moved: Option<String>,
    attempts: u32,
    pending: bool,
}

impl Audit {
    pub(super) async fn of(world: &World) -> Self {
        let (ours, ledgers) = (ours(world).await, ledgers(world));
        let mut audit = Self { submitted: world.owed.len(), ..Self::default() };
        audit.compare_payments(world, &ours, &ledgers);
        audit.compare_ledgers(world, &ledgers);
        audit.stale_accepted = usize::try_from(world.count(STALE).await).unwrap_or(usize::MAX);
        audit.gaps = usize::try_from(world.count("sequence_gaps").await).unwrap_or(usize::MAX);
        audit.leaks = leaks(world).await;
        audit
    }

    /// What was submitted, in the two other books.
    fn compare_payments(&mut self, world: &World, ours: &HashMap<Uuid, Ours>, ledgers: &[Ledger]) {
        // By payee, because a key that is not ours would hide a second payment.
        let mut executions: HashMap<&str, u32> = HashMap::new();
        for entry in ledgers.iter().flat_map(HashMap::values) {
            *executions.entry(entry.payee.as_str()).or_default() += entry.executions;
        }
        for owed in &world.owed {
            let paid = executions.get(owed.payee.as_str()).copied().unwrap_or_default();
            self.doubled += usize::from(paid > 1);
            let Some(ours) = ours.get(&owed.outbox_id) else {
                self.lost += 1;
                continue;
            };
            let entry = ledgers[owed.rail].get(&world.rails[owed.rail].key(owed.outbox_id));
            match Booked::of(ours.state.as_deref(), ours.money_moved.as_deref()) {
                Booked::Paid => {
                    self.dispatched += 1;
                    self.disagreed += usize::from(
                        entry.is_none_or(|entry| entry.executions == 0 || entry.amount != owed.amount),
                    );
                }
                Booked::NotPaid => {
                    self.refused += 1;
                    self.disagreed += usize::from(paid > 0);
                }
                Booked::Unresolved => self.unresolved += 1,
                Booked::Open if ours.pending => self.stuck += 1,
                Booked::Open => self.lost += 1,
            }
            self.orphaned += usize::from(entry.is_some_and(|entry| entry.requests > ours.attempts));
        }
    }

    /// What the rails heard, in what was submitted.
    fn compare_ledgers(&mut self, world: &World, ledgers: &[Ledger]) {
        let submitted: HashSet<&str> = world.owed.iter().map(|owed| owed.payee.as_str()).collect();
        for (ledger, rail) in ledgers.iter().zip(0..) {
            let known: HashMap<String, Uuid> = world
                .owed
                .iter()
                .filter(|owed| owed.rail == rail)
                .map(|owed| (world.rails[rail].key(owed.outbox_id), owed.outbox_id))
                .collect();
            self.orphaned += ledger
                .values()
                .filter(|entry| {
                    !submitted.contains(entry.payee.as_str())
                        || !known.get(&entry.key).is_some_and(|id| is_key_of(entry, *id))
                })
                .count();
            self.disagreed += ledger.values().filter(|entry| entry.conflicting > 0).count();
        }
    }

    pub fn is_clean(&self) -> bool {
        self.lost
            + self.stuck
            + self.doubled
            + self.disagreed
            + self.orphaned
            + self.stale_accepted
            + self.gaps
            == 0
            && self.leaks.is_empty()
    }

    pub fn assert_clean(&self, seed: u64) {
        assert!(self.is_clean(), "seed {seed}: {self:#?}");
    }
}

/// Attempts that were written by the holder of a lease after somebody else had ended that lease.
const STALE: &str =
    "payment_outbox_attempts z join symphony.payment_outbox_attempts a using (outbox_id, lease_token)
                      where z.state = 'ZOMBIE_REQUEUE' and a.attempt_no > z.attempt_no";

fn ledgers(world: &World) -> Vec<Ledger> {
    let by_key = |entries: Vec<Entry>| -> Ledger {
        entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect()
    };
    world.rails.iter().map(|rail| by_key(rail.simulator.entries())).collect()
}

async fn ours(world: &World) -> HashMap<Uuid, Ours> {
    let mut owner = world.db.connect(DbUser::Superuser).await;
    let mut ours: HashMap<Uuid, Ours> = HashMap::new();
    let attempts: Vec<(Uuid, String, String)> = sqlx::query_as(
        "select outbox_id, state::text, money_moved::text from symphony.payment_outbox_attempts",
    )
    .fetch_all(&mut owner)
    .await
    .expect("the history");
    for (outbox_id, state, money_moved) in attempts {
        let ours = ours.entry(outbox_id).or_default();
        ours.attempts += 1;
        if state == "DISPATCHED" || state == "FAILED" {
            (ours.state, ours.money_moved) = (Some(state), Some(money_moved));
        }
    }
    // A payment that met a hold was sent too, and has no attempt for it.
    let holds: Vec<(Uuid, i32)> =
        sqlx::query_as("select outbox_id, times from symphony.payment_outbox_holds")
            .fetch_all(&mut owner)
            .await
            .expect("the holds");
    for (outbox_id, times) in holds {
        ours.entry(outbox_id).or_default().attempts += times.unsigned_abs();
    }
    let pending: Vec<Uuid> = sqlx::query_scalar("select outbox_id from symphony.payment_outbox_pending")
        .fetch_all(&mut owner)
        .await
        .expect("the queue");
    pending.into_iter().for_each(|outbox_id| ours.entry(outbox_id).or_default().pending = true);
    ours
}

/// Secrets in the logs, in the tables and in the metrics.
async fn leaks(world: &World) -> Vec<String> {
    let mut places: BTreeMap<String, String> = world
        .hosts
        .iter()
        .map(|host| (host.log.display().to_string(), fs::read_to_string(&host.log).unwrap_or_default()))
        .collect();
    places.insert("the tables".to_owned(), all_text(&world.db).await);
    places.insert("the metrics".to_owned(), world.hosts.iter().map(|host| host.metrics.as_str()).collect());
    let secrets = world.secrets();
    let found = |text: &str| secrets.iter().find(|secret| text.contains(secret.as_str())).cloned();
    places.into_iter().filter_map(|(place, text)| Some(format!("{} in {place}", found(&text)?))).collect()
}
