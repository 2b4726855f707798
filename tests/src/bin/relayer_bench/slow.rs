use std::time::Duration;

use anyhow::Result;
use harness::Db;

use crate::bed::{Bed, ask, enqueue, enqueue_amount, rail, until};
use crate::{list, median, row};

const IN_FLIGHT: &str = "select count(*) from symphony.payment_outbox_pending where rail_type = 'slow' and lease_token is not null";

pub(crate) async fn run(bed: &Bed) -> Result<()> {
    let calls = bed.scale(5_000, 500);
    let (mut beside, mut alone, mut resident) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bed.scale(3, 1) {
        let db = bed.fresh().await?;
        let rails = [("slow", rail(5_000, 100_000)), ("well", rail(64, 20))];
        let host = bed.host(&db, &rails, None)?;
        steady(&db, "warm-up", 50).await?;
        alone.push(steady(&db, &format!("alone-{round}"), bed.scale(400, 50)).await?);
        enqueue_amount(&db, "slow", "first", 1, "1.00").await?;
        until(&db, "select count(*) from symphony.payment_outbox_pending", |rows| rows == 0.0).await?;
        enqueue(&db, "slow", "slow", calls).await?;
        until(&db, IN_FLIGHT, |rows| rows >= calls as f64).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        beside.push(steady(&db, &format!("beside-{round}"), bed.scale(400, 50)).await?);
        resident.push(host.resident()?);
        drop(host);
    }
    row(
        &format!("memory with {calls} calls in flight on a slow rail"),
        &format!("{} MiB", list(&resident, 0)),
        "–",
        "–",
        "≤ 600 MiB",
    );
    row(
        "p99 from claim to durable verdict of a rail of 20 ms beside them, against the same alone",
        &format!("{} ms", list(&beside, 1)),
        &format!("{} ms", list(&alone, 1)),
        &format!("{:.2}", median(&beside) / median(&alone)),
        "≤ 1.2",
    );
    Ok(())
}

/// One payment every 20 ms; the p99 from its claim to its verdict, in ms.
pub(crate) async fn steady(db: &Db, name: &str, payments: usize) -> Result<f64> {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    for n in 0..payments {
        ticks.tick().await;
        enqueue(db, "well", &format!("{name}-{n}"), 1).await?;
    }
    until(db, "select count(*) from symphony.payment_outbox_pending where rail_type = 'well'", |rows| {
        rows == 0.0
    })
    .await?;
    ask(
        db,
        &format!(
            "select percentile_cont(0.99) within group (order by extract(epoch from completed_at - claimed_at) * 1000)
               from symphony.payment_outbox_attempts where instruction_id like '{name}-%'"
        ),
    )
    .await
}
