//! A rail at work in this host: how much it may take at the moment.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chrono::Utc;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::breaker::Breaker;
use crate::breaker_state::Grants;
use crate::queue_view::{Brought, Capacity, ClaimedRows, QueueView, Scope};
use outbox::lease::{ClaimLimit, Lease};
use rail::definition::Rate;
use rail::{Loaded, Rail};
use verdict::digest::Digest;
use verdict::schedule::RailPolicy;
use verdict::witness::GateRule;

/// One claim takes at most this many rows of a rail.
const BATCH_MAX: usize = 500;

#[derive(Debug)]
pub(crate) struct Lane {
    pub rail: Arc<Rail>,
    pub breaker: Breaker,
    taken: Arc<AtomicUsize>,
    view: Mutex<QueueView>,
    /// The component that did what it must not, and the participant whose payment that was first.
    offended: Mutex<Option<(Digest, String)>>,
    shaper: Mutex<Option<(Rate, Arc<DefaultDirectRateLimiter>)>>,
    /// Currencies in which less is left to pay from than the floor.
    low_floats: Mutex<BTreeSet<String>>,
    /// The rail was asked once what is left, whether or not it answered.
    float_asked: AtomicBool,
}

/// Taken before the work, given back when its outcome is written.
#[derive(Debug)]
pub(crate) struct CallSlot(Arc<AtomicUsize>);

impl Drop for CallSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Lane {
    pub(crate) fn new(rail: Arc<Rail>) -> Self {
        Self {
            rail,
            breaker: Breaker::new(),
            taken: Arc::default(),
            view: Mutex::default(),
            offended: Mutex::default(),
            shaper: Mutex::default(),
            low_floats: Mutex::default(),
            float_asked: AtomicBool::new(false),
        }
    }

    /// What the next claim may bring, if anything. To ask changes nothing.
    pub(crate) fn claim_limit(&self, now: Instant) -> Option<ClaimLimit> {
        if self.rail.is_revoked() {
            return None;
        }
        let loaded = self.rail.current();
        let slots = loaded.pace.concurrency as usize;
        let free = slots.saturating_sub(self.taken.load(Ordering::Acquire)).min(BATCH_MAX);
        let capacity = Capacity { slots, free, breaker: self.breaker.grants(now), pays: self.pays() };
        let scope = self.view().scope(&capacity, now)?;
        Some(ClaimLimit {
            rail_type: self.rail.name.clone(),
            rows_max: scope.limit as i32,
            lease_seconds: loaded.pace.lease_seconds,
            after: scope.after,
            only: scope.only,
        })
    }

    /// A claim with this limit was sent at this time, and it was answered.
    pub(crate) fn claimed(&self, limit: &ClaimLimit, sent: Instant) {
        self.view().claimed(&scope(limit), sent);
    }

    /// What that claim brought. `short`: something other than the queue may have held it back.
    pub(crate) fn brought(
        &self,
        limit: &ClaimLimit,
        leases: &[&Lease],
        short: bool,
        sent: Instant,
    ) -> Brought {
        let fresh = leases.iter().filter(|lease| lease.attempt_count == 0);
        let answer = ClaimedRows {
            leases: leases.len(),
            reached: fresh.map(|lease| lease.next_attempt_at).max(),
            short,
            has_rate: self.rail.current().rate.is_some(),
        };
        self.view().brought(&scope(limit), &answer, sent)
    }

    /// More is due than it may take at the moment, and nobody sends a notification when it may.
    pub(crate) fn is_crowded(&self, now: Instant) -> bool {
        self.view().is_crowded() && self.grants(now) == Grants::All
    }

    /// What the rail may be given to pay: nothing outside of its hours, nothing where nothing is left to pay from, else what its
    /// breaker says.
    pub(crate) fn grants(&self, now: Instant) -> Grants {
        match self.pays() {
            true => self.breaker.grants(now),
            false => Grants::None,
        }
    }

    /// It is open, and there is something to pay from. A rail that can say what is left is paid nothing before it was asked.
    fn pays(&self) -> bool {
        self.is_in_hours()
            && !self.is_float_low()
            && (self.float_asked.load(Ordering::Acquire) || !self.has_floors())
    }

