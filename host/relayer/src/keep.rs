//! What has to be done again and again. All of it is safe on every host at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::breaker::Grants;
use crate::host::{Flight, Host, Known};
use crate::jitter::die;
use crate::new_rails;
use faults::{self, CrashPoint};
use outbox::{Database, Error};
use verdict::digest::Digest;
use verdict::pace::COMPLETION_MARGIN;

const REPAIR_EVERY: Duration = Duration::from_secs(5);
const REPAIR_ROWS: i32 = 1_000;
const PARKING_EVERY: Duration = Duration::from_secs(1);
/// A pause or a suspension is obeyed within two seconds.
const STOPPED_EVERY: Duration = Duration::from_secs(1);
const BREAKERS_EVERY: Duration = Duration::from_secs(1);
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// Times that lie ahead of a clock that went back are put right within this.
const CLOCK_EVERY: Duration = Duration::from_secs(3);
/// The queue itself is the truth about leases, not its index: all of it is looked at again and again, a few pages at a time.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
const SWEEP_PAGES: i32 = 2_000;
const NEIGHBOURS_EVERY: Duration = Duration::from_secs(30);
const MONTHS_EVERY: Duration = Duration::from_secs(3600);
/// After a failure to make them.
const MONTHS_AGAIN: Duration = Duration::from_secs(60);

pub(crate) async fn run(host: Arc<Host>, database: Database) {
    let page = AtomicI32::new(0);
    tokio::join!(
        again(REPAIR_EVERY, || repair(&host)),
        again(PARKING_EVERY, || park(&host)),
        again(STOPPED_EVERY, || stopped(&host)),
        again(HEARTBEAT_EVERY, || heartbeat(&host)),
        again(BREAKERS_EVERY, || breakers(&host)),
        again(CLOCK_EVERY, || clock(&host)),
        again(SWEEP_EVERY, || sweep(&host, &page)),
        again(NEIGHBOURS_EVERY, || neighbours(&host)),
        months(&host),
        new_rails::run(&host, &database),
    );
}

/// A failure is the claimer's to report, which meets it too; here it only means that the next time has more to do.
async fn again<F: Future<Output = Result<(), Error>>>(every: Duration, act: impl Fn() -> F) {
    // Not all in the same moment, in which a payment would have to wait for all of them.
    let mut ticks = interval_at(Instant::now() + every.mul_f64(die()), every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = act().await {
            tracing::debug!(%error, "left for the next time: {error}");
        }
    }
}

async fn repair(host: &Host) -> Result<(), Error> {
    let repaired = faults::sending(CrashPoint::RepairSent, host.keeper.repair(REPAIR_ROWS)).await?;
    if !repaired.is_empty() {
        host.metrics.repaired(&repaired);
        tracing::info!(payments = repaired.len(), "{} payments of dead hosts are due again", repaired.len());
        host.freed.notify_one();
    }
    Ok(())
}

async fn park(host: &Host) -> Result<(), Error> {
    host.keeper.reconcile_parking().await.map(drop)
}

/// Claims obey it anyway; this is for what is leased and waits for its turn. A rail that was stopped begins with one payment.
pub(crate) async fn stopped(host: &Host) -> Result<(), Error> {
    let asked = Instant::now().into_std();
    let stopped = host.keeper.stopped().await?;
    let before = host.stopped.load();
    let newly = stopped.rails.iter().filter(|rail| !before.stopped.rails.contains(rail));
    // One that was stopped here begins again only when the database knew of that when it was asked: the rail is paused then, or a
    // person has resumed it since.
    let is_stopped = |rail: &&String| host.lanes.get(rail).is_some_and(|lane| lane.breaker.is_stopped());
    let mut begin: BTreeSet<String> = newly.filter(|rail| !is_stopped(rail)).cloned().collect();
    host.told_of_stop().retain(|rail, told| {
        let is_known = *told < asked;
        if is_known {
            begin.insert(rail.clone());
        }
        !is_known
    });
    let revoked: Vec<_> = stopped.revoked.iter().filter_map(|digest| Digest::from_bytes(digest)).collect();
    host.rails.revoke(&revoked);
    host.stopped.store(Arc::new(Known { stopped, asked: Some(asked) }));
    // After that is known here: whoever is let through now looks whether its rail is paused.
    for lane in begin.iter().filter_map(|rail| host.lanes.get(rail)) {
        lane.breaker.begin_again();
    }
    Ok(())
}

