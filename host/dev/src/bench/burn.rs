//! A queue that is filled and emptied: one after the other, both at once, or with a long rest behind it.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::bail;
use sqlx::{Connection, PgConnection};

use super::bed::Db;
use super::contestant::Contestant;
use super::driver::Driver;
use super::figures::{FigureRow, Sample, number};
use super::flow::Flow;
use super::ground::BenchSetup;
use super::meter::{Meter, Phase, ServerCounts};
use super::names::{MOCK, MOCK_CALLS};
use super::ours::{self, BenchHost};
use super::scenario::{AtOnce, Backlog, BurnDown, Scenario};
use super::turns::in_turns;
use super::{rails, shapes};

pub(super) async fn down(
    ground: &BenchSetup,
    scenario: &Scenario,
    asked: &BurnDown,
) -> anyhow::Result<Vec<FigureRow>> {
    let entrants = ground.contestants(scenario);
    in_turns(ground, scenario, entrants, async |contestant| burn(ground, asked, contestant).await).await
}

/// One size of the queue after the other, and the same number of payments of each.
pub(super) async fn backlog(
    ground: &BenchSetup,
    scenario: &Scenario,
    asked: &Backlog,
) -> anyhow::Result<Vec<FigureRow>> {
    let circumstances = asked.sizes.iter().map(|&size| {
        let burn = BurnDown {
            payments: asked.payments.min(size),
            payments_of: BTreeMap::new(),
            pinned: false,
            hosts: 1,
            backlog: size.saturating_sub(asked.payments),
        };
        (format!("{} pending", number(ground.scaled(size) as f64)), burn)
    });
    let entrants = ground.ours(circumstances);
    in_turns(ground, scenario, entrants, async |asked| burn(ground, asked, &Contestant::Ours).await).await
}

pub(super) async fn at_once(
    ground: &BenchSetup,
    scenario: &Scenario,
    asked: &AtOnce,
) -> anyhow::Result<Vec<FigureRow>> {
    let entrants = ground.contestants(scenario);
    in_turns(ground, scenario, entrants, async |contestant| together(ground, asked, contestant).await).await
}

async fn burn(ground: &BenchSetup, asked: &BurnDown, contestant: &Contestant) -> anyhow::Result<Sample> {
    let bed = &ground.bed;
    let payments = payments_of(ground, contestant, asked.payments, &asked.payments_of);
    let db = bed.fresh().await?;
    contestant.prepare(bed, &db).await?;
    let mut meter = Meter::open(bed, &db).await?;
    let before = meter.counts().await?;
    let pin = if asked.pinned { Some(pin(&db).await?) } else { None };
    bed.checkpoint().await?;
    let filled = contestant.fill(bed, &db, &mut meter, payments + ground.scaled(asked.backlog)).await?;
    bed.checkpoint().await?;
    let emptied = contestant.empty(bed, &db, &mut meter, payments, asked.hosts).await?;
    if let Some(pin) = pin {
        pin.close().await?;
    }
    let after = meter.counts().await?;
    // What is enqueued by us is not the figure of those who only empty the queue.
    let filled = (!matches!(contestant, Contestant::Floor | Contestant::Functions)).then_some(filled);
    Ok(sample(filled, emptied, (before, after)))
}

/// A transaction that somebody forgot: what dies while it is open stays where it is.
async fn pin(db: &Db) -> anyhow::Result<PgConnection> {
    let mut connection = db.connect().await?;
    sqlx::raw_sql("begin isolation level repeatable read; select count(*) from pg_class")
        .execute(&mut connection)
        .await?;
    Ok(connection)
}

fn sample(filled: Option<Phase>, emptied: Phase, (before, after): (ServerCounts, ServerCounts)) -> Sample {
    let per_payment = |before: i64, after: i64| (after - before) as f64 / emptied.payments;
    let mut sample = Sample::from([
        ("process_per_s", emptied.per_second()),
        ("process_wal_bytes", emptied.wal_bytes / emptied.payments),
        ("worker_cpu_us", emptied.worker_us / emptied.payments),
        ("postgres_cpu_us", emptied.postgres_us / emptied.payments),
        ("commits", per_payment(before.commits, after.commits)),
        ("rows_updated", per_payment(before.updated, after.updated)),
        ("rows_updated_in_place", per_payment(before.updated_in_place, after.updated_in_place)),
        ("rows_deleted", per_payment(before.deleted, after.deleted)),
        ("rows_dead", per_payment(before.dead, after.dead)),
        ("database_bytes", per_payment(before.bytes, after.bytes)),
    ]);
    if let Some(filled) = filled {
        sample.insert("enqueue_per_s", filled.per_second());
        sample.insert("lifecycle_per_s", emptied.payments / (filled.seconds + emptied.seconds));
        sample.insert("enqueue_wal_bytes", filled.wal_bytes / filled.payments);
        *sample.entry("worker_cpu_us").or_default() += filled.worker_us / filled.payments;
        *sample.entry("postgres_cpu_us").or_default() += filled.postgres_us / filled.payments;
    }
    sample
}

/// From the word to go to the last durable verdict, while the queue is still being filled.
async fn together(ground: &BenchSetup, asked: &AtOnce, contestant: &Contestant) -> anyhow::Result<Sample> {
    let bed = &ground.bed;
    let payments = payments_of(ground, contestant, asked.payments, &asked.payments_of);
    let db = bed.fresh().await?;
    contestant.prepare(bed, &db).await?;
    let (began, ended) = match contestant {
        Contestant::Ours => {
            let host = [BenchHost::start(bed, &db, 0, &[rails::mock(MOCK, MOCK_CALLS, 0)]).await?];
            bed.checkpoint().await?;
            let began = Instant::now();
            let flow = Flow::over(MOCK);
            let (_, reached) =
                tokio::try_join!(flow.accept(&db, payments), ours::until(&host, payments, |_| true))?;
            let [host] = host;
            host.end().await?;
            (began, reached.at)
        }
        Contestant::Rival(rival) => {
            let count = payments.to_string();
            let mut working = Driver::start(bed, &db, rival, &["work", &count])?;
            working.hear("ready").await?;
            let mut enqueuing = Driver::start(bed, &db, rival, &["enqueue", &count])?;
            enqueuing.hear("ready").await?;
            bed.checkpoint().await?;
            let began = Instant::now();
            working.go()?;
            enqueuing.go()?;
            enqueuing.hear("done").await?;
            working.hear("done").await?;
            let ended = Instant::now();
            enqueuing.close().await?;
            working.close().await?;
            (began, ended)
        }
        Contestant::Floor | Contestant::Functions => bail!("it has no enqueue of its own"),
    };
    Ok(Sample::from([(shapes::AT_ONCE_PER_S, payments as f64 / (ended - began).as_secs_f64())]))
}

fn payments_of(
    ground: &BenchSetup,
    contestant: &Contestant,
    usual: usize,
    others: &BTreeMap<String, usize>,
) -> usize {
    ground.scaled(others.get(contestant.name()).copied().unwrap_or(usual))
}
