//! A forgotten transaction keeps every finished row from being cleaned away. The host's lower bound steps over them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use outbox::enqueue::Ingest;
use outbox::lease::{ClaimLimit, Executor};
use sqlx::Connection;

use crate::bed::{BenchServer, bar, say, step};
use crate::cost::{Claimer, limits};
use crate::payments::{BATCH, RAIL, completions, payments};
use crate::report::{Figure, Target, median, number};

const CLAIM_ROWS: i32 = 100;
const ROUNDS: usize = 5;
const QUEUE: usize = 2000;
/// A host goes back 5 s behind the last row it saw, and 100 k payments take it five minutes at 333/s. We are faster, so
/// the same share of the time we took covers the same number of finished rows.
const MARGIN_SHARE: f64 = 5.0 / 300.0;

pub(crate) async fn run(bed: &BenchServer) -> Result<Figure> {
    say("claim behind a pinned snapshot");
    let db = bed.create("pinned").await?;
    let (ingest, executor) = (db.ingest(1), db.executor("bench"));
    let mut claimer = Claimer::new(&db).await?;
    let fresh_limits = limits(&[RAIL], CLAIM_ROWS);

    enqueue(&ingest, QUEUE).await?;
    let fresh = sample(&mut claimer, &fresh_limits).await?;
    drain(&ingest, &executor, QUEUE).await?;

    let mut elsewhere = db.superuser().await?;
    let mut pin = elsewhere.begin().await?;
    sqlx::query("set transaction isolation level repeatable read").execute(&mut *pin).await?;
    sqlx::query("select count(*) from symphony.rails").execute(&mut *pin).await?;

    let finished = bed.scale(100_000, 10_000);
    let started = Instant::now();
    let last = step("payments while the snapshot is pinned", drain(&ingest, &executor, finished)).await?;
    let margin = started.elapsed().mul_f64(MARGIN_SHARE);
    enqueue(&ingest, QUEUE).await?;

    let bounded = bounded(&fresh_limits, last, margin)?;
    let ours = sample(&mut claimer, &bounded).await?;
    let unbounded = sample(&mut claimer, &fresh_limits).await?;
    pin.rollback().await?;
    drop(claimer);
    bed.drop(db).await?;

    Ok(Figure {
        number: "6",
        scenario: "pinned",
        what: format!(
            "buffers of a claim of {CLAIM_ROWS} after {finished} finished payments under a pinned snapshot, against fresh"
        ),
        unit: "",
        note: format!(
            "lower bound {} ms behind the last row seen; without the bound {} buffers, {} ×",
            margin.as_millis(),
            number(median(&unbounded)),
            number(median(&unbounded) / median(&fresh)),
        ),
        ours,
        against: fresh,
        target: Target::AtMost(10.0),
    })
}

async fn sample(claimer: &mut Claimer, limits: &[ClaimLimit]) -> Result<Vec<f64>> {
    claimer.buffers(CLAIM_ROWS, limits).await?;
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        samples.push(claimer.buffers(CLAIM_ROWS, limits).await?);
    }
    Ok(samples)
}

fn bounded(limits: &[ClaimLimit], last: DateTime<Utc>, margin: Duration) -> Result<Vec<ClaimLimit>> {
    let after = last.checked_sub_signed(chrono::Duration::from_std(margin)?).context("a time")?;
    Ok(limits.iter().map(|limit| ClaimLimit { after: Some(after), ..limit.clone() }).collect())
}

async fn enqueue(ingest: &Ingest, rows: usize) -> Result<()> {
    for part in payments(rows).chunks(BATCH) {
        for answer in ingest.enqueue_batch(part).await? {
            answer?;
        }
    }
    Ok(())
}

/// Enqueues and finishes payments batch by batch, with the bound that a host uses; answers with the last row's due time.
async fn drain(ingest: &Ingest, executor: &Executor, rows: usize) -> Result<DateTime<Utc>> {
    let bar = bar("payments", rows);
    let mut last = DateTime::<Utc>::MIN_UTC;
    let mut after = None;
    let mut done = 0;
    while done < rows {
        enqueue(ingest, BATCH).await?;
        let limits: Vec<_> =
            limits(&[RAIL], BATCH as i32).into_iter().map(|limit| ClaimLimit { after, ..limit }).collect();
        let leases = executor.claim(BATCH as i32, &limits, 100).await?;
        last = leases.iter().map(|lease| lease.next_attempt_at).max().unwrap_or(last);
        after = last.checked_sub_signed(chrono::Duration::milliseconds(100));
        for answer in executor.complete_batch(&completions(&leases)).await? {
            answer?;
        }
        done += leases.len();
        bar.set_position(done as u64);
    }
    // What was there before us goes too.
    loop {
        let leases = executor.claim_any(BATCH as i32, 45.0).await?;
        if leases.is_empty() {
            break;
        }
        last = last.max(leases.iter().map(|lease| lease.next_attempt_at).max().unwrap_or(last));
        executor.complete_batch(&completions(&leases)).await?;
    }
    bar.finish_and_clear();
    Ok(last)
}
