//! What all parts of a running host share.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use outbox::lease::{Executor, Held, Lease, Stopped};
use rail::{Rails, Sandbox};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::lanes::Lanes;
use crate::marker::Marker;
use crate::metrics::Metrics;
use crate::options::Options;

/// Longer than any lease lasts, also where the database's clock goes back by hours.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What all parts of a running host share.
pub(crate) struct Host {
    pub(crate) options: Options,
    /// Each has connections of its own. A server process that does the same again and again has all it needs at hand, and takes
    /// two thirds of the time.
    pub(crate) claimer: Executor,
    pub(crate) writer: Executor,
    pub(crate) keeper: Executor,
    pub(crate) marker: Marker,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) rails: Arc<Rails>,
    pub(crate) lanes: Lanes,
    pub(crate) metrics: Arc<Metrics>,
    /// Leases that are ours, and until when we trust them.
    pub(crate) flights: Mutex<HashMap<Uuid, Flight>>,
    /// Tokens of leases that were given to a rail and of which nothing more is known here: their tasks panicked, or what they
    /// heard came too late. What became of them is for the next holder to ask.
    pub(crate) abandoned: Mutex<HashMap<Uuid, Instant>>,
    /// What a person stopped, as of a second ago.
    pub(crate) stopped: ArcSwap<Known>,
    /// Rails that this host stopped, on their way to the database.
    pub(crate) stops: Mutex<Vec<JoinHandle<()>>>,
    /// And since when the database knows of them. From then on what the database says counts.
    pub(crate) told_of_stop: Mutex<BTreeMap<String, Instant>>,
    /// Writes that the database does not take at the moment.
    pub(crate) unwritten: AtomicUsize,
    /// Leases whose end could not be written before this host ended.
    pub(crate) given_up: AtomicUsize,
    /// The time to drain is over: no write is repeated any more.
    pub(crate) gives_up: watch::Sender<bool>,
    /// A place is free again.
    pub(crate) freed: Notify,
    pub(crate) stop: watch::Receiver<bool>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) held: Held,
    pub(crate) lease: Duration,
    /// On the monotonic clock, from before the claim or its extension was sent.
    pub(crate) trusted_until: Instant,
}

/// What is stopped, and when that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) stopped: Stopped,
    pub(crate) asked: Option<Instant>,
}

/// A lease counts as ours while this lives. A task that panics drops it too, and the lease is left to end by itself.
pub(crate) struct Aloft {
    pub(crate) host: Arc<Host>,
    pub(crate) held: Held,
}

impl Aloft {
    pub(crate) fn new(host: &Arc<Host>, flight: Flight) -> Self {
        let held = flight.held;
        host.flights().insert(held.outbox_id, flight);
        Self { host: host.clone(), held }
    }
}

impl Drop for Aloft {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.host.abandon(self.held);
        }
        let mut flights = self.host.flights();
        // The row may be leased again by now, under another token.
        if flights.get(&self.held.outbox_id).is_some_and(|flight| flight.held == self.held) {
            flights.remove(&self.held.outbox_id);
        }
        drop(flights);
        self.host.freed.notify_one();
    }
}

impl Host {
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    pub(crate) fn flights(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Flight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn abandon(&self, held: Held) {
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.insert(held.lease_token, Instant::now());
    }

    /// Tokens of all leases that this host knows of. Flights first: a token becomes abandoned before its flight ends, so that it is
    /// in one of the two whenever they are read in this order.
    pub(crate) fn known_tokens(&self) -> Vec<Uuid> {
        let mut known = self.flights().values().map(|flight| flight.held.lease_token).collect::<HashSet<_>>();
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.retain(|_, since| since.elapsed() < FORGOTTEN_AFTER);
        known.extend(abandoned.keys());
        known.into_iter().collect()
    }

    /// Its rail is paused or its participant suspended: it is not handed over now. A claim obeys both, so what was heard before it
    /// was sent is old news; a row that may be asked about is leased all the same.
    pub(crate) fn is_held_back(&self, lease: &Lease, claim_sent: Instant) -> bool {
        let known = self.stopped.load();
        let is_news = lease.unsettled || known.asked.is_some_and(|asked| asked > claim_sent);
        is_news
            && (known.stopped.rails.contains(&lease.rail_type)
                || known.stopped.participants.contains(&lease.participant_id))
    }

    /// Nothing new is taken while what came of the old cannot be written.
    pub(crate) fn can_write(&self) -> bool {
        self.unwritten.load(Ordering::Acquire) == 0
    }

    pub(crate) fn told_of_stop(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Instant>> {
        self.told_of_stop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More is due on some rail than it may take at the moment.
    pub(crate) fn is_crowded(&self) -> bool {
        let now = Instant::now();
        self.lanes.all().values().any(|lane| lane.is_crowded(now))
    }
}
