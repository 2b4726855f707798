//! A real rail: the `mtn` adapter against its simulator, beside the mock; and the simulator by itself, so that it is known not
//! to be the bottleneck. The simulator runs in this process, the host in one of its own.

use std::time::Instant;

use anyhow::{Result, ensure};
use harness::mtn_client::MtnClient;
use harness::rail_run::{rail_file, rails_folder, set};
use rail_simulators::{Name, Simulator, SimulatorOptions};
use tokio::task::JoinSet;

use crate::bed::{Bed, ask, enqueue, rail, until};
use crate::{list, median, row};

const CONNECTIONS: usize = 16;
const CALLS: u32 = 256;
const RATE: &str = "select count(*) filter (where state in ('DISPATCHED', 'FAILED'))
                      / extract(epoch from max(completed_at) - min(claimed_at)) from symphony.payment_outbox_attempts";

pub(crate) async fn run(bed: &Bed) -> Result<()> {
    let payments = bed.scale(20_000, 1_000);
    let (mut mtn, mut mock, mut alone, mut asked) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bed.scale(3, 1) {
        let simulator = Simulator::start(SimulatorOptions::new(Name::Mtn)).await?;
        alone.push(by_itself(&simulator, payments).await?);

        let simulator = Simulator::start(SimulatorOptions::new(Name::Mtn)).await?;
        let file = rail_file(Name::Mtn, &simulator.base(), |file| {
            // What the database would have to know of it, too.
            file.remove("rate");
            file.remove("sla_seconds");
            set(file, "pace", "concurrency", i64::from(CALLS));
        });
        let secrets = format!("{}/", rails_folder().join("simulated").display());
        let db = bed.fresh().await?;
        enqueue(&db, "mtn", "i", payments).await?;
        let host = bed.host(&db, &[("mtn", file.replace("simulated/", &secrets))], None)?;
        until(&db, "select count(*) from symphony.payment_outbox_pending", |rows| rows == 0.0).await?;
        host.end()?;
        let counts = simulator.counts();
        ensure!(counts.executions as usize == payments && counts.doubled == 0, "{counts:?}");
        let rate = ask(&db, RATE).await?;
        asked.push(rate * (counts.requests + counts.questions) as f64 / payments as f64);
        mtn.push(rate);

        let db = bed.fresh().await?;
        enqueue(&db, "mock", "i", payments).await?;
        let host = bed.host(&db, &[("mock", rail(CALLS, 0))], None)?;
        until(&db, "select count(*) from symphony.payment_outbox_pending", |rows| rows == 0.0).await?;
        host.end()?;
        mock.push(ask(&db, RATE).await?);
    }
    row(
        &format!(
            "{payments} payments through the `mtn` adapter and its simulator (two exchanges each), against the mock, {CALLS} calls at a time"
        ),
        &format!("{} /s", list(&mtn, 0)),
        &format!("{} /s", list(&mock, 0)),
        &format!("{:.2}", median(&mtn) / median(&mock)),
        "–",
    );
    row(
        "what the simulator answers by itself, against what one host asks of it",
        &format!("{} /s", list(&alone, 0)),
        &format!("{} /s", list(&asked, 0)),
        &format!("{:.1} ×", median(&alone) / median(&asked)),
        "≥ 5 ×",
    );
    ledger(bed.scale(100_000, 2_000)).await
}

/// What a ledger of so many payments takes.
async fn ledger(payments: usize) -> Result<()> {
    let simulator = Simulator::start(SimulatorOptions::new(Name::Mtn)).await?;
    let before = resident_mib()?;
    by_itself(&simulator, payments).await?;
    let mib = resident_mib()? - before;
    row(
        &format!("memory of a simulator's ledger of {payments} payments"),
        &format!("{mib:.0} MiB"),
        "",
        &format!("{:.0} B a payment", mib * 1_048_576.0 / payments as f64),
        "bounded: 2,000,000 payments",
    );
    Ok(())
}

/// Requests to pay over some connections, as fast as they are answered.
async fn by_itself(simulator: &Simulator, payments: usize) -> Result<f64> {
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut client = MtnClient::connect(simulator).await?;
        workers.spawn(async move {
            for _ in 0..payments / CONNECTIONS {
                client.pay().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(worked) = workers.join_next().await {
        worked??;
    }
    Ok(payments as f64 / began.elapsed().as_secs_f64())
}

fn resident_mib() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap_or_default();
    Ok(line.split_whitespace().next().unwrap_or("0").parse::<f64>()? / 1024.0)
}
