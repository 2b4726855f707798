//! What notifications cost those who enqueue one by one while a host is busy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use outbox::lease::Executor;
use outbox::wake::NotificationListener;
use tokio::task::JoinSet;

use crate::bed::{BenchServer, Db, say, step};
use crate::cost::limits;
use crate::payments::{BATCH, RAIL, completions, payments};
use crate::report::{Figure, Target, median, number};

const CONNECTIONS: u32 = 32;
const WARM_UP_EACH: usize = 30;
const OFF: &str =
    "create or replace function symphony.notify_hosts() returns void language plpgsql as $$ begin end $$";
const ALWAYS: &str = "create or replace function symphony.notify_hosts() returns void language plpgsql
                      as $$ begin perform pg_notify('outbox_pending', 'new_work'); end $$";

pub(crate) async fn run(bed: &BenchServer) -> Result<Figure> {
    say("single-row enqueue with notifications, without them, and with one in every transaction");
    let db = bed.create("wake").await?;
    let shipped: String =
        db.ask("select pg_get_functiondef('symphony.notify_hosts()'::regprocedure)").await?;
    let length = bed.scale(Duration::from_secs(5), Duration::from_secs(1));
    enqueue_for(&db, &shipped, length / 2).await?;

    let (mut ours, mut off, mut always) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=bed.scale(5, 2) {
        for (name, notifying, samples) in [
            ("shipped", shipped.as_str(), &mut ours),
            ("off", OFF, &mut off),
            ("always", ALWAYS, &mut always),
        ] {
            samples.push(step(&format!("round {round}, {name}"), enqueue_for(&db, notifying, length)).await?);
        }
    }
    bed.drop(db).await?;
    Ok(Figure {
        number: "8",
        scenario: "wake",
        what: format!(
            "single-row enqueue at {CONNECTIONS} connections while a host drains, wake-up on, against off"
        ),
        unit: "/s",
        note: format!(
            "NOTIFY in every transaction: {}/s, {} ×",
            number(median(&always)),
            number(median(&always) / median(&off))
        ),
        ours,
        against: off,
        target: Target::AtLeast(0.9),
    })
}

/// Payments accepted per second, one per transaction, under one way of notifying.
async fn enqueue_for(db: &Db, notifying: &str, length: Duration) -> Result<f64> {
    db.execute(notifying).await?;
    let ingest = db.ingest(CONNECTIONS);
    let executor = db.executor("bench");
    executor.report(&[RAIL.to_owned()], false, &BTreeMap::new()).await?;
    // Someone listens, as in production: a NOTIFY that nobody hears would be cheaper.
    let mut listener = NotificationListener::listen(&db.database()).await?;
    let listening = tokio::spawn(async move {
        loop {
            listener.wait().await;
        }
    });

    let (over, accepted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    tasks.spawn(drain(executor, Arc::clone(&over)));
    for _ in 0..CONNECTIONS {
        let (ingest, over, accepted) = (ingest.clone(), Arc::clone(&over), Arc::clone(&accepted));
        tasks.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                for payment in payments(10) {
                    ingest.enqueue(&payment).await?;
                    accepted.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        });
    }
    // All have connected and planned by then.
    while accepted.load(Ordering::Relaxed) < CONNECTIONS as usize * WARM_UP_EACH {
        if let Some(ended) = tasks.try_join_next() {
            ended??;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (started, before) = (Instant::now(), accepted.load(Ordering::Relaxed));
    tokio::time::sleep(length).await;
    let rate = (accepted.load(Ordering::Relaxed) - before) as f64 / started.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    listening.abort();
    Ok(rate)
}

/// A host at work: it never sleeps, so that nobody has to notify it.
async fn drain(executor: Executor, over: Arc<AtomicBool>) -> Result<()> {
    let limits = limits(&[RAIL], BATCH as i32);
    loop {
        let leases = executor.claim(BATCH as i32, &limits, 100).await?;
        if leases.is_empty() {
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        for answer in executor.complete_batch(&completions(&leases)).await? {
            answer?;
        }
        // Batches gather in the meantime, as they do behind a real rail.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
