//! Wakes up and leases what is due, as much as there is room for.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::attempt;
use crate::attempt::Claim;
use crate::host::{Aloft, Flight, Host};
use crate::jitter::die;
use crate::lane::Brought;
use crate::persist::patiently;
use crate::report::Ended;
use faults::{self, CrashPoint, crash_point};
use outbox::lease::Lease;
use outbox::wake::Doorbell;
use outbox::{Database, Error};
use verdict::pace::COMPLETION_MARGIN;

/// Expired leases that one claim takes over, per rail.
const TAKEOVERS_MAX: i32 = 100;
/// Bells within this time are one; the first rings through at once.
const DEBOUNCE: Duration = Duration::from_millis(5);
const NAP_MIN: Duration = Duration::from_millis(20);
/// Between two looks while more is due than may be taken.
const NAP: Duration = Duration::from_millis(50);
/// Payments come in company: the first look after a find follows soon, the next ones after ever longer naps.
const NAP_FIRST: Duration = Duration::from_millis(2);
/// For so long after a find a host looks often, also where it hears bells: a retry, a place that is free again and a promoted
/// payment ring none. Longer than a rate takes to allow one more.
const AWAKE: Duration = Duration::from_millis(1100);
/// A bell costs those who enqueue, a look costs us. Where more bells than this ring within a window a host looks often instead
/// and needs none, until most of its looks are in vain and no more than that are not.
const WINDOW: Duration = Duration::from_millis(100);
const BELLS_MAX: u32 = 16;
const FINDS_MIN: u32 = 10;
/// The database takes a host for dead that was silent for a minute.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
const FAILED_PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Between two looks for what a claim without an answer may have leased.
const DOUBTED_EVERY: Duration = Duration::from_secs(1);
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Claims until the host stops. The only claimer of the process, so it never overlaps itself.
pub(crate) async fn run(
    host: &Arc<Host>,
    database: &Database,
    ended: UnboundedSender<Ended>,
) -> Result<(), Error> {
    let mut bells = match host.options.listen {
        true => Some(patiently(host, || Bells::listen(database)).await?),
        false => None,
    };
    let mut stop = host.stop.clone();
    let mut pause = FAILED_PAUSE_FIRST;
    // Enqueue rings only for those who sleep: say so before the last look, or a bell would be missed.
    let mut said = Said { asleep: false, rails: host.lanes.all().len(), at: Instant::now() };
    let mut found_at = Instant::now();
    let mut window = Window::new();
    let mut clock = Clock::default();
    let mut doubt = Doubt::default();
    while !host.is_stopping() {
        if said.at.elapsed() > ALIVE_EVERY || said.rails != host.lanes.all().len() {
            said.say(host, said.asleep).await;
        }
        // Also while outcomes wait: what was never sent must not run out as if it had been.
        let handed_back = doubt.look_again(host).await;
        if handed_back.is_ok() && !host.can_write() {
            tokio::select! {
                () = host.freed.notified() => {}
                () = tokio::time::sleep(NAP) => {}
                _ = stop.changed() => {}
            }
            continue;
        }
        let looked = match handed_back {
            Ok(()) => look(host, &ended, &mut clock).await.inspect_err(|_| doubt.begins(host)),
            Err(error) => Err(error),
        };
        let looked = match looked {
            Ok(looked) => looked,
            Err(error) => {
                host.metrics.claims.claims_failed.inc();
                tracing::warn!(%error, pause_ms = pause.as_millis(), "cannot claim, trying again: {error}");
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = stop.changed() => {}
                }
                pause = (pause * 2).min(FAILED_PAUSE_MAX);
                continue;
            }
        };
        pause = FAILED_PAUSE_FIRST;
        match looked {
            Looked::Found { .. } => (found_at, window.finds) = (Instant::now(), window.finds + 1),
            Looked::NothingDue => window.in_vain += 1,
            Looked::NoRoom => {}
        }
        let bells_rung = bells.as_ref().map_or(0, |bells| bells.rung.swap(0, Ordering::Relaxed));
        match (window.is_over(bells_rung), said.asleep, &looked) {
            (Some(past), true, _) if past.bells > BELLS_MAX || bells.is_none() && past.finds > 0 => {
                said.say(host, false).await;
            }
            (Some(past), false, Looked::NothingDue)
                if past.finds <= FINDS_MIN && past.finds <= past.in_vain =>
            {
                said.say(host, true).await;
                continue;
            }
            _ => {}
        }
        let hears = said.asleep && bells.is_some();
        match looked {
            Looked::Found { more: false } if hears => {
                let nap = tokio::time::sleep(NAP_MIN.min(host.options.poll));
                wait(host, bells.as_mut(), &mut stop, nap).await;
            }
            Looked::Found { .. } => {}
            Looked::NoRoom => {
                tokio::select! {
                    () = host.freed.notified() => {}
                    () = tokio::time::sleep(NAP) => {}
                    _ = stop.changed() => {}
                }
            }
            Looked::NothingDue if said.asleep && found_at.elapsed() >= AWAKE => {
                // Scattered, so that hosts do not march in step.
                let poll = host.options.poll.mul_f64(0.75 + die() * 0.25);
                let next = sleep_for(host, &clock, poll).await;
                wait(host, bells.as_mut(), &mut stop, tokio::time::sleep(next)).await;
            }
            Looked::NothingDue => {
                let first = if hears { NAP_MIN } else { NAP_FIRST };
                let nap = host.options.poll.min((found_at.elapsed() / 2).clamp(first, NAP));
                wait(host, bells.as_mut(), &mut stop, tokio::time::sleep(nap)).await;
            }
        }
    }
    if let Err(error) = doubt.look_again(host).await {
        tracing::info!(%error, "what the last claim may have leased is left to expire: {error}");
    }
    Ok(())
}

