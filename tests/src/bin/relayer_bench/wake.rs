use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use harness::Db;
use harness::adapter_rig::{AdapterRig, guest};
use harness::host::Host;
use harness::rail::Reply;
use outbox::lease::{ClaimLimit, Executor};
use outbox::wake::NotificationListener;
use relayer::RelayerOptions;

use crate::bed::{Bed, ask, enqueue};
use crate::{median, row};

pub(crate) async fn run(bed: &Bed) -> Result<()> {
    let (mut ours, mut by_hand) = (Vec::new(), Vec::new());
    for _ in 0..bed.scale(3, 1) {
        ours.extend(through_a_host(&bed.fresh().await?, bed.scale(100, 10)).await?);
        by_hand.extend(with_a_bell_and_a_claim(&bed.fresh().await?, bed.scale(100, 10)).await?);
    }
    let p99 = |samples: &[f64]| {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[(sorted.len() - 1) * 99 / 100]
    };
    row(
        "from commit to the request at the rail, idle host, against a notification and a claim by hand",
        &format!("p50 {:.2} ms, p99 {:.2} ms", median(&ours), p99(&ours)),
        &format!("p50 {:.2} ms, p99 {:.2} ms", median(&by_hand), p99(&by_hand)),
        &format!("{:.2}", median(&ours) / median(&by_hand)),
        "≤ 2, never a poll",
    );
    Ok(())
}

/// Milliseconds from the acknowledged commit to the arrival of the adapter's request at a rail.
async fn through_a_host(db: &Db, times: usize) -> Result<Vec<f64>> {
    let arrived = Arc::new(Mutex::new(None));
    let noted = arrived.clone();
    let rig = AdapterRig::with(move |_| {
        noted.lock().expect("no panic").replace(Instant::now());
        Reply::says(200, "paid")
    })
    .await;
    fs::write(rig.path("mock.toml"), rig.file(&guest("pays_and_tells"), ""))?;
    let options = RelayerOptions { poll: Duration::from_secs(3600), ..RelayerOptions::default() };
    let host = Host::over(db.database(), rig.sandbox.clone(), &rig.path(""), options).await;
    let mut samples = Vec::new();
    for n in 0..times {
        while ask(db, "select count(*) from symphony.relay_hosts where asleep").await? < 1.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(60)).await;
        enqueue(db, "mock", &format!("i{n}"), 1).await?;
        let committed = Instant::now();
        let at = loop {
            if let Some(at) = arrived.lock().expect("no panic").take() {
                break at;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        samples.push(at.saturating_duration_since(committed).as_secs_f64() * 1e3);
    }
    host.drain().await;
    Ok(samples)
}

/// Milliseconds from the acknowledged commit to the answer of a claim that a notification set off.
async fn with_a_bell_and_a_claim(db: &Db, times: usize) -> Result<Vec<f64>> {
    let executor = Executor::new(&db.database(), "hand", 2);
    let mut listener = NotificationListener::listen(&db.database()).await?;
    let mut samples = Vec::new();
    for n in 0..times {
        executor.report(&["mock".to_owned()], true, &BTreeMap::new()).await?;
        let claimer = executor.clone();
        let claiming = tokio::spawn(async move {
            listener.wait().await;
            let limit = ClaimLimit {
                rail_type: "mock".to_owned(),
                rows_max: 1,
                lease_seconds: 180.0,
                after: None,
                only: None,
            };
            let leases = claimer.claim(1, &[limit], 0).await;
            (listener, leases, Instant::now())
        });
        tokio::time::sleep(Duration::from_millis(60)).await;
        enqueue(db, "mock", &format!("i{n}"), 1).await?;
        let committed = Instant::now();
        let (back, leases, at) = claiming.await?;
        listener = back;
        leases?.first().context("a payment")?;
        samples.push(at.saturating_duration_since(committed).as_secs_f64() * 1e3);
    }
    Ok(samples)
}
