//! What the checks of claim and complete cost: the same durable writes by bare statements.

use anyhow::Result;

use crate::bed::{BenchServer, say, step};
use crate::payments::BATCH;
use crate::report::{Figure, Target};
use crate::ways::{BARE, SHIPPED};

pub(crate) async fn run(bed: &BenchServer) -> Result<Figure> {
    say("claim and complete, against bare SQL");
    let db = bed.create("bare").await?;
    let rows = bed.scale(40_000, 4_000);
    for way in [SHIPPED, BARE] {
        SHIPPED.fill(&db, rows / 4, BATCH).await?;
        way.drain(&db, rows / 4, BATCH).await?;
    }
    let (mut ours, mut against) = (Vec::new(), Vec::new());
    for round in 1..=bed.scale(7, 2) {
        SHIPPED.fill(&db, rows, BATCH).await?;
        ours.push(step(&format!("round {round}, shipped"), SHIPPED.drain(&db, rows, BATCH)).await?);
        SHIPPED.fill(&db, rows, BATCH).await?;
        against.push(step(&format!("round {round}, bare"), BARE.drain(&db, rows, BATCH)).await?);
    }
    bed.drop(db).await?;
    Ok(Figure {
        number: "3",
        scenario: "bare",
        what: "claim + complete, against hand-written SQL with the same durable writes and no checks"
            .to_owned(),
        unit: "/s",
        ours,
        against,
        target: Target::AtLeast(0.8),
        note: format!("2 connections, batches of {BATCH}"),
    })
}
