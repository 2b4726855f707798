use anyhow::Result;
use harness::Db;
use railhost::outbox::complete::{Completion, MoneyMoved, Outcome, State};
use railhost::outbox::lease::{Executor, Room};
use tokio::sync::mpsc;

use crate::bed::{Bed, ask, enqueue, rail, until};
use crate::{list, median, row};

const BATCH: i32 = 500;
/// From the first claim to the last verdict, on the database's clock.
const RATE: &str = "select count(*) / extract(epoch from max(completed_at) - min(claimed_at)) from symphony.payment_outbox_attempts";

pub(crate) async fn run(bed: &Bed) -> Result<()> {
    let payments = bed.scale(100_000, 5_000);
    let (mut ours, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..bed.scale(3, 1) {
        let db = bed.fresh().await?;
        enqueue(&db, "mock", "i", payments).await?;
        let host = bed.host(&db, &[("mock", rail(2_500, 0))], None)?;
        until(&db, "select count(*) from symphony.payment_outbox_pending", |rows| rows == 0.0).await?;
        host.end()?;
        ours.push(ask(&db, RATE).await?);

        let db = bed.fresh().await?;
        enqueue(&db, "mock", "i", payments).await?;
        claim_and_complete(&db, payments).await?;
        alone.push(ask(&db, RATE).await?);
    }
    row(
        &format!(
            "burn-down of {payments} payments through the sandboxed mock, against claim and complete alone"
        ),
        &format!("{} /s", list(&ours, 0)),
        &format!("{} /s", list(&alone, 0)),
        &format!("{:.2}", median(&ours) / median(&alone)),
        "≥ 0.6",
    );
    Ok(())
}

/// The same statements in the same batches, one claiming while the other completes, and nothing in between.
async fn claim_and_complete(db: &Db, payments: usize) -> Result<()> {
    let executor = Executor::new(&db.database(), "alone", 2);
    let (claimed, mut claims) = mpsc::channel(2);
    let claimer = executor.clone();
    let claiming = tokio::spawn(async move {
        let room = [Room {
            rail_type: "mock".to_owned(),
            limit: BATCH,
            lease_seconds: 180.0,
            after: None,
            only: None,
        }];
        let mut after = None;
        loop {
            let room = [Room { after, ..room[0].clone() }];
            let leases = claimer.claim(BATCH, &room, 100).await?;
            let Some(last) = leases.iter().map(|lease| lease.next_attempt_at).max() else { break };
            after = Some(last - chrono::TimeDelta::seconds(1));
            if claimed.send(leases).await.is_err() {
                break;
            }
        }
        Ok::<_, railhost::outbox::Error>(())
    });
    let mut completed = 0;
    while let Some(leases) = claims.recv().await {
        let completions: Vec<_> = leases
            .iter()
            .map(|lease| Completion {
                held: lease.held(),
                outcome: Outcome {
                    money_moved: Some(MoneyMoved::Yes),
                    rail_reference: Some("mock-reference".to_owned()),
                    latency_ms: Some(1),
                    ..Outcome::new(State::Dispatched)
                },
            })
            .collect();
        completed += executor.complete_batch(&completions).await?.len();
    }
    claiming.await??;
    anyhow::ensure!(completed == payments, "{completed} of {payments}");
    Ok(())
}
