//! What has to be done again and again. All of it is safe on every host at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::breaker::Grants;
use super::{Flight, Host, die};
use crate::faults::{self, CrashPoint};
use crate::outbox::Error;
use crate::rail::pace::COMPLETION_MARGIN;

const REPAIR_EVERY: Duration = Duration::from_secs(5);
const REPAIR_ROWS: i32 = 1_000;
const PARKING_EVERY: Duration = Duration::from_secs(1);
/// A pause or a suspension is obeyed within two seconds.
const STOPPED_EVERY: Duration = Duration::from_secs(1);
const BREAKERS_EVERY: Duration = Duration::from_secs(1);
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);

pub(super) async fn run(host: Arc<Host>) {
    tokio::join!(
        again(REPAIR_EVERY, || repair(&host)),
        again(PARKING_EVERY, || park(&host)),
        again(STOPPED_EVERY, || stopped(&host)),
        again(HEARTBEAT_EVERY, || heartbeat(&host)),
        again(BREAKERS_EVERY, || breakers(&host)),
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

/// Claims obey it anyway; this is for what is leased and waits for its turn.
async fn stopped(host: &Host) -> Result<(), Error> {
    host.stopped.store(Arc::new(host.keeper.stopped().await?));
    Ok(())
}

async fn breakers(host: &Host) -> Result<(), Error> {
    for (rail, lane) in &host.lanes {
        host.metrics.breaker(
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
