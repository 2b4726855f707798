//! What a million lives leave in the hot tables, and how many claims were HOT updates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use outbox::lease::Executor;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::bed::{BenchServer, Db, bar, say};
use crate::payments::{BATCH, RAIL, completions, payments};
use crate::report::{Figure, Target};
use outbox::lease::ClaimLimit;

/// More than this do not wait at a time: the size of a queue is not what is measured.
const WAITING_MAX: usize = 20_000;
/// Short, so that claims expire and are cleared away in both halves of the run.
const LEASE_SECONDS: f64 = 10.0;

const SIZE: &str = "select (pg_total_relation_size('symphony.payment_outbox_pending')
                            + pg_total_relation_size('symphony.payment_outbox_claims'))::double precision / 1e6";
const UPDATES: &str = "select n_tup_upd::double precision from pg_stat_user_tables
                        where relid = 'symphony.payment_outbox_pending'::regclass";
const HOT_UPDATES: &str = "select n_tup_hot_upd::double precision from pg_stat_user_tables
                            where relid = 'symphony.payment_outbox_pending'::regclass";

pub(crate) async fn run(bed: &BenchServer) -> Result<Vec<Figure>> {
    say("a million lifecycles");
    let db = bed.create("bloat").await?;
    let (early, late) = bed.scale((250_000, 1_000_000), (5_000, 20_000));
    let bar = bar("payments", late);
    let progress = |done: usize| bar.set_position(done as u64);
    lifecycles(&db, early, progress).await?;
    let size_early: f64 = db.ask(SIZE).await?;
    lifecycles(&db, late - early, |done| progress(early + done)).await?;
    let size_late: f64 = db.ask(SIZE).await?;
    bar.finish_and_clear();

    // Sessions report their counts when they are idle for a second, or when they end.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (updates, hot): (f64, f64) = (db.ask(UPDATES).await?, db.ask(HOT_UPDATES).await?);
    bed.drop(db).await?;
    Ok(vec![
        Figure {
            number: "10",
            scenario: "bloat",
            what: format!("hot tables and their indexes after {late} lifecycles, against after {early}"),
            unit: "MB",
            ours: vec![size_late],
            against: vec![size_early],
            target: Target::AtMost(1.2),
            note: format!("at most {WAITING_MAX} waiting, leases of {LEASE_SECONDS} s"),
        },
        Figure {
            number: "11",
            scenario: "hot",
            what: "claims that are HOT updates".to_owned(),
            unit: "%",
            ours: vec![100.0 * hot / updates],
            against: Vec::new(),
            target: Target::AtLeast(95.0),
            note: format!("{hot} of {updates} updates of that run"),
        },
    ])
}

/// One connection enqueues, two claim and complete, until so many have their verdict.
async fn lifecycles(db: &Db, rows: usize, progress: impl Fn(usize)) -> Result<()> {
    let room = Arc::new(Semaphore::new(WAITING_MAX));
    let done = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let (ingest, gate) = (db.ingest(1), Arc::clone(&room));
    tasks.spawn(async move {
        for _ in (0..rows).step_by(BATCH) {
            gate.acquire_many(BATCH as u32).await?.forget();
            for answer in ingest.enqueue_batch(&payments(BATCH)).await? {
                answer?;
            }
        }
        Ok(())
    });
    for n in 0..2 {
        tasks.spawn(work(db.executor(&format!("worker-{n}")), rows, Arc::clone(&done), Arc::clone(&room)));
    }
    while !tasks.is_empty() {
        if let Ok(Some(ended)) = tokio::time::timeout(Duration::from_millis(500), tasks.join_next()).await {
            ended??;
        }
        progress(done.load(Ordering::Relaxed));
    }
    Ok(())
}

async fn work(executor: Executor, rows: usize, done: Arc<AtomicUsize>, room: Arc<Semaphore>) -> Result<()> {
    let rows_max = BATCH as i32;
    let limits = [ClaimLimit {
        rail_type: RAIL.to_owned(),
        rows_max,
        lease_seconds: LEASE_SECONDS,
        after: None,
        only: None,
    }];
    while done.load(Ordering::Relaxed) < rows {
        let leases = executor.claim(rows_max, &limits, 100).await?;
        if leases.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        for answer in executor.complete_batch(&completions(&leases)).await? {
            answer?;
        }
        room.add_permits(leases.len());
        done.fetch_add(leases.len(), Ordering::Relaxed);
    }
    Ok(())
}
