//! A whole life in batches, against one row per transaction and against batches that loop.

use anyhow::Result;

use crate::bed::{BenchServer, say, step};
use crate::payments::BATCH;
use crate::report::{Figure, Target, number};
use crate::ways::{LOOPED, LOOPED_SQL, SHIPPED};

pub(crate) async fn against_single_rows(bed: &BenchServer) -> Result<Figure> {
    say("lifecycle in batches, against one row per transaction");
    let db = bed.create("single").await?;
    let (many, few) = bed.scale((40_000, 2_000), (5_000, 300));
    SHIPPED.lifecycle(&db, many / 4, BATCH).await?;
    let (mut ours, mut against) = (Vec::new(), Vec::new());
    for round in 1..=bed.scale(5, 2) {
        ours.push(step(&format!("round {round}, batches"), SHIPPED.lifecycle(&db, many, BATCH)).await?);
        against.push(step(&format!("round {round}, single rows"), SHIPPED.lifecycle(&db, few, 1)).await?);
    }
    bed.drop(db).await?;
    Ok(Figure {
        number: "1",
        scenario: "single",
        what: format!("lifecycle in batches of {BATCH}, against the same functions one row per transaction"),
        unit: "/s",
        ours,
        against,
        target: Target::AtLeast(15.0),
        note: "1 connection enqueues, 2 claim and complete".to_owned(),
    })
}

pub(crate) async fn against_loops(bed: &BenchServer) -> Result<Figure> {
    say("lifecycle in batches, against batch functions that loop");
    let db = bed.create("looped").await?;
    db.execute(LOOPED_SQL).await?;
    let rows = bed.scale(40_000, 4_000);
    SHIPPED.lifecycle(&db, rows / 4, BATCH).await?;
    LOOPED.lifecycle(&db, rows / 4, BATCH).await?;
    let (mut ours, mut against) = (Vec::new(), Vec::new());
    for round in 1..=bed.scale(5, 2) {
        ours.push(step(&format!("round {round}, shipped"), SHIPPED.lifecycle(&db, rows, BATCH)).await?);
        against.push(step(&format!("round {round}, looped"), LOOPED.lifecycle(&db, rows, BATCH)).await?);
    }
    bed.drop(db).await?;
    Ok(Figure {
        number: "2",
        scenario: "looped",
        what: "the same, against batch functions that loop row by row".to_owned(),
        unit: "/s",
        ours,
        against,
        target: Target::AtLeast(2.0),
        note: format!("{} rows a round", number(rows as f64)),
    })
}
