//! A host from its start to its end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use outbox::Database;
use outbox::lease::Executor;
use rail::{Rails, Sandbox};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::host::Host;
use crate::lanes::Lanes;
use crate::mark_requests::Marker;
use crate::metrics::Metrics;
use crate::options::RelayerOptions;
use crate::persist::retry_while_unreachable;
use crate::run_error::RunError;
use crate::{claim, housekeeping, mark_writer, report};

/// After the time to drain: what cannot be written as an outcome is kept as a late answer, if that is possible.
const FINAL_WRITE_GRACE: Duration = Duration::from_secs(5);

/// Runs a host until `stop` turns true and all attempts have ended or run out of time. Returns how many leases were left to
/// others.
pub async fn run(
    database: &Database,
    sandbox: Arc<Sandbox>,
    rails: Arc<Rails>,
    metrics: Arc<Metrics>,
    options: RelayerOptions,
    shutdown: watch::Receiver<bool>,
) -> Result<usize, RunError> {
    let executor = |connections| Executor::new(database, options.worker_id.clone(), connections);
    let (claimer, writers) =
        (executor(1), report::WRITES_MAX.min(options.connections.saturating_sub(2)).max(1));
    let (writer, housekeeper) =
        (executor(writers), executor(options.connections.saturating_sub(1 + writers).max(1)));
    let lanes = Lanes::new(&rails);
    lanes.names().iter().for_each(|rail| metrics.expect_rail(rail));
    let (marker, marks) = Marker::new();
    let host = Arc::new(Host {
        options,
        marker,
        claimer,
        writer,
        housekeeper,
        sandbox,
        rails,
        lanes,
        metrics,
        trusted_leases: Mutex::default(),
        abandoned: Mutex::default(),
        restrictions: ArcSwap::default(),
        pause_writes: Mutex::default(),
        pause_told_at: Mutex::default(),
        given_up: AtomicUsize::new(0),
        gives_up: watch::Sender::default(),
        unwritten: AtomicUsize::new(0),
        freed: Notify::new(),
        shutdown,
    });
    let (names, digests) = (host.lanes.names(), host.rails.digests());
    retry_while_unreachable(&host, || host.claimer.report(&names, false, &digests)).await?;
    // Before the first claim: a revoked component may not be called at all.
    retry_while_unreachable(&host, || housekeeping::restrictions(&host)).await?;
    tokio::spawn(mark_writer::run(Arc::downgrade(&host), marks));
    let (ended, endings) = mpsc::unbounded_channel();
    let mut reporter = tokio::spawn(report::run(host.clone(), endings));
    let mut housekeeper = tokio::spawn(housekeeping::run(host.clone(), database.clone()));
    tokio::select! {
        claimed = claim::run(&host, database, ended) => claimed?,
        // It ends by itself only after the last attempt. Nothing may be sent that nobody writes down.
        ended = &mut reporter => return Err(RunError::TaskEnded { task: "the reporter", ended }),
        // Without it leases run out during calls, and the leases of dead hosts are not ended.
        ended = &mut housekeeper => return Err(RunError::TaskEnded { task: "housekeeping", ended }),
    }
    let left = drain(&host, reporter).await;
    housekeeper.abort();
    if let Err(error) = host.housekeeper.retire().await {
        tracing::info!(%error, "the database was not told that this host is gone: {error}");
    }
    Ok(left)
}

/// Waits until all is written, or the time for that is over. Returns how many leases are left to others.
async fn drain(host: &Host, mut reporter: JoinHandle<()>) -> usize {
    // The last sender went with the last attempt: the reporter ends when all is written.
    let left = match tokio::time::timeout(host.options.drain, &mut reporter).await {
        Ok(_) => 0,
        Err(_) => {
            host.gives_up.send_replace(true);
            tokio::time::timeout(FINAL_WRITE_GRACE, &mut reporter).await.ok();
            host.trusted_leases().len() + host.given_up.load(Ordering::Acquire)
        }
    };
    let pauses = std::mem::take(&mut *host.pause_writes.lock().unwrap_or_else(PoisonError::into_inner));
    if tokio::time::timeout(FINAL_WRITE_GRACE, futures_util::future::join_all(pauses)).await.is_err() {
        tracing::error!("a rail was stopped, and the database was not told of it");
    }
    left
}