async fn clock(host: &Host) -> Result<(), Error> {
    if host.keeper.reconcile_clock().await? > 0 {
        host.lanes.all().values().for_each(|lane| lane.forget_times());
        host.freed.notify_one();
    }
    Ok(())
}

async fn sweep(host: &Host, page: &AtomicI32) -> Result<(), Error> {
    page.store(host.keeper.sweep(page.load(Ordering::Relaxed), SWEEP_PAGES).await?, Ordering::Relaxed);
    Ok(())
}

/// Two hosts that judge by different files or components are told of, until they are alike.
async fn neighbours(host: &Host) -> Result<(), Error> {
    let ours = host.rails.digests();
    let mut differing = 0;
    for other in host.keeper.other_hosts().await? {
        let theirs = other.digests.map(|digests| digests.0).unwrap_or_default();
        for rail in ours.keys().filter(|rail| theirs.get(*rail).is_some_and(|digest| *digest != ours[*rail]))
        {
            differing += 1;
            tracing::warn!(
                rail,
                "{rail}: host {} works with another component or another file than this one",
                other.worker_id
            );
        }
    }
    host.metrics.queue.differing_hosts.set(differing);
    Ok(())
}

/// Payments are refused where no month of the history would take them: there is always one.
async fn months(host: &Host) {
    loop {
        let made = host.keeper.create_months_ahead(host.options.months_ahead).await;
        let left = host.keeper.history_days_left().await;
        if let Ok(days) = left {
            host.metrics.queue.history_days_left.set(days);
        }
        let pause = match made {
            Ok(0) => MONTHS_EVERY,
            Ok(months) => {
                tracing::info!("{months} month(s) of the history made ahead");
                MONTHS_EVERY
            }
            Err(error) => {
                tracing::warn!(%error, "no months of the history could be made ahead: {error}");
                MONTHS_AGAIN
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn breakers(host: &Host) -> Result<(), Error> {
    for (rail, lane) in host.lanes.all().iter() {
        host.metrics.rails.closed(rail, !lane.is_open());
        host.metrics.rails.breaker(
            rail,
            match lane.breaker.grants(Instant::now().into()) {
                Grants::All => 0,
                Grants::One => 1,
                Grants::None => 2,
            },
        );
    }
    Ok(())
}

/// Prolongs what has used up more than half of its lease.
async fn heartbeat(host: &Host) -> Result<(), Error> {
    let sent = Instant::now().into_std();
    let mut old: Vec<Flight> = host
        .flights()
        .values()
        .filter(|flight| flight.trusted_until.saturating_duration_since(sent) < flight.lease / 2)
        .copied()
        .collect();
    old.sort_by_key(|flight| flight.lease);
    for same in old.chunk_by(|left, right| left.lease == right.lease) {
        let held: Vec<_> = same.iter().map(|flight| flight.held).collect();
        let extend = host.keeper.extend(&held, same[0].lease.as_secs_f64());
        let extended = faults::sending(CrashPoint::ExtensionSent, extend).await?;
        let mut flights = host.flights();
        for (outbox_id, _) in extended {
            if let Some(flight) = flights.get_mut(&outbox_id) {
                flight.trusted_until = sent + flight.lease.saturating_sub(COMPLETION_MARGIN);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::pace::Pace;

    #[test]
    fn the_payments_of_a_dead_host_move_again_within_a_minute_by_default() {
        let lease = Duration::from_secs_f64(Pace::default().lease_seconds);
        assert!(lease + REPAIR_EVERY + Duration::from_secs(1) <= Duration::from_secs(60));
    }
}
