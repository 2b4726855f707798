use std::time::Duration;

use anyhow::Result;

use crate::bed::{Bed, ask, rail};
use crate::{list, row};

/// Of everybody but us.
const STATEMENTS: &str =
    "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()";

pub(crate) async fn run(bed: &Bed) -> Result<()> {
    let db = bed.fresh().await?;
    let rails = [("mock", rail(64, 0)), ("other", rail(64, 20))];
    let cache = tempfile::tempdir()?;
    bed.host(&db, &rails, Some(&cache))?.end()?;
    let mut starts = Vec::new();
    for _ in 0..bed.scale(5, 2) {
        let host = bed.host(&db, &rails, Some(&cache))?;
        starts.push(host.ready_ms);
        host.end()?;
    }
    let host = bed.host(&db, &rails, Some(&cache))?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let seconds = bed.scale(30, 5) as u64;
    let (processor, statements) = (host.processor_seconds()?, ask(&db, STATEMENTS).await?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    // Our own look, and the one before it, are two of them at most.
    let (processor, statements) =
        (host.processor_seconds()? - processor, ask(&db, STATEMENTS).await? - statements - 1.0);
    host.end()?;
    row(
        "idle host, processor and transactions in the database",
        &format!(
            "{:.2} % of a core, {:.1} /s",
            processor * 100.0 / seconds as f64,
            statements / seconds as f64
        ),
        "–",
        "–",
        "≤ 1 %, ≤ 5 /s",
    );
    row(
        "start to ready, plugins compiled before, database migrated",
        &format!("{} ms", list(&starts, 0)),
        "–",
        "–",
        "a fraction of a second",
    );
    Ok(())
}
