//! The relayer: from a committed row to a fenced verdict. Any number of hosts run it against one database.
//!
//! In the order in which a payment meets them: [`claim`] wakes and leases, [`lane`] says how much a rail may take ([`breaker`]),
//! ([`refusals`]), [`attempt`] carries one payment through one call ([`mark`] before it, where the rail needs that), [`schedule`] says what to do and when again
//! ([`history`]), [`report`] writes it down, however long that takes ([`persist`]). Beside them [`keep`]: repair, heartbeat, parking, signs of life; [`lanes`]: rails that come while the host runs; [`float`]: what is left to pay from.

mod attempt;
mod breaker;
mod claim;
mod float;
pub mod history;
mod keep;
mod lane;
mod lanes;
mod mark;
mod persist;
mod refusals;
mod report;
pub mod schedule;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::observe::Metrics;
use crate::outbox::lease::{Executor, Held, Lease, Stopped};
use crate::outbox::{Database, Error};
use crate::payment::Instruction;
use crate::rail::{Attempt, Rails, Sandbox, Task};
use lanes::Lanes;
use mark::Marker;
use persist::Refused;

/// How a host works.
#[derive(Debug, Clone)]
pub struct Options {
    /// Unique per start of a process: it is part of the fence.
    pub worker_id: String,
    pub connections: u32,
    /// Looks at the queue this often though no bell rang.
    pub poll: Duration,
    /// Hears the doorbell.
    pub listen: bool,
    /// What is in flight may take this long when the host is told to stop.
    pub drain: Duration,
    /// Months of the history that are made before they are needed.
    pub months_ahead: i32,
    /// Somebody wants to see the span of each payment.
    pub spans: bool,
    /// Somebody keeps every exchange; their rails are loaded to be recorded.
    pub recorder: Option<mpsc::UnboundedSender<Exchanged>>,
}

/// A call as it was.
#[derive(Debug)]
pub struct Exchanged {
    pub rail: String,
    pub task: Task,
    pub payment: Arc<Instruction>,
    /// What was captured before it.
    pub captured: BTreeMap<String, String>,
    pub attempt: Attempt,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            worker_id: format!("railhost-{}", Uuid::new_v4().simple()),
            connections: 8,
            poll: Duration::from_millis(1000),
            listen: true,
            drain: Duration::from_secs(40),
            months_ahead: 3,
            spans: false,
            recorder: None,
        }
    }
}

/// Between two tries to begin.
const BEGUN_AGAIN: Duration = Duration::from_millis(500);
/// After the time to drain is over: what cannot be written as an outcome is kept as a late answer, if that can be.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Longer than any lease lasts, also where the database's clock goes back by hours.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What all parts of a running host share.
struct Host {
    options: Options,
    /// Each has connections of its own. A server process that does the same again and again has all it needs at hand, and takes
    /// two thirds of the time.
    claimer: Executor,
    writer: Executor,
    keeper: Executor,
    marker: Marker,
    sandbox: Arc<Sandbox>,
    rails: Arc<Rails>,
    lanes: Lanes,
    metrics: Arc<Metrics>,
    /// Leases that are ours, and until when we trust them.
    flights: Mutex<HashMap<Uuid, Flight>>,
    /// Tokens of leases that were given to a rail and of which nothing more is known here: their tasks panicked, or what they
    /// heard came too late. What became of them is for the next holder to ask.
    abandoned: Mutex<HashMap<Uuid, Instant>>,
    /// What a person stopped, as of a second ago.
    stopped: ArcSwap<Known>,
    /// Rails that this host stopped, on their way to the database.
    stops: Mutex<Vec<JoinHandle<()>>>,
    /// And since when the database knows of them. From then on what the database says counts.
    told_of_stop: Mutex<BTreeMap<String, Instant>>,
    /// Writes that the database does not take at the moment.
    unwritten: AtomicUsize,
    /// Leases whose end could not be written before this host ended.
    given_up: AtomicUsize,
    /// The time to drain is over: no write is repeated any more.
    gives_up: watch::Sender<bool>,
    /// A place is free again.
    freed: Notify,
    stop: watch::Receiver<bool>,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    held: Held,
    lease: Duration,
    /// On the monotonic clock, from before the claim or its extension was sent.
    trusted_until: Instant,
}

/// What is stopped, and when that was asked for.
#[derive(Debug, Default)]
struct Known {
    stopped: Stopped,
    asked: Option<Instant>,
}

/// A lease counts as ours while this lives. A task that panics drops it too, and the lease is left to end by itself.
struct Aloft {
    host: Arc<Host>,
    held: Held,
}

