//! What arrived and what was paid, by key.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::order::ReceivedPayment;
use crate::script::{Plan, Says};

/// A payment beyond these is not taken: about half a kilobyte each.
pub(crate) const PAYMENTS_MAX: usize = 2_000_000;

/// A payment, and how often it was asked for.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The rail's form of it.
    pub key: String,
    pub payee: String,
    pub amount: String,
    pub currency: String,
    /// The first request to pay.
    pub arrived_at: DateTime<Utc>,
    /// Requests to pay that arrived with this key.
    pub requests: u32,
    /// Those of them that named another payee or amount.
    pub conflicting: u32,
    pub questions: u32,
    /// What the payee is told.
    pub note: String,
    /// How often money moves, by now or by its timeline later.
    pub executions: u32,
    /// What the rail says of it now.
    pub state: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct RequestCounts {
    pub payments: usize,
    pub requests: u64,
    pub questions: u64,
    pub executions: u64,
    pub sessions: u64,
    /// Payments whose money moved more than once.
    pub doubled: usize,
    /// Replies that went wrong, by kind.
    pub faults: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct LedgerRow {
    order: ReceivedPayment,
    plan: Arc<Plan>,
    arrived_at: DateTime<Utc>,
    /// When it was taken into the books, each time.
    taken: Vec<Instant>,
    requests: u32,
    conflicting: u32,
    questions: u32,
}

impl LedgerRow {
    fn age(&self) -> Option<Duration> {
        self.taken.first().map(Instant::elapsed)
    }

    fn executions(&self) -> u32 {
        if self.plan.is_paid() { self.taken.len() as u32 } else { 0 }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    records: HashMap<String, LedgerRow>,
    pub sessions: u64,
    pub faults: BTreeMap<String, u64>,
}

/// What a request to pay found.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub plan: Arc<Plan>,
    /// Requests with this key before it.
    pub number: u32,
}

/// What a question found.
#[derive(Debug)]
pub(crate) struct Question {
    pub plan: Arc<Plan>,
    /// Questions about this payment before it.
    pub number: u32,
    /// What the rail says of it, if it is in the books.
    pub found: Option<(ReceivedPayment, Says)>,
}

impl Ledger {
    /// Notes a request to pay; `plan` is asked for the timeline of a new one. None: the books are full.
    pub(crate) fn arrive(
        &mut self,
        order: &ReceivedPayment,
        plan: impl FnOnce() -> Arc<Plan>,
    ) -> Option<Arrival> {
        if self.records.len() >= PAYMENTS_MAX && !self.records.contains_key(&order.key) {
            return None;
        }
        let record = self.records.entry(order.key.clone()).or_insert_with(|| LedgerRow {
            order: order.clone(),
            plan: plan(),
            arrived_at: Utc::now(),
            taken: Vec::new(),
            requests: 0,
            conflicting: 0,
            questions: 0,
        });
        let same =
            |order: &ReceivedPayment| (order.payee.clone(), order.amount.clone(), order.currency.clone());
        if same(&record.order) != same(order) {
            record.conflicting += 1;
        }
        record.requests += 1;
        Some(Arrival { plan: record.plan.clone(), number: record.requests - 1 })
    }

    /// Takes it into the books, and says whether it was there before.
    pub(crate) fn take(&mut self, key: &str, again: bool) -> bool {
        let Some(record) = self.records.get_mut(key) else { return false };
        let known = !record.taken.is_empty();
        if !known || again {
            record.taken.push(Instant::now());
        }
        known
    }

    /// Notes a question about a payment that was ever asked for.
    pub(crate) fn ask(&mut self, key: &str) -> Option<Question> {
        let record = self.records.get_mut(key)?;
        record.questions += 1;
        let found = record.age().map(|age| (record.order.clone(), record.plan.at(age).clone()));
        Some(Question { plan: record.plan.clone(), number: record.questions - 1, found })
    }

    /// What the rail says of a payment that is in the books.
    pub(crate) fn look(&self, key: &str) -> Option<(ReceivedPayment, Says)> {
        let record = self.records.get(key)?;
        Some((record.order.clone(), record.plan.at(record.age()?).clone()))
    }

    pub(crate) fn entry(&self, key: &str) -> Option<Entry> {
        self.records.get(key).map(entry)
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.records.values().map(entry).collect()
    }

    pub(crate) fn counts(&self) -> RequestCounts {
        let mut counts = RequestCounts {
            payments: self.records.len(),
            sessions: self.sessions,
            faults: self.faults.clone(),
            ..RequestCounts::default()
        };
        for record in self.records.values() {
            let executions = record.executions();
            counts.requests += u64::from(record.requests);
            counts.questions += u64::from(record.questions);
            counts.executions += u64::from(executions);
            counts.doubled += usize::from(executions > 1);
        }
        counts
    }
}

fn entry(record: &LedgerRow) -> Entry {
    let ReceivedPayment { key, payee, amount, currency, note, .. } = record.order.clone();
    let state = match record.age().map(|age| record.plan.at(age)) {
        None => "not taken".to_owned(),
        Some(Says::Settled) => "settled".to_owned(),
        Some(Says::Pending(_)) => "pending".to_owned(),
        Some(Says::Failed { code, .. }) => format!("failed {code}"),
        Some(Says::Word(word)) => format!("says {word}"),
        Some(Says::Missing) => "missing".to_owned(),
    };
    Entry {
        key,
        payee,
        amount,
        currency,
        arrived_at: record.arrived_at,
        requests: record.requests,
        conflicting: record.conflicting,
        questions: record.questions,
        note,
        executions: record.executions(),
        state,
    }
}
