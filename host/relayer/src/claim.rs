//! Leases what is due, as much as there is room for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::attempt::ClaimTimes;
use crate::database_clock::DatabaseClock;
use crate::dispatch;
use crate::host::Host;
use crate::jitter;
use crate::notifications::Notifications;
use crate::persist::retry_while_unreachable;
use crate::presence::Presence;
use crate::queue_view::Brought;
use crate::report::FinishedAttempt;
use crate::rhythm::{Action, Event, Looked, Rhythm};
use crate::unanswered::UnansweredClaim;
use faults::{self, CrashPoint, crash_point};
use outbox::lease::{ClaimLimit, Lease};
use outbox::{Database, Error};

/// Expired leases that one claim takes over, per rail.
const TAKEOVERS_MAX: i32 = 100;
/// A due time is waited for this long at least, however close it is.
const DUE_WAIT_MIN: Duration = Duration::from_millis(20);

/// Claims until the host stops. The only claimer of the process, so it never overlaps itself.
pub(crate) async fn run(
    host: &Arc<Host>,
    database: &Database,
    ended: UnboundedSender<FinishedAttempt>,
) -> Result<(), Error> {
    let notifications = match host.options.listen {
        true => Some(retry_while_unreachable(host, || Notifications::listen(database)).await?),
        false => None,
    };
    let rails = || host.lanes.all().len();
    let mut rhythm = Rhythm::new(notifications.is_some(), host.options.poll, rails(), Instant::now());
    let mut claimer = Claimer::new(host, ended, notifications);
    let mut event = Event::Ready;
    while !host.is_stopping() {
        let action = rhythm.next(event, rails(), Instant::now());
        event = claimer.perform(action).await;
    }
    if let Err(error) = claimer.hand_back().await {
        tracing::info!(%error, "leases of the last claim, if any, are left to expire: {error}");
    }
    Ok(())
}

/// Does what the rhythm asks for.
struct Claimer<'h> {
    host: &'h Arc<Host>,
    ended: UnboundedSender<FinishedAttempt>,
    notifications: Option<Notifications>,
    shutdown: watch::Receiver<bool>,
    clock: DatabaseClock,
    unanswered: UnansweredClaim,
}

impl<'h> Claimer<'h> {
    fn new(
        host: &'h Arc<Host>,
        ended: UnboundedSender<FinishedAttempt>,
        notifications: Option<Notifications>,
    ) -> Self {
        Self {
            host,
            ended,
            notifications,
            shutdown: host.shutdown.clone(),
            clock: DatabaseClock::default(),
            unanswered: UnansweredClaim::default(),
        }
    }

