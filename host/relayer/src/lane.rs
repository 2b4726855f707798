//! A rail at work in this host: how much it may take at the moment.

use std::collections::BTreeSet;
use std::mem;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::breaker::{Breaker, Grants};
use outbox::lease::{Lease, Only, Room};
use rail::definition::Rate;
use rail::{Loaded, Rail};
use verdict::digest::Digest;
use verdict::schedule::Manner;
use verdict::witness::Rule;

/// A full sweep is due this often; between two, rows seen finished are not looked at again. Less than a poll of a second, so that
/// every one of a host that sleeps is a sweep.
const SWEEP_EVERY: Duration = Duration::from_millis(700);
/// A look that brings nothing so soon after a find met an empty bucket. Longer than the slowest rate takes to allow one more.
const FOUND_LATELY: Duration = Duration::from_millis(1100);
/// One claim takes at most this many rows of a rail.
const BATCH_MAX: usize = 500;
/// While more is due than there is room for, places gather: a write for each single one would cost more than it brings. A quarter
/// of all is enough, or this time.
pub(crate) const GATHER: Duration = Duration::from_millis(5);
/// While a breaker is open, or more is due than there is room for, one look this often is for payments with a past alone:
/// neither a broken rail nor a long queue keeps what may have left from being asked about. Behind a long queue every other
/// look is for them as long as there are more of them than one brings.
const PAST_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Lane {
    pub rail: Arc<Rail>,
    pub breaker: Breaker,
    taken: Arc<AtomicUsize>,
    seen: Mutex<Seen>,
    /// The component that did what it must not, and the participant whose payment that was first.
    offended: Mutex<Option<(Digest, String)>>,
    shaper: Mutex<Option<(Rate, Arc<DefaultDirectRateLimiter>)>>,
    /// Currencies in which less is left to pay from than the floor.
    dry: Mutex<BTreeSet<String>>,
    /// It was asked once what is left, whether or not it answered.
    float_asked: AtomicBool,
}

#[derive(Debug, Default)]
struct Seen {
    swept_at: Option<Instant>,
    /// How far claims have come, and had come at the last sweep: what is committed late may still stand between the two.
    reached: Option<DateTime<Utc>>,
    after: Option<DateTime<Utc>>,
    /// More was due than the last claim could bring.
    crowded: bool,
    past_at: Option<Instant>,
    /// The last look for payments with a past brought as many as it could.
    more_past: bool,
    /// And others had their turn since.
    past_turn: bool,
    /// Something other than the queue may have ended the last look: after it the bucket may be empty.
    short: bool,
    claimed_at: Option<Instant>,
    found_at: Option<Instant>,
}

/// What a look brought of a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Brought {
    Nothing,
    /// All that was due then.
    All,
    /// It is worth looking again at once.
    More,
}

