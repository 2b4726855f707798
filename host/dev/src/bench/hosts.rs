//! More hosts on the same queue, over a rail that takes its time: each brings its own calls.

use super::figures::{FigureRow, Sample};
use super::flow::Flow;
use super::ground::BenchSetup;
use super::names::MOCK;
use super::ours::{self, BenchHost};
use super::rails;
use super::scenario::{Hosts, Scenario};
use super::turns::in_turns;

const CALLS: u32 = 32;
const DELAY_MS: u32 = 20;
/// While all hosts are at work: between a fifth and four fifths of the verdicts.
const RATE: &str = "select (0.6 * count(*) / extract(epoch from
                             percentile_disc(0.8) within group (order by completed_at)
                             - percentile_disc(0.2) within group (order by completed_at)))::double precision
                      from symphony.payment_outbox_attempts";

pub(super) async fn run(
    ground: &BenchSetup,
    scenario: &Scenario,
    asked: &Hosts,
) -> anyhow::Result<Vec<FigureRow>> {
    let payments = ground.scaled(asked.payments);
    let circumstances = asked
        .hosts
        .iter()
        .map(|&hosts| (if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") }, hosts));
    let entrants = ground.ours(circumstances);
    in_turns(ground, scenario, entrants, async |hosts| one(ground, payments, *hosts).await).await
}

async fn one(ground: &BenchSetup, payments: usize, hosts: usize) -> anyhow::Result<Sample> {
    let bed = &ground.bed;
    let db = bed.fresh().await?;
    db.migrate().await?;
    Flow::over(MOCK).accept(&db, payments * hosts).await?;
    bed.checkpoint().await?;
    let mut running = Vec::new();
    for number in 0..hosts {
        running.push(BenchHost::start(bed, &db, number, &[rails::mock(MOCK, CALLS, DELAY_MS)]).await?);
    }
    ours::until(&running, payments * hosts, |_| true).await?;
    for host in running {
        host.end().await?;
    }
    let rate: f64 = sqlx::query_scalar(RATE).fetch_one(&mut db.connect().await?).await?;
    Ok(Sample::from([("verdicts_per_s", rate)]))
}
