//! A steady stream: how long a committed payment waits until the rail hears of it.

use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use outbox::enqueue::Ingest;
use payment::{KeyForm, RailKey};
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use super::contestant::Contestant;
use super::driver::{self, Driver};
use super::figures::{FigureRow, Sample, number, percentile};
use super::flow::Flow;
use super::ground::BenchSetup;
use super::history::{self, milliseconds};
use super::ours::{self, BenchHost};
use super::rail::BenchRail;
use super::rails;
use super::rival::Rival;
use super::scenario::{Scenario, Steady};
use super::turns::in_turns;
use terminal::print::say;

const TICKS_PER_SECOND: u64 = 100;
/// Caches fill, compilers optimise.
const WARM_UP: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PLAIN: &str = "plain";

/// A payment's commit was acknowledged then.
type Committed<K> = Vec<(K, DateTime<Utc>)>;

pub(super) async fn run(
    ground: &BenchSetup,
    scenario: &Scenario,
    asked: &Steady,
) -> anyhow::Result<Vec<FigureRow>> {
    let (rate, seconds) = (asked.rate.get(), ground.scaled_seconds(asked.seconds));
    say(&format!("  {} payments a second for {seconds} s", number(rate as f64)));
    let entrants = ground.contestants(scenario);
    in_turns(ground, scenario, entrants, async |contestant| {
        let mut sample = match contestant {
            Contestant::Ours => by_us(ground, asked.calls, rate, seconds).await?,
            Contestant::Rival(rival) => by_rival(ground, rival, asked.calls, rate, seconds).await?,
            Contestant::Floor | Contestant::Functions => anyhow::bail!("it calls nobody"),
        };
        sample.insert("offered_per_s", rate as f64);
        Ok(sample)
    })
    .await
}

async fn by_us(ground: &BenchSetup, calls: u32, rate: u64, seconds: u64) -> anyhow::Result<Sample> {
    let bed = &ground.bed;
    let db = bed.fresh().await?;
    db.migrate().await?;
    let rail = BenchRail::start(Duration::ZERO).await?;
    let host = [BenchHost::start(bed, &db, 0, &[rails::plain(PLAIN, rail.base(), calls)]).await?];
    bed.checkpoint().await?;
    let committed = produce(&Ingest::new(&db.database(), 1), rate, seconds).await?;
    ours::until(&host, committed.len(), |_| true).await?;
    let [host] = host;
    host.end().await?;

    let arrived = rail.arrivals();
    let called = latencies(&committed, |id| arrived.get(&RailKey::of(*id).form(KeyForm::Uuid)).copied())?;
    let ids: Vec<Uuid> = committed.iter().map(|(id, _)| *id).collect();
    let times = history::times(&db, &ids).await?;
    let written = latencies(&committed, |id| times.get(id).map(|times| times.completed_at))?;
    let mut sample = of_calls(&called)?;
    sample.insert("verdict_p50_ms", percentile(&written, 0.5).context("no verdict")?);
    sample.insert("verdict_p99_ms", percentile(&written, 0.99).context("no verdict")?);
    Ok(sample)
}

/// As the rivals' drivers do: a slow commit delays the next one and drops nothing.
async fn produce(ingest: &Ingest, rate: u64, seconds: u64) -> anyhow::Result<Committed<Uuid>> {
    let (flow, began) = (Flow::over(PLAIN), Instant::now());
    let mut committed = Vec::new();
    for tick in 1..=seconds * TICKS_PER_SECOND {
        sleep_until(began + Duration::from_secs(1) * u32::try_from(tick)? / TICKS_PER_SECOND as u32).await;
        let until = usize::try_from(tick * rate / TICKS_PER_SECOND)?;
        if until > committed.len() {
            let accepted = flow.accept_part(ingest, committed.len()..until).await?;
            let at = Utc::now();
            committed.extend(accepted.into_iter().map(|payment| (payment.outbox_id, at)));
        }
    }
    Ok(committed)
}

async fn by_rival(
    ground: &BenchSetup,
    rival: &Rival,
    calls: u32,
    rate: u64,
    seconds: u64,
) -> anyhow::Result<Sample> {
    let bed = &ground.bed;
    let db = bed.fresh().await?;
    driver::prepare(rival, bed, &db).await?;
    let rail = BenchRail::start(Duration::ZERO).await?;
    let mut calling = Driver::start(bed, &db, rival, &["call", &rail.url, &calls.to_string()])?;
    calling.hear("ready").await?;
    let mut producing =
        Driver::start(bed, &db, rival, &["produce", &rate.to_string(), &seconds.to_string()])?;
    producing.hear("ready").await?;
    bed.checkpoint().await?;
    producing.go()?;
    let committed = hear_commits(&mut producing).await?;
    while rail.arrived() < committed.len() {
        sleep(LOOK_EVERY).await;
    }
    producing.close().await?;
    calling.close().await?;
    let arrived = rail.arrivals();
    of_calls(&latencies(&committed, |n| arrived.get(&n.to_string()).copied())?)
}

async fn hear_commits(producing: &mut Driver) -> anyhow::Result<Committed<u64>> {
    let mut committed = Vec::new();
    loop {
        let event = producing.next_event().await?;
        match (event.event.as_str(), event.from, event.count, event.at) {
            ("done", ..) => return Ok(committed),
            ("committed", Some(from), Some(count), Some(at)) => {
                let at = DateTime::from_timestamp_micros(at).context("a commit at no time")?;
                committed.extend((from..from + count).map(|n| (n, at)));
            }
            _ => anyhow::bail!("it said {event:?}"),
        }
    }
}

/// From each commit after the warm-up to what came of it.
fn latencies<K>(
    committed: &[(K, DateTime<Utc>)],
    came: impl Fn(&K) -> Option<DateTime<Utc>>,
) -> anyhow::Result<Vec<f64>> {
    let counted_from = committed.first().context("nothing was committed")?.1 + WARM_UP;
    committed
        .iter()
        .filter(|(_, at)| *at >= counted_from)
        .map(|(key, at)| Ok(milliseconds(*at, came(key).context("a payment went unseen")?)))
        .collect()
}

fn of_calls(called: &[f64]) -> anyhow::Result<Sample> {
    let at = |share: f64| percentile(called, share).context("no call after the warm-up");
    Ok(Sample::from([
        ("call_p50_ms", at(0.5)?),
        ("call_p95_ms", at(0.95)?),
        ("call_p99_ms", at(0.99)?),
        ("call_max_ms", at(1.0)?),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_not_counted_and_nobody_may_be_missing() {
        let at = |ms: u64| DateTime::UNIX_EPOCH + Duration::from_millis(ms);
        let committed = [(0, at(0)), (1, at(1_999)), (2, at(2_000)), (3, at(2_500))];
        let came = |n: &u64| Some(at([9_000, 9_000, 2_004, 2_490][*n as usize]));
        assert_eq!(latencies(&committed, came).expect("all came"), [4.0, 0.0]);
        assert!(latencies(&committed, |n: &u64| (*n != 3).then_some(at(9_000))).is_err());
    }
}