/// For a bell, or until it is time.
async fn wait(
    host: &Host,
    bells: Option<&mut Bells>,
    stop: &mut watch::Receiver<bool>,
    time: impl Future<Output = ()>,
) {
    tokio::select! {
        () = ring(bells) => host.metrics.claims.notify_wakeups.inc(),
        () = time => host.metrics.claims.poll_wakeups.inc(),
        _ = stop.changed() => {}
    }
}

/// What came within a short time: by it a host chooses between bells and looks.
struct Window {
    since: Instant,
    bells: u32,
    /// Looks that brought something, and that brought nothing.
    finds: u32,
    in_vain: u32,
}

impl Window {
    fn new() -> Self {
        Self { since: Instant::now(), bells: 0, finds: 0, in_vain: 0 }
    }

    /// This window, if it is over; then the next one begins.
    fn is_over(&mut self, bells: u32) -> Option<Self> {
        self.bells += bells;
        (self.since.elapsed() >= WINDOW).then(|| mem::replace(self, Self::new()))
    }
}

enum Looked {
    Found {
        /// More is due than it brought.
        more: bool,
    },
    NothingDue,
    /// For all that is due.
    NoRoom,
}

/// The database's clock, as its claims tell it: what it showed, and when we heard of that.
#[derive(Default)]
struct Clock(Option<(DateTime<Utc>, Instant)>);

impl Clock {
    /// True if it went back.
    fn shows(&mut self, now: DateTime<Utc>, received: Instant) -> bool {
        self.0.replace((now, received)).is_some_and(|(before, _)| now < before)
    }

    /// Behind the database's by what the answer took, and not ahead of it. Until a claim brought something it is our own.
    fn now(&self) -> DateTime<Utc> {
        self.0.map_or_else(Utc::now, |(shown, received)| shown + received.elapsed())
    }
}

/// A claim that was not answered may have leased something all the same: that goes back before the next one, by a commit that is
/// known to hold. What was never brought to us was not sent to anybody. Where the server could not be told to cancel it, the claim
/// may take effect later still: this host looks again until what it could have leased has ended anyway.
#[derive(Debug, Default)]
struct Doubt {
    until: Option<Instant>,
    looked_at: Option<Instant>,
}