/// Taken before the work, given back when its outcome is written.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
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
            seen: Mutex::default(),
            offended: Mutex::default(),
            shaper: Mutex::default(),
            dry: Mutex::default(),
            float_asked: AtomicBool::new(false),
        }
    }

    /// What the next claim may bring, if anything.
    pub(crate) fn room(&self, now: Instant) -> Option<Room> {
        if self.rail.is_revoked() {
            return None;
        }
        let pace = &self.rail.current().pace;
        let taken = self.taken.load(Ordering::Acquire);
        let free = (pace.concurrency as usize).saturating_sub(taken).min(BATCH_MAX);
        let mut seen = self.seen();
        let gathering = seen.crowded
            && free < (pace.concurrency as usize).div_ceil(4)
            && seen.claimed_at.is_some_and(|at| now.duration_since(at) < GATHER);
        let past_due = seen.past_at.is_none_or(|at| now.duration_since(at) >= PAST_EVERY);
        let (limit, only) = match self.breaker.grants(now) {
            // Nothing is wrong with the rail: all that may be asked is asked.
            Grants::All | Grants::One if !self.pays() && (past_due || seen.more_past) => {
                (free, Some(Only::Asked))
            }
            Grants::All | Grants::One if !self.pays() => (0, None),
            Grants::All if gathering => (0, None),
            Grants::All if seen.crowded && (past_due || seen.past_turn) => {
                (free.div_ceil(4), Some(Only::Tried))
            }
            Grants::All => (free, None),
            // One at a time until it is known how that one fared; the breaker gives a ticket to the first alone.
            Grants::One => (free.min(1), None),
            Grants::None if past_due => (free.min(1), Some(Only::Asked)),
            Grants::None => (0, None),
        };
        if limit == 0 {
            return None;
        }
        let sweep = seen.swept_at.is_none_or(|at| now.duration_since(at) >= SWEEP_EVERY);
        if only.is_none() && sweep {
            (seen.swept_at, seen.after) = (Some(now), seen.reached);
        }
        Some(Room {
            rail_type: self.rail.name.clone(),
            limit: limit as i32,
            lease_seconds: pace.lease_seconds,
            after: seen.after.filter(|_| only.is_none() && !sweep),
            only,
        })
    }

    /// What a claim brought of what there was room for; `short` if something other than the queue may have held it back.
    pub(crate) fn brought(&self, room: &Room, leases: &[&Lease], short: bool, now: Instant) -> Brought {
        let mut seen = self.seen();
        seen.claimed_at = Some(now);
        let full = leases.len() >= room.limit as usize;
        let was_short = mem::replace(&mut seen.short, short && !leases.is_empty());
        if let Some(only) = room.only {
            seen.past_at = Some(now);
            // The look before may have emptied the bucket: then the turn is kept for when there is something in it.
            if was_short && leases.is_empty() {
                return Brought::Nothing;
            }
            (seen.more_past, seen.past_turn) = (full || short, false);
            // Behind a long queue others are next, at once; behind an open breaker nobody is.
            return match !leases.is_empty() || only == Only::Tried {
                true => Brought::More,
                false => Brought::Nothing,
            };
        }
        // An empty bucket and an empty queue look the same; shortly after something was found it is the bucket.
        let found_lately = seen.found_at.is_some_and(|at| now.duration_since(at) < FOUND_LATELY);
        let waits_for_rate =
            seen.crowded && leases.is_empty() && found_lately && self.rail.current().rate.is_some();
        seen.crowded = full || short || waits_for_rate;
        if !leases.is_empty() {
            seen.found_at = Some(now);
            seen.past_turn = seen.more_past;
        }
        let fresh = leases.iter().filter(|lease| lease.attempt_count == 0);
        seen.reached = seen.reached.max(fresh.map(|lease| lease.next_attempt_at).max());
        match leases.is_empty() {
            _ if full => Brought::More,
            true => Brought::Nothing,
            false => Brought::All,
        }
    }

    /// More is due than it may take at the moment, and nobody rings when it may.
    pub(crate) fn is_crowded(&self, now: Instant) -> bool {
        self.seen().crowded && self.grants(now) == Grants::All
    }

    /// What it may be given to pay: nothing outside of its hours, nothing where nothing is left to pay from, else what its breaker says.
    pub(crate) fn grants(&self, now: Instant) -> Grants {
        match self.pays() {
            true => self.breaker.grants(now),
            false => Grants::None,
        }
    }

    /// It is open, and there is something to pay from. Where that is known by asking, nothing is paid before it was asked.
    fn pays(&self) -> bool {
        self.is_open() && !self.is_dry() && (self.float_asked.load(Ordering::Acquire) || !self.has_floors())
    }

    /// True the first time, where payments waited for it.
    pub(crate) fn set_float_asked(&self) -> bool {
        !self.float_asked.swap(true, Ordering::AcqRel) && self.has_floors()
    }

    fn has_floors(&self) -> bool {
        self.rail.current().form.float.values().any(|float| float.floor.is_some())
    }

    /// By the rail's hours and the host's clock.
    pub(crate) fn is_open(&self) -> bool {
        self.rail.current().form.hours.as_ref().is_none_or(|hours| hours.are_open(Utc::now()))
    }

    /// Remembers whether what is left in a currency is below its floor; true if that is new.
    pub(crate) fn set_dry(&self, currency: &str, is_dry: bool) -> bool {
        let mut dry = self.dry();
        if is_dry { dry.insert(currency.to_owned()) } else { dry.remove(currency) }
    }

    /// What is left in this currency is below its floor.
    pub(crate) fn is_dry_of(&self, currency: &str) -> bool {
        self.has_floor(currency) && self.dry().contains(currency)
    }

    /// The same of all its currencies.
    pub(crate) fn is_dry(&self) -> bool {
        let form = &self.rail.current().form;
        !form.currencies.is_empty() && form.currencies.iter().all(|currency| self.is_dry_of(currency))
    }

    /// A floor that was taken out of the file holds nothing up.
    fn has_floor(&self, currency: &str) -> bool {
        self.rail.current().form.float.get(currency).is_some_and(|float| float.floor.is_some())
    }

    fn dry(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.dry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an adapter that did this is not to be trusted with the next payment. With payments of one participant it may be that
    /// participant's doing, who is not to stop a rail for all others: it takes two.
    pub(crate) fn stops_for(&self, rule: Rule, component: Digest, participant_id: &str) -> bool {
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
        let mut seen = self.seen();
        (seen.reached, seen.after, seen.swept_at) = (None, None, None);
    }

    pub(crate) fn place(&self) -> Place {
        self.taken.fetch_add(1, Ordering::AcqRel);
        Place(self.taken.clone())
    }

    /// Waits until the rail's rate allows one more call of this host; true if it had to. What all hosts together may send was
    /// charged with the claim: this keeps claims that lie close together from becoming one burst at the rail.
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

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a rail decides the next step of its payments.
pub(crate) fn policy_of(loaded: &Loaded) -> Manner {
    Manner {
        pace: loaded.pace.clone(),
        idempotent: loaded.idempotent,
        can_query: loaded.form.can_query(),
        calls_back: loaded.form.callback.is_some(),
        deadline: loaded.timeouts.call(),
    }
}
