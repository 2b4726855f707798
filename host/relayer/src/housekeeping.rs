//! Housekeeping: what has to be done again and again. All of it is safe on every host at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::breaker_state::Grants;
use crate::host::{Host, RestrictionCache, TrustedLease};
use crate::jitter;
use crate::new_rails;
use faults::{self, CrashPoint};
use outbox::{Database, Error};
use verdict::digest::Digest;
use verdict::pace::COMPLETION_MARGIN;

const REPAIR_EVERY: Duration = Duration::from_secs(5);
const REPAIR_ROWS: i32 = 1_000;
const PARKING_EVERY: Duration = Duration::from_secs(1);
/// A pause or a suspension takes effect within two seconds.
const RESTRICTIONS_EVERY: Duration = Duration::from_secs(1);
const BREAKERS_EVERY: Duration = Duration::from_secs(1);
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// After a clock went back, times that lie ahead of it are put right within this.
const CLOCK_EVERY: Duration = Duration::from_secs(3);
/// The queue itself is the truth about leases, not its index. Housekeeping reads all of it again and again, a few pages at a time.
const STRAY_LEASES_EVERY: Duration = Duration::from_secs(10);
const STRAY_PAGES: i32 = 2_000;
const COMPARE_HOSTS_EVERY: Duration = Duration::from_secs(30);
const MONTHS_EVERY: Duration = Duration::from_secs(3600);
/// After a failure to make them.
const MONTHS_AGAIN: Duration = Duration::from_secs(60);

pub(crate) async fn run(host: Arc<Host>, database: Database) {
    let page = AtomicI32::new(0);
    tokio::join!(
        again(REPAIR_EVERY, || repair(&host)),
        again(PARKING_EVERY, || park(&host)),
        again(RESTRICTIONS_EVERY, || restrictions(&host)),
        again(HEARTBEAT_EVERY, || heartbeat(&host)),
        again(BREAKERS_EVERY, || breakers(&host)),
        again(CLOCK_EVERY, || clock(&host)),
        again(STRAY_LEASES_EVERY, || find_stray_leases(&host, &page)),
        again(COMPARE_HOSTS_EVERY, || compare_hosts(&host)),
        months(&host),
        new_rails::run(&host, &database),
    );
}

/// A failure is told once, and again after it was over: the next time has more to do. Where the database is away, the claimer tells
/// of it.
async fn again<F: Future<Output = Result<(), Error>>>(every: Duration, act: impl Fn() -> F) {
    // Not all at the same moment: a payment would have to wait for all of them.
    let mut ticks = interval_at(Instant::now() + every.mul_f64(jitter::factor()), every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_failing = false;
    loop {
        ticks.tick().await;
        match act().await {
            Ok(()) => is_failing = false,
            Err(error) if is_failing || matches!(error, Error::Unreachable(_)) => {
                tracing::debug!(%error, "left for the next time: {error}");
            }
            Err(error) => {
                is_failing = true;
                tracing::warn!(%error, "housekeeping is left for the next time: {error}");
            }
        }
    }
}

async fn repair(host: &Host) -> Result<(), Error> {
    let repaired = faults::sending(CrashPoint::RepairSent, host.housekeeper.repair(REPAIR_ROWS)).await?;
    if !repaired.is_empty() {
        host.metrics.repaired(&repaired);
        tracing::info!(payments = repaired.len(), "{} payments of dead hosts are due again", repaired.len());
        host.freed.notify_one();
    }
    Ok(())
}

async fn park(host: &Host) -> Result<(), Error> {
    host.housekeeper.reconcile_parking().await.map(drop)
}

/// Claims obey it anyway. This is for payments that are leased and wait for their turn. A rail that was stopped begins with one
/// payment.
pub(crate) async fn restrictions(host: &Host) -> Result<(), Error> {
    let asked = Instant::now().into_std();
    let known = host.housekeeper.restrictions().await?;
    let before = host.restrictions.load();
    let newly = known.rails.iter().filter(|rail| !before.restrictions.rails.contains(rail));
    // A rail that this host stopped begins again only if the database knew of the stop when it was asked. Then the rail is paused,
    // or a person has resumed it since.
    let is_stopped = |rail: &&String| host.lanes.get(rail).is_some_and(|lane| lane.breaker.is_stopped());
    let mut begin: BTreeSet<String> = newly.filter(|rail| !is_stopped(rail)).cloned().collect();
    host.pause_told_at().retain(|rail, told| {
        let is_known = *told < asked;
        if is_known {
            begin.insert(rail.clone());
        }
        !is_known
    });
    let revoked: Vec<_> = known.revoked.iter().filter_map(|digest| Digest::from_bytes(digest)).collect();
    host.rails.revoke(&revoked);
    host.restrictions.store(Arc::new(RestrictionCache { restrictions: known, asked: Some(asked) }));
    // After that is known here: a payment that is let through now checks whether its rail is paused.
    for lane in begin.iter().filter_map(|rail| host.lanes.get(rail)) {
        lane.breaker.begin_again();
    }
    Ok(())
}

async fn clock(host: &Host) -> Result<(), Error> {
    if host.housekeeper.reconcile_clock().await? > 0 {
        host.lanes.all().values().for_each(|lane| lane.forget_times());
        host.freed.notify_one();
    }
    Ok(())
}

async fn find_stray_leases(host: &Host, page: &AtomicI32) -> Result<(), Error> {
    page.store(
        host.housekeeper.find_stray_leases(page.load(Ordering::Relaxed), STRAY_PAGES).await?,
        Ordering::Relaxed,
    );
    Ok(())
}

/// A warning is logged while two hosts judge by different files or components.
async fn compare_hosts(host: &Host) -> Result<(), Error> {
    let ours = host.rails.digests();
    let mut differing = 0;
    for other in host.housekeeper.other_hosts().await? {
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

/// Payments are refused where the history has no month for them. So there is always one.
async fn months(host: &Host) {
    loop {
        let made = host.housekeeper.create_months_ahead(host.options.months_ahead).await;
        let left = host.housekeeper.history_days_left().await;
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
        host.metrics.rails.closed(rail, !lane.is_in_hours());
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

/// Extends leases that are more than half used up.
async fn heartbeat(host: &Host) -> Result<(), Error> {
    let sent = Instant::now().into_std();
    let mut old: Vec<TrustedLease> = host
        .trusted_leases()
        .values()
        .filter(|lease| lease.trusted_until.saturating_duration_since(sent) < lease.length / 2)
        .copied()
        .collect();
    old.sort_by_key(|lease| lease.length);
    for same in old.chunk_by(|left, right| left.length == right.length) {
        let leases: Vec<_> = same.iter().map(|trusted| trusted.lease).collect();
        let extend = host.housekeeper.extend(&leases, same[0].length.as_secs_f64());
        let extended = faults::sending(CrashPoint::ExtensionSent, extend).await?;
        let mut leases = host.trusted_leases();
        for (outbox_id, _) in extended {
            if let Some(lease) = leases.get_mut(&outbox_id) {
                lease.trusted_until = sent + lease.length.saturating_sub(COMPLETION_MARGIN);
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
