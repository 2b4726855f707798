//! One rail of four never answers: what the other three lose by it.

use super::figures::{FigureRow, Sample};
use super::flow::Flow;
use super::ground::BenchSetup;
use super::ours::{self, BenchHost};
use super::rails;
use super::scenario::{DeadRail, Scenario};
use super::turns::in_turns;

const HEALTHY: [&str; 3] = ["east", "north", "west"];
/// Well at first, dead in the second case.
const FOURTH: &str = "south";
const CALLS: u32 = 32;
const DELAY_MS: u32 = 20;

pub(super) async fn run(
    ground: &BenchSetup,
    scenario: &Scenario,
    asked: &DeadRail,
) -> anyhow::Result<Vec<FigureRow>> {
    let payments = ground.scaled(asked.payments);
    let entrants =
        ground.ours([("four rails well".to_owned(), false), ("one of four dead".to_owned(), true)]);
    in_turns(ground, scenario, entrants, async |dead| one(ground, payments, *dead).await).await
}

async fn one(ground: &BenchSetup, payments: usize, dead: bool) -> anyhow::Result<Sample> {
    let bed = &ground.bed;
    let db = bed.fresh().await?;
    db.migrate().await?;
    let mut rails: Vec<_> = HEALTHY.iter().map(|name| rails::mock(name, CALLS, DELAY_MS)).collect();
    rails.push(if dead { rails::dead(FOURTH, CALLS) } else { rails::mock(FOURTH, CALLS, DELAY_MS) });
    for (rail, name) in rails.iter().zip(["e", "n", "w", "s"]) {
        Flow { name, ..Flow::over(&rail.name) }.accept(&db, payments).await?;
    }
    bed.checkpoint().await?;
    let host = BenchHost::start(bed, &db, 0, &rails).await?;
    let wanted = payments * HEALTHY.len();
    let reached = ours::until(std::slice::from_ref(&host), wanted, |rail| HEALTHY.contains(&rail)).await?;
    let seconds = (reached.at - host.ready_at).as_secs_f64();
    // It is not drained: the dead rail's calls would have to end first.
    drop(host);
    Ok(Sample::from([("healthy_per_s", reached.verdicts as f64 / seconds)]))
}
