//! Bytes of WAL that a payment costs from its acceptance to its verdict.

use anyhow::Result;
use outbox::enqueue::Ingest;
use outbox::lease::Executor;
use sqlx::PgConnection;

use crate::bed::{BenchServer, say};
use crate::cost::limits;
use crate::payments::{BATCH, RAIL, completions, payments};
use crate::report::{Figure, Target, median, number};

const ROUNDS: usize = 5;

pub(crate) async fn run(bed: &BenchServer) -> Result<Figure> {
    say("WAL of a lifecycle");
    let db = bed.create("wal").await?;
    let (ingest, executor) = (db.ingest(1), db.executor("bench"));
    let mut watching = db.superuser().await?;
    let rows = bed.scale(20_000, 2_000);

    // The images of whole pages come with the first change after a checkpoint: let them pass.
    wave(&ingest, &executor, &mut watching, rows).await?;
    bed.checkpoint().await?;
    wave(&ingest, &executor, &mut watching, rows).await?;

    let (mut whole, mut parts) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        let bytes = wave(&ingest, &executor, &mut watching, rows).await?;
        whole.push(bytes.iter().sum());
        for (part, bytes) in parts.iter_mut().zip(bytes) {
            part.push(bytes);
        }
    }
    bed.drop(db).await?;
    let [enqueue, claim, complete] = parts.map(|part| number(median(&part)));
    Ok(Figure {
        number: "7",
        scenario: "wal",
        what: "WAL per lifecycle with a payload of 330 bytes".to_owned(),
        unit: "B",
        ours: whole,
        against: Vec::new(),
        target: Target::AtMost(2400.0),
        note: format!(
            "enqueue {enqueue}, claim {claim}, complete {complete}; batches of {BATCH}, away from checkpoints"
        ),
    })
}

/// Bytes per payment of each step, one step after the other.
async fn wave(
    ingest: &Ingest,
    executor: &Executor,
    watching: &mut PgConnection,
    rows: usize,
) -> Result<[f64; 3]> {
    let limits = limits(&[RAIL], BATCH as i32);
    let mut marks = vec![position(watching).await?];
    for part in payments(rows).chunks(BATCH) {
        for answer in ingest.enqueue_batch(part).await? {
            answer?;
        }
    }
    marks.push(position(watching).await?);
    let mut leased = Vec::new();
    while leased.len() < rows {
        leased.extend(executor.claim(BATCH as i32, &limits, 100).await?);
    }
    marks.push(position(watching).await?);
    for part in leased.chunks(BATCH) {
        for answer in executor.complete_batch(&completions(part)).await? {
            answer?;
        }
    }
    marks.push(position(watching).await?);
    let mut steps = marks.windows(2).map(|mark| (mark[1] - mark[0]) / rows as f64);
    Ok(std::array::from_fn(|_| steps.next().unwrap_or_default()))
}

async fn position(connection: &mut PgConnection) -> Result<f64> {
    Ok(sqlx::query_scalar("select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::double precision")
        .fetch_one(connection)
        .await?)
}
