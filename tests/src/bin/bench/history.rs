//! Enqueueing into a database with a long past, against an empty one.

use std::time::Instant;

use anyhow::Result;
use outbox::enqueue::Ingest;

use crate::bed::{BenchServer, say, step};
use crate::large::Large;
use crate::payments::{BATCH, payments};
use crate::report::{Figure, Target};

pub(crate) async fn run(bed: &BenchServer, large: &Large) -> Result<Figure> {
    say("enqueue with a long history");
    let empty = bed.create("empty").await?;
    let (old, new) = (large.db.ingest(1), empty.ingest(1));
    let rows = bed.scale(50_000, 2_000);
    // Both know their plans; then both start behind the same checkpoint, so that the images of whole pages count.
    timed(&new, BATCH).await?;
    timed(&old, BATCH).await?;
    bed.checkpoint().await?;

    let (mut ours, mut against) = (Vec::new(), Vec::new());
    for round in 1..=bed.scale(5, 2) {
        ours.push(step(&format!("round {round}, with history"), timed(&old, rows)).await?);
        against.push(step(&format!("round {round}, empty"), timed(&new, rows)).await?);
    }
    bed.drop(empty).await?;
    Ok(Figure {
        number: "9",
        scenario: "history",
        what: format!("enqueue with {} rows of history, against an empty database", large.history_rows),
        unit: "/s",
        ours,
        against,
        target: Target::AtLeast(0.8),
        note: format!(
            "batches of {BATCH} on 1 connection, {rows} rows a round, the first right after a checkpoint; none follows for 15 minutes or 8 GB"
        ),
    })
}

/// Rows accepted per second.
async fn timed(ingest: &Ingest, rows: usize) -> Result<f64> {
    let payments = payments(rows);
    let started = Instant::now();
    for part in payments.chunks(BATCH) {
        for answer in ingest.enqueue_batch(part).await? {
            answer?;
        }
    }
    Ok(rows as f64 / started.elapsed().as_secs_f64())
}