impl Aloft {
    fn new(host: &Arc<Host>, flight: Flight) -> Self {
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
    fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    fn flights(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Flight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abandon(&self, held: Held) {
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.insert(held.lease_token, Instant::now());
    }

    /// Tokens of all leases that this host knows of. Flights first: a token becomes abandoned before its flight ends, so that it is
    /// in one of the two whenever they are read in this order.
    fn known_tokens(&self) -> Vec<Uuid> {
        let mut known = self.flights().values().map(|flight| flight.held.lease_token).collect::<HashSet<_>>();
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.retain(|_, since| since.elapsed() < FORGOTTEN_AFTER);
        known.extend(abandoned.keys());
        known.into_iter().collect()
    }

    /// Its rail is paused or its participant suspended: it is not handed over now. A claim obeys both, so what was heard before it
    /// was sent is old news; a row that may be asked about is leased all the same.
    fn is_held_back(&self, lease: &Lease, claim_sent: Instant) -> bool {
        let known = self.stopped.load();
        let is_news = lease.unsettled || known.asked.is_some_and(|asked| asked > claim_sent);
        is_news
            && (known.stopped.rails.contains(&lease.rail_type)
                || known.stopped.participants.contains(&lease.participant_id))
    }

    /// Nothing new is taken while what came of the old cannot be written.
    fn can_write(&self) -> bool {
        self.unwritten.load(Ordering::Acquire) == 0
    }

    /// Has a rail paused, here at once and everywhere as soon as it is written.
    fn stop_rail(self: &Arc<Self>, rail: &str, why: &str) {
        tracing::error!(rail, "{rail}: stopped until a person resumes it: {why}");
        self.metrics.stopped(rail);
        // Here at once, for what is leased and waits for its turn, until the database speaks for it.
        if let Some(lane) = self.lanes.get(rail) {
            lane.breaker.stop();
        }
        let (host, rail, why) = (self.clone(), rail.to_owned(), why.to_owned());
        let told = tokio::spawn(async move {
            let stop = persist::persist(&host, "a stopped rail", Refused::Final, || {
                host.writer.stop_rail(&rail, &why)
            });
            match stop.await {
                Ok(_) => drop(host.told_of_stop().insert(rail, Instant::now())),
                Err(error) => {
                    tracing::error!(rail, %error, "{rail}: the database was not told that it is stopped: {error}");
                }
            }
        });
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }

    fn told_of_stop(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Instant>> {
        self.told_of_stop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More is due on some rail than it may take at the moment.
    fn is_crowded(&self) -> bool {
        let now = Instant::now();
        self.lanes.all().values().any(|lane| lane.is_crowded(now))
    }
}

/// Runs a host until `stop` turns true and what was in flight has ended or run out of time. Answers how many leases were
/// left to others.
pub async fn run(
    database: &Database,
    sandbox: Arc<Sandbox>,
    rails: Arc<Rails>,
    metrics: Arc<Metrics>,
    options: Options,
    stop: watch::Receiver<bool>,
) -> Result<usize, Error> {
    let executor = |connections| Executor::new(database, options.worker_id.clone(), connections);
    let (claimer, writers) =
        (executor(1), report::WRITES_MAX.min(options.connections.saturating_sub(2)).max(1));
    let (writer, keeper) =
        (executor(writers), executor(options.connections.saturating_sub(1 + writers).max(1)));
    let lanes = Lanes::new(&rails);
    lanes.names().iter().for_each(|rail| metrics.expect_rail(rail));
    let (marker, marks) = Marker::new();
    let host = Arc::new(Host {
        options,
        marker,
        claimer,
        writer,
        keeper,
        sandbox,
        rails,
        lanes,
        metrics,
        flights: Mutex::default(),
        abandoned: Mutex::default(),
        stopped: ArcSwap::default(),
        stops: Mutex::default(),
        told_of_stop: Mutex::default(),
        given_up: AtomicUsize::new(0),
        gives_up: watch::Sender::default(),
        unwritten: AtomicUsize::new(0),
        freed: Notify::new(),
        stop,
    });
    let (names, digests) = (host.lanes.names(), host.rails.digests());
    patiently(&host, || host.claimer.report(&names, false, &digests)).await?;
    // Before the first claim: what is revoked may not speak at all.
    patiently(&host, || keep::stopped(&host)).await?;
    tokio::spawn(mark::run(Arc::downgrade(&host), marks));
    let (ended, endings) = mpsc::unbounded_channel();
    let mut reporter = tokio::spawn(report::run(host.clone(), endings));
    let mut keeper = tokio::spawn(keep::run(host.clone(), database.clone()));
    tokio::select! {
        claimed = claim::run(&host, database, ended) => claimed?,
        // It ends by itself only after the last attempt: nothing may be sent that nobody writes down.
        ended = &mut reporter => return Err(Error::Schema(format!("the reporter ended: {ended:?}"))),
        // Without it leases run out under calls, and those of dead hosts are not ended.
        ended = &mut keeper => return Err(Error::Schema(format!("the keeper ended: {ended:?}"))),
    }
    // The last sender went with the last attempt: the reporter ends when all is written.
    let left = match tokio::time::timeout(host.options.drain, &mut reporter).await {
        Ok(_) => 0,
        Err(_) => {
            host.gives_up.send_replace(true);
            tokio::time::timeout(LAST_WORDS, &mut reporter).await.ok();
            host.flights().len() + host.given_up.load(Ordering::Acquire)
        }
    };
    let stops = std::mem::take(&mut *host.stops.lock().unwrap_or_else(PoisonError::into_inner));
    if tokio::time::timeout(LAST_WORDS, futures_util::future::join_all(stops)).await.is_err() {
        tracing::error!("a rail was stopped, and the database was not told of it");
    }
    keeper.abort();
    if let Err(error) = host.keeper.retire().await {
        tracing::info!(%error, "the database was not told that this host is gone: {error}");
    }
    Ok(left)
}

/// What a host has to do before its first claim. A server that is restarted in this moment ends no host: it is waited for.
async fn patiently<T, F>(host: &Host, act: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match act().await {
            Err(error @ Error::Unreachable(_)) if !host.is_stopping() => {
                tracing::warn!(%error, "cannot begin yet, trying again: {error}");
                tokio::time::sleep(BEGUN_AGAIN).await;
            }
            done => return done,
        }
    }
}

/// From 0 to 1. What pauses are scattered by, so that hosts and payments do not march in step.
fn die() -> f64 {
    fastrand::f64()
}