    async fn perform(&mut self, action: Action) -> Event {
        match action {
            Action::Claim => return self.claim().await,
            Action::Tell(presence) => return tell(self.host, presence).await,
            Action::AwaitNotification(at_most) => self.wait(at_most).await,
            Action::AwaitDue(at_most) => {
                // Scattered, so that hosts do not keep step with each other.
                let poll = at_most.mul_f64(0.75 + jitter::factor() * 0.25);
                let next = until_due(self.host, &self.clock, poll).await;
                self.wait(next).await;
            }
            Action::AwaitSlot(at_most) => {
                tokio::select! {
                    () = self.host.freed.notified() => {}
                    () = tokio::time::sleep(at_most) => {}
                    _ = self.shutdown.changed() => {}
                }
            }
            Action::Pause(pause) => {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = self.shutdown.changed() => {}
                }
            }
        }
        Event::Ready
    }

    /// For a notification, or until it is time.
    async fn wait(&mut self, at_most: Duration) {
        let metrics = &self.host.metrics.claims;
        tokio::select! {
            () = notification(self.notifications.as_mut()) => metrics.notify_wakeups.inc(),
            () = tokio::time::sleep(at_most) => metrics.poll_wakeups.inc(),
            _ = self.shutdown.changed() => {}
        }
    }

    async fn claim(&mut self) -> Event {
        self.try_to_claim().await.unwrap_or_else(|error| {
            self.host.metrics.claims.claims_failed.inc();
            tracing::warn!(%error, "cannot claim, trying again: {error}");
            Event::Failed
        })
    }

    async fn try_to_claim(&mut self) -> Result<Event, Error> {
        // Also while outcomes wait: what was never sent must not run out as if it had been.
        self.hand_back().await?;
        if !self.host.can_write() {
            return Ok(Event::CannotWrite);
        }
        let looked = self.look().await.inspect_err(|_| {
            self.unanswered.begins(longest_lease(self.host), Instant::now());
        })?;
        let notifications = self.notifications.as_ref().map_or(0, Notifications::take_count);
        Ok(Event::Looked { looked, notifications })
    }

    /// Frees what a claim without an answer may have leased.
    async fn hand_back(&mut self) -> Result<(), Error> {
        if !self.unanswered.is_due(Instant::now()) {
            return Ok(());
        }
        let host = self.host;
        let freed = host.claimer.hand_back_unknown(&host.known_tokens()).await?;
        host.claimer.confirm().await?;
        if !freed.is_empty() {
            host.metrics.claims.handed_back.inc_by(freed.len() as u64);
            tracing::info!("{} payments of a claim that was not answered are handed back", freed.len());
        }
        self.unanswered.handed_back(Instant::now());
        Ok(())
    }

    /// One claim, for all rails that have room.
    async fn look(&mut self) -> Result<Looked, Error> {
        let host = self.host;
        let sent = Instant::now();
        let limits: Vec<_> = host.lanes.all().values().filter_map(|lane| lane.claim_limit(sent)).collect();
        let free = i32::try_from(host.sandbox.free()).unwrap_or(i32::MAX);
        let wanted = limits.iter().map(|limit| limit.rows_max).sum();
        let asked = free.min(wanted);
        if asked == 0 {
            return Ok(Looked::NoRoom);
        }
        let claim = host.claimer.claim(asked, &limits, TAKEOVERS_MAX);
        let leases = faults::sending(CrashPoint::ClaimSent, claim).await?;
        let received = Instant::now();
        host.metrics.claims.claim_seconds.observe(sent.elapsed().as_secs_f64());
        if !leases.is_empty() {
            crash_point(CrashPoint::ClaimCommitted);
            host.metrics.claims.claim_batches.inc();
        }
        // Only now: a claim that failed may have seen nothing.
        for limit in &limits {
            if let Some(lane) = host.lanes.get(&limit.rail_type) {
                lane.claimed(limit, sent);
            }
        }
        if leases.first().is_some_and(|lease| self.clock.shows(lease.claimed_at, received)) {
            host.metrics.claims.clock_moved_back.inc();
            tracing::warn!("the database's clock went back");
            host.lanes.all().values().for_each(|lane| lane.forget_times());
        }
        let brought = limits.iter().map(|limit| take_in(host, limit, &leases, asked < wanted, sent)).max();
        for lease in leases {
            dispatch::start(host, &self.ended, lease, ClaimTimes { sent, received });
        }
        Ok(match brought.unwrap_or(Brought::Nothing) {
            Brought::Nothing if host.is_crowded() => Looked::NoRoom,
            Brought::Nothing => Looked::NothingDue,
            some => Looked::Found { more: some == Brought::More || host.is_crowded() },
        })
    }
}

/// What a claim brought of one rail. `short`: it was sent for less than all rails have room for.
fn take_in(host: &Host, limit: &ClaimLimit, leases: &[Lease], short: bool, sent: Instant) -> Brought {
    let of_rail: Vec<_> = leases.iter().filter(|lease| lease.rail_type == limit.rail_type).collect();
    let out_of_rate = of_rail.iter().any(|lease| lease.rate_left == Some(0));
    if out_of_rate && of_rail.len() < limit.rows_max as usize {
        host.metrics.calls.rate_limited(&limit.rail_type);
    }
    let taken_over = of_rail.iter().filter(|lease| lease.taken_over).count();
    host.metrics.writes.taken_over(&limit.rail_type, taken_over as u64);
    match host.lanes.get(&limit.rail_type) {
        Some(lane) => lane.brought(limit, &of_rail, out_of_rate || short, sent),
        None => Brought::Nothing,
    }
}

fn longest_lease(host: &Host) -> Duration {
    let lanes = host.lanes.all();
    let leases = lanes.values().map(|lane| lane.rail.current().pace.lease_seconds);
    Duration::from_secs_f64(leases.fold(0.0, f64::max))
}

/// Tells the database of this host, which is also its sign of life.
async fn tell(host: &Host, presence: Presence) -> Event {
    let (names, digests) = (host.lanes.names(), host.rails.digests());
    match host.claimer.report(&names, presence == Presence::Asleep, &digests).await {
        Ok(_) => Event::Told { presence, rails: names.len() },
        Err(_) => Event::NotTold,
    }
}

async fn notification(notifications: Option<&mut Notifications>) {
    match notifications {
        Some(notifications) => notifications.next().await,
        None => std::future::pending().await,
    }
}

/// Until the next payment is due, and not longer than the poll.
async fn until_due(host: &Host, clock: &DatabaseClock, poll: Duration) -> Duration {
    match host.claimer.next_due_at(&host.lanes.names()).await {
        // Where the database's clock is not known, ours may be ahead: this must not become a loop without a pause.
        Ok(Some(due)) => (due - clock.now()).to_std().unwrap_or_default().clamp(DUE_WAIT_MIN.min(poll), poll),
        Ok(None) | Err(_) => poll,
    }
}