impl Doubt {
    fn begins(&mut self, host: &Host) {
        let lanes = host.lanes.all();
        let leases = lanes.values().map(|lane| lane.rail.current().pace.lease_seconds);
        let longest = Duration::from_secs_f64(leases.fold(0.0, f64::max));
        *self = Self { until: Some(Instant::now() + longest), looked_at: None };
    }

    /// Once a second, for as long as there is doubt.
    async fn look_again(&mut self, host: &Host) -> Result<(), Error> {
        let Some(until) = self.until else { return Ok(()) };
        if self.looked_at.is_some_and(|at| at.elapsed() < DOUBTED_EVERY) {
            return Ok(());
        }
        hand_back(host).await?;
        self.looked_at = Some(Instant::now());
        if Instant::now() >= until {
            self.until = None;
        }
        Ok(())
    }
}

async fn hand_back(host: &Host) -> Result<(), Error> {
    let freed = host.claimer.hand_back_unknown(&host.known_tokens()).await?;
    host.claimer.confirm().await?;
    if !freed.is_empty() {
        host.metrics.claims.handed_back.inc_by(freed.len() as u64);
        tracing::info!("{} payments of a claim that was not answered are handed back", freed.len());
    }
    Ok(())
}

async fn look(host: &Arc<Host>, ended: &UnboundedSender<Ended>, clock: &mut Clock) -> Result<Looked, Error> {
    let sent = Instant::now();
    let rooms: Vec<_> = host.lanes.all().values().filter_map(|lane| lane.room(sent)).collect();
    let free = i32::try_from(host.sandbox.free()).unwrap_or(i32::MAX);
    let wanted = rooms.iter().map(|room| room.limit).sum();
    let asked = free.min(wanted);
    if asked == 0 {
        return Ok(Looked::NoRoom);
    }
    let claim = host.claimer.claim(asked, &rooms, TAKEOVERS_MAX);
    let leases = faults::sending(CrashPoint::ClaimSent, claim).await?;
    let received = Instant::now();
    host.metrics.claims.claim_seconds.observe(sent.elapsed().as_secs_f64());
    if !leases.is_empty() {
        crash_point(CrashPoint::ClaimCommitted);
        host.metrics.claims.claim_batches.inc();
    }
    if leases.first().is_some_and(|lease| clock.shows(lease.claimed_at, received)) {
        host.metrics.claims.clock_moved_back.inc();
        tracing::warn!("the database's clock went back");
        host.lanes.all().values().for_each(|lane| lane.forget_times());
    }
    let mut brought = Brought::Nothing;
    for room in &rooms {
        let of_rail: Vec<_> = leases.iter().filter(|lease| lease.rail_type == room.rail_type).collect();
        let out_of_rate = of_rail.iter().any(|lease| lease.rate_left == Some(0));
        if out_of_rate && of_rail.len() < room.limit as usize {
            host.metrics.calls.rate_limited(&room.rail_type);
        }
        if let Some(lane) = host.lanes.get(&room.rail_type) {
            brought = brought.max(lane.brought(room, &of_rail, out_of_rate || asked < wanted, sent));
        }
        let taken_over = of_rail.iter().filter(|lease| lease.taken_over).count();
        host.metrics.writes.taken_over(&room.rail_type, taken_over as u64);
    }
    for lease in leases {
        start(host, ended, lease, sent, received);
    }
    Ok(match brought {
        Brought::Nothing if host.is_crowded() => Looked::NoRoom,
        Brought::Nothing => Looked::NothingDue,
        some => Looked::Found { more: some == Brought::More || host.is_crowded() },
    })
}

