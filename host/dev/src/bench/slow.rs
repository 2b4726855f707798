//! Thousands of calls that wait at a slow rail: what each of them takes in memory and on the processor.

use std::time::{Duration, Instant};

use anyhow::ensure;
use tokio::time::sleep;

use super::contestant::Contestant;
use super::driver::{self, Driver};
use super::figures::{FigureRow, Sample};
use super::flow::Flow;
use super::ground::BenchSetup;
use super::ours::{self, BenchHost};
use super::rail::BenchRail;
use super::rails;
use super::rival::Rival;
use super::scenario::{Scenario, SlowRail};
use super::turns::in_turns;

/// Before memory is looked at: what was begun is done by then.
const SETTLE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PLAIN: &str = "plain";

pub(super) async fn run(
    ground: &BenchSetup,
    scenario: &Scenario,
    asked: &SlowRail,
) -> anyhow::Result<Vec<FigureRow>> {
    let calls = ground.scaled(asked.calls as usize);
    let delay = Duration::from_secs(ground.scaled_seconds(asked.delay_seconds));
    let entrants = ground.contestants(scenario);
    in_turns(ground, scenario, entrants, async |contestant| match contestant {
        Contestant::Ours => by_us(ground, calls, delay).await,
        Contestant::Rival(rival) => by_rival(ground, rival, calls, delay).await,
        Contestant::Floor | Contestant::Functions => anyhow::bail!("it calls nobody"),
    })
    .await
}

async fn by_us(ground: &BenchSetup, calls: usize, delay: Duration) -> anyhow::Result<Sample> {
    let bed = &ground.bed;
    let db = bed.fresh().await?;
    db.migrate().await?;
    let rail = BenchRail::start(delay).await?;
    let file = rails::plain(PLAIN, rail.base(), u32::try_from(calls)?);
    let host = [BenchHost::start(bed, &db, 0, &[file]).await?];
    // A host begins a rail with one payment, and waits for what becomes of it.
    Flow { name: "first", ..Flow::over(PLAIN) }.accept(&db, 1).await?;
    ours::until(&host, 1, |_| true).await?;
    sleep(SETTLE).await;
    let (idle_kib, idle_us) = (host[0].resident_kib(), host[0].cpu_us());
    let began = Instant::now();
    Flow::over(PLAIN).accept(&db, calls).await?;
    until_open(calls, began, delay, || rail.arrived() - 1).await?;
    let peak_kib = host[0].resident_kib();
    ours::until(&host, calls + 1, |_| true).await?;
    let cpu_us = host[0].cpu_us() - idle_us;
    let [host] = host;
    host.end().await?;
    Ok(sample(calls, idle_kib, peak_kib, cpu_us))
}

async fn by_rival(
    ground: &BenchSetup,
    rival: &Rival,
    calls: usize,
    delay: Duration,
) -> anyhow::Result<Sample> {
    let bed = &ground.bed;
    let db = bed.fresh().await?;
    driver::prepare(rival, bed, &db).await?;
    let rail = BenchRail::start(delay).await?;
    let mut calling = Driver::start(bed, &db, rival, &["call", &rail.url, &calls.to_string()])?;
    calling.hear("ready").await?;
    let mut enqueuing = Driver::start(bed, &db, rival, &["enqueue", &calls.to_string()])?;
    enqueuing.hear("ready").await?;
    sleep(SETTLE).await;
    let (idle_kib, idle_us) = (calling.resident_kib(), calling.cpu_us());
    let began = Instant::now();
    enqueuing.go()?;
    enqueuing.hear("done").await?;
    until_open(calls, began, delay, || rail.arrived()).await?;
    let peak_kib = calling.resident_kib();
    while rail.answered() < calls {
        sleep(LOOK_EVERY).await;
    }
    sleep(SETTLE).await;
    let cpu_us = calling.cpu_us() - idle_us;
    enqueuing.close().await?;
    calling.close().await?;
    Ok(sample(calls, idle_kib, peak_kib, cpu_us))
}

/// Waits until all calls have come and a little longer. The first of them must still be open then, or fewer were measured.
async fn until_open(
    calls: usize,
    began: Instant,
    delay: Duration,
    came: impl Fn() -> usize,
) -> anyhow::Result<()> {
    while came() < calls {
        ensure!(began.elapsed() < delay, "only {} of {calls} calls were open at once", came());
        sleep(LOOK_EVERY).await;
    }
    sleep(SETTLE).await;
    ensure!(began.elapsed() < delay, "the calls came too slowly to be open all at once");
    Ok(())
}

fn sample(calls: usize, idle_kib: f64, peak_kib: f64, cpu_us: f64) -> Sample {
    Sample::from([
        ("call_kib", (peak_kib - idle_kib) / calls as f64),
        ("call_cpu_ms", cpu_us / 1e3 / calls as f64),
        ("idle_mib", idle_kib / 1024.0),
        ("peak_mib", peak_kib / 1024.0),
    ])
}
