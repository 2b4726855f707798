//! What all parts of a running host share.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use outbox::lease::{Executor, Lease, LeaseRef, Restrictions};
use rail::{Rails, Sandbox};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::lanes::Lanes;
use crate::mark_requests::Marker;
use crate::metrics::Metrics;
use crate::options::RelayerOptions;
use crate::unused::Unused;

/// Longer than any lease lasts, also if the database's clock goes back by hours.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What all parts of a running host share.
pub(crate) struct Host {
    pub(crate) options: RelayerOptions,
    /// Three pools: a server process that repeats the same statements keeps its caches warm, and takes two thirds of the time.
    pub(crate) claimer: Executor,
    pub(crate) writer: Executor,
    pub(crate) housekeeper: Executor,
    pub(crate) marker: Marker,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) rails: Arc<Rails>,
    pub(crate) lanes: Lanes,
    pub(crate) metrics: Arc<Metrics>,
    /// Leases that are ours, and until when we trust them.
    pub(crate) trusted_leases: Mutex<HashMap<Uuid, TrustedLease>>,
    /// Tokens of leases that were given to a rail and of which nothing more is known here: their tasks panicked, or their answers
    /// came too late. The next holder asks what became of them.
    pub(crate) abandoned: Mutex<HashMap<Uuid, Instant>>,
    /// Paused rails, suspended participants and revoked components, as of a second ago.
    pub(crate) restrictions: ArcSwap<RestrictionCache>,
    /// For rails that this host stopped: the writes that pause them for all hosts.
    pub(crate) pause_writes: Mutex<Vec<JoinHandle<()>>>,
    /// And since when the database knows of them. From then on the database's word counts.
    pub(crate) pause_told_at: Mutex<BTreeMap<String, Instant>>,
    /// Writes that the database does not take at the moment.
    pub(crate) unwritten: AtomicUsize,
    /// Leases whose end could not be written before this host ended.
    pub(crate) given_up: AtomicUsize,
    /// True when the time to drain is over: then no write is repeated any more.
    pub(crate) gives_up: watch::Sender<bool>,
    /// A call slot is free again.
    pub(crate) freed: Notify,
    /// True from when the process was told to end.
    pub(crate) shutdown: watch::Receiver<bool>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TrustedLease {
    pub(crate) lease: LeaseRef,
    pub(crate) length: Duration,
    /// On the monotonic clock, from before the claim or its extension was sent.
    pub(crate) trusted_until: Instant,
}

/// What may not be paid at the moment, and when that was asked for.
#[derive(Debug, Default)]
pub(crate) struct RestrictionCache {
    pub(crate) restrictions: Restrictions,
    pub(crate) asked: Option<Instant>,
}

/// A lease counts as ours while this lives. A task that panics drops it too. Then the lease is left to end by itself.
pub(crate) struct LeaseGuard {
    pub(crate) host: Arc<Host>,
    pub(crate) lease: LeaseRef,
}

impl LeaseGuard {
    pub(crate) fn new(host: &Arc<Host>, trusted: TrustedLease) -> Self {
        let lease = trusted.lease;
        host.trusted_leases().insert(lease.outbox_id, trusted);
        Self { host: host.clone(), lease }
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.host.abandon(self.lease);
        }
        let mut leases = self.host.trusted_leases();
        // The row may be leased again by now, under another token.
        if leases.get(&self.lease.outbox_id).is_some_and(|trusted| trusted.lease == self.lease) {
            leases.remove(&self.lease.outbox_id);
        }
        drop(leases);
        self.host.freed.notify_one();
    }
}

impl Host {
    pub(crate) fn is_stopping(&self) -> bool {
        *self.shutdown.borrow()
    }

    pub(crate) fn trusted_leases(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, TrustedLease>> {
        self.trusted_leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn abandon(&self, lease: LeaseRef) {
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.insert(lease.lease_token, Instant::now());
    }

    /// Tokens of all leases that this host knows of. Held leases first: a token becomes abandoned before its lease is dropped, so
    /// it is in one of the two whenever they are read in this order.
    pub(crate) fn known_tokens(&self) -> Vec<Uuid> {
        let mut known =
            self.trusted_leases().values().map(|trusted| trusted.lease.lease_token).collect::<HashSet<_>>();
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.retain(|_, since| since.elapsed() < FORGOTTEN_AFTER);
        known.extend(abandoned.keys());
        known.into_iter().collect()
    }

    /// Its rail is paused or its participant is suspended: it is not handed over now. A claim obeys both: `rail_limits.sql` says
    /// whether the rail is enabled, and of a paused one `lock_due_rows.sql` takes only rows that may have left. So this matters
    /// where the pause was heard of after the claim was sent: the lease goes back. A row that was to be asked about and would now
    /// be sent again is held for 5 s (`attempt.rs`). No attempt is used up.
    pub(crate) fn paused_or_suspended(&self, lease: &Lease, claim_sent: Instant) -> Option<Unused> {
        let known = self.restrictions.load();
        if !lease.unsettled && known.asked.is_none_or(|asked| asked <= claim_sent) {
            return None;
        }
        match &known.restrictions {
            known if known.rails.contains(&lease.rail_type) => Some(Unused::RailPaused),
            known if known.participants.contains(&lease.participant_id) => Some(Unused::ParticipantSuspended),
            _ => None,
        }
    }

    /// The host takes nothing new while outcomes cannot be written.
    pub(crate) fn can_write(&self) -> bool {
        self.unwritten.load(Ordering::Acquire) == 0
    }

    pub(crate) fn pause_told_at(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Instant>> {
        self.pause_told_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On some rail more is due than the rail may take at the moment.
    pub(crate) fn is_crowded(&self) -> bool {
        let now = Instant::now();
        self.lanes.all().values().any(|lane| lane.is_crowded(now))
    }
}
