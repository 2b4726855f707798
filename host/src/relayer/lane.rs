//! A rail at work in this host: how much it may take at the moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::breaker::{Breaker, Grants};
use super::schedule::Manner;
use crate::outbox::lease::{Lease, Room};
use crate::rail::{Loaded, Rail};

/// A full sweep is due this often; between two, rows seen finished are not looked at again.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Rows that were due this much before the last claimed one may still be committed.
const SEEN_MARGIN: Duration = Duration::from_secs(1);
/// One claim takes at most this many rows of a rail.
const BATCH_MAX: usize = 500;

#[derive(Debug)]
pub(super) struct Lane {
    pub rail: Arc<Rail>,
    pub breaker: Breaker,
    places: Arc<Semaphore>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    swept_at: Option<Instant>,
    after: Option<DateTime<Utc>>,
}

impl Lane {
    pub(super) fn new(rail: Arc<Rail>) -> Self {
        let pace = rail.current().pace.clone();
        Self {
            rail,
            breaker: Breaker::new(pace.breaker),
            places: Arc::new(Semaphore::new(pace.concurrency as usize)),
            seen: Mutex::default(),
        }
    }

    /// What the next claim may bring, if anything.
    pub(super) fn room(&self, now: Instant) -> Option<Room> {
        let free = self.places.available_permits().min(BATCH_MAX);
        let limit = match self.breaker.grants(now) {
            Grants::All => free,
            Grants::One => free.min(1),
            Grants::None => 0,
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.swept_at.is_none_or(|at| now.duration_since(at) >= SWEEP_EVERY) {
            *seen = Seen { swept_at: Some(now), after: None };
        }
        (limit > 0).then(|| Room {
            rail_type: self.rail.name.clone(),
            limit: limit as i32,
            lease_seconds: self.rail.current().pace.lease_seconds,
            after: seen.after,
        })
    }

    pub(super) fn claimed(&self, lease: &Lease) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.after = seen.after.max(Some(lease.next_attempt_at - SEEN_MARGIN));
    }

    /// Taken before the work, given back when its outcome is written.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }
}

impl Manner {
    pub(super) fn of(loaded: &Loaded) -> Self {
        Self {
            pace: loaded.pace.clone(),
            idempotent: loaded.idempotent,
            can_query: loaded.description.can_query,
            deadline: loaded.timeouts.call(),
        }
    }
}