    /// True the first time, if payments waited for it.
    pub(crate) fn set_float_asked(&self) -> bool {
        !self.float_asked.swap(true, Ordering::AcqRel) && self.has_floors()
    }

    fn has_floors(&self) -> bool {
        self.rail.current().form.float.values().any(|float| float.floor.is_some())
    }

    /// By the rail's hours and the host's clock.
    pub(crate) fn is_in_hours(&self) -> bool {
        self.rail.current().form.hours.as_ref().is_none_or(|hours| hours.are_open(Utc::now()))
    }

    /// Remembers whether less is left in a currency than its floor; true if that is new.
    pub(crate) fn set_float_low(&self, currency: &str, is_low: bool) -> bool {
        let mut low = self.low_floats();
        if is_low { low.insert(currency.to_owned()) } else { low.remove(currency) }
    }

    /// Less is left in this currency than its floor.
    pub(crate) fn is_float_low_of(&self, currency: &str) -> bool {
        self.has_floor(currency) && self.low_floats().contains(currency)
    }

    /// The same is true of all its currencies.
    pub(crate) fn is_float_low(&self) -> bool {
        let form = &self.rail.current().form;
        !form.currencies.is_empty() && form.currencies.iter().all(|currency| self.is_float_low_of(currency))
    }

    /// A floor that was taken out of the file stops nothing.
    fn has_floor(&self, currency: &str) -> bool {
        self.rail.current().form.float.get(currency).is_some_and(|float| float.floor.is_some())
    }

    fn low_floats(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.low_floats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an adapter that did this must not have the next payment. It takes payments of two participants: one participant may
    /// have caused it, and must not stop a rail for all others.
    pub(crate) fn stops_for(&self, rule: GateRule, component: Digest, participant_id: &str) -> bool {
        if !rule.is_offence() {
            return false;
        }
        let mut first = self.offended.lock().unwrap_or_else(PoisonError::into_inner);
        match &*first {
            Some((known, whose)) if *known == component => whose != participant_id,
            _ => {
                *first = Some((component, participant_id.to_owned()));
                false
            }
        }
    }

    /// The database's clock went back: what lies behind is due again.
    pub(crate) fn forget_times(&self) {
        self.view().forget_times();
    }

    pub(crate) fn slot(&self) -> CallSlot {
        self.taken.fetch_add(1, Ordering::AcqRel);
        CallSlot(self.taken.clone())
    }

    /// Waits until the rail's rate allows one more call of this host; true if it had to wait. What all hosts together may send was
    /// charged with the claim. This keeps claims that are close together from becoming one burst at the rail.
    pub(crate) async fn shape(&self, loaded: &Loaded) -> bool {
        let Some(limiter) = loaded.rate.and_then(|rate| self.limiter(rate)) else { return false };
        let mut waited = false;
        while let Err(not_yet) = limiter.check() {
            waited = true;
            tokio::time::sleep(not_yet.wait_time_from(DefaultClock::default().now())).await;
        }
        waited
    }

    fn limiter(&self, rate: Rate) -> Option<Arc<DefaultDirectRateLimiter>> {
        let mut shaper = self.shaper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, limiter)) = &*shaper
            && *of == rate
        {
            return Some(limiter.clone());
        }
        let cells = |number: i32| NonZeroU32::new(number.unsigned_abs());
        let quota = Quota::per_second(cells(rate.per_second)?).allow_burst(cells(rate.burst)?);
        let limiter = Arc::new(RateLimiter::direct(quota));
        *shaper = Some((rate, limiter.clone()));
        Some(limiter)
    }

    fn view(&self) -> MutexGuard<'_, QueueView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn scope(limit: &ClaimLimit) -> Scope {
    Scope { limit: limit.rows_max as usize, only: limit.only, after: limit.after }
}

/// The part of a rail that decides the next step of its payments.
pub(crate) fn policy_of(loaded: &Loaded) -> RailPolicy {
    RailPolicy {
        pace: loaded.pace.clone(),
        idempotent: loaded.idempotent,
        can_query: loaded.form.can_query(),
        calls_back: loaded.form.callback.is_some(),
        deadline: loaded.timeouts.call(),
    }
}