/// Each payment in a task of its own, which ends when its outcome is on its way to the database.
fn start(host: &Arc<Host>, ended: &UnboundedSender<Ended>, lease: Lease, sent: Instant, received: Instant) {
    let Some(lane) = host.lanes.get(&lease.rail_type) else {
        tracing::error!(payment = %lease.outbox_id, "{} was leased for a rail unasked", lease.outbox_id);
        return;
    };
    let place = lane.place();
    let length = (lease.lease_expires_at - lease.claimed_at).to_std().unwrap_or_default();
    let trusted_until = sent + length.saturating_sub(COMPLETION_MARGIN);
    let flight = Flight { held: lease.held(), lease: length, trusted_until };
    let aloft = Aloft::new(host, flight);
    let (host, ended) = (host.clone(), ended.clone());
    let span = match host.options.spans {
        false => tracing::Span::none(),
        true => tracing::info_span!(
            "payment",
            payment = %lease.outbox_id,
            rail = lease.rail_type,
            attempt = lease.attempt_count + 1,
            state = tracing::field::Empty,
            error_code = tracing::field::Empty,
        ),
    };
    let work = async move {
        let held = lease.held();
        let end = attempt::run(&host, &lane, &lease, Claim { sent, received }).await;
        let span = tracing::Span::current();
        ended.send(Ended { rail: lease.rail_type, held, end, sent, span, place, aloft }).ok();
    };
    // Boxed: a task is moved several times before it runs and after it ends, and a call is some kilobytes.
    tokio::spawn(Box::pin(work).instrument(span));
}

/// What the database was told of this host.
struct Said {
    asleep: bool,
    /// How many rails it serves.
    rails: usize,
    at: Instant,
}

impl Said {
    async fn say(&mut self, host: &Host, asleep: bool) {
        // Where it cannot be said the claim that follows fails too, and tells of it.
        let names = host.lanes.names();
        if host.claimer.report(&names, asleep, &host.rails.digests()).await.is_ok() {
            *self = Self { asleep, rails: names.len(), at: Instant::now() };
        }
    }
}

/// The doorbell, heard by a task of its own: what rings while the host is busy is one bell, and is not paid for one by one.
struct Bells {
    rang: Arc<Notify>,
    /// Since they were counted last.
    rung: Arc<AtomicU32>,
    heard_at: Option<Instant>,
    /// Ends with this.
    _hearing: JoinSet<()>,
}

impl Bells {
    async fn listen(database: &Database) -> Result<Self, Error> {
        let (doorbell, rang, rung) = (Doorbell::listen(database).await?, Arc::default(), Arc::default());
        let mut hearing = JoinSet::new();
        hearing.spawn(hear(doorbell, Arc::clone(&rang), Arc::clone(&rung)));
        Ok(Self { rang, rung, heard_at: None, _hearing: hearing })
    }
}

async fn hear(mut doorbell: Doorbell, rang: Arc<Notify>, rung: Arc<AtomicU32>) {
    loop {
        doorbell.wait().await;
        rung.fetch_add(1, Ordering::Relaxed);
        rang.notify_one();
    }
}

/// The first bell rings through at once, those close behind it are one.
async fn ring(bells: Option<&mut Bells>) {
    let Some(bells) = bells else { return std::future::pending().await };
    if let Some(since) = bells.heard_at.map(|at| at.elapsed()).filter(|since| *since < DEBOUNCE) {
        tokio::time::sleep(DEBOUNCE - since).await;
    }
    bells.rang.notified().await;
    bells.heard_at = Some(Instant::now());
}

/// Until the next payment falls due, and not longer than the poll.
async fn sleep_for(host: &Host, clock: &Clock, poll: Duration) -> Duration {
    match host.claimer.next_due_at(&host.lanes.names()).await {
        // Where its clock is not known, ours may be ahead: this must not become a loop without a pause.
        Ok(Some(due)) => (due - clock.now()).to_std().unwrap_or_default().clamp(NAP_MIN.min(poll), poll),
        Ok(None) | Err(_) => poll,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_database_goes_on_from_what_it_showed_whatever_ours_says() {
        let mut clock = Clock::default();
        let shown = DateTime::from_timestamp(1_000_000_000, 0).expect("a time");
        assert!(!clock.shows(shown, Instant::now()));
        assert!((shown..shown + Duration::from_secs(3600)).contains(&clock.now()));
        assert!(clock.shows(shown - Duration::from_secs(1), Instant::now()), "it went back");
        assert!(clock.now() < shown + Duration::from_secs(3600));
    }
}
