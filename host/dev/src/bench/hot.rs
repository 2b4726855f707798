//! One participant with a long queue, and a thousand others that come after it: how long they wait to be claimed.

use std::collections::HashMap;

use anyhow::Context;
use outbox::enqueue::Ingest;
use uuid::Uuid;

use super::figures::{FigureRow, Sample, number, percentile};
use super::flow::Flow;
use super::ground::BenchSetup;
use super::history::{self, milliseconds};
use super::names::MOCK;
use super::ours::BenchHost;
use super::rails;
use super::scenario::{HotParticipant, Scenario};
use super::turns::in_turns;

const CALLS: u32 = 64;
const DELAY_MS: u32 = 1;
/// With one payment each.
const OTHERS: usize = 1_000;

pub(super) async fn run(
    ground: &BenchSetup,
    scenario: &Scenario,
    asked: &HotParticipant,
) -> anyhow::Result<Vec<FigureRow>> {
    let backlog = ground.scaled(asked.backlog);
    let entrants = ground.ours([
        ("the thousand alone".to_owned(), 0),
        (format!("behind {} of one participant", number(backlog as f64)), backlog),
    ]);
    in_turns(ground, scenario, entrants, async |backlog| one(ground, *backlog).await).await
}

async fn one(ground: &BenchSetup, backlog: usize) -> anyhow::Result<Sample> {
    let bed = &ground.bed;
    let db = bed.fresh().await?;
    db.migrate().await?;
    Flow { name: "hot", participants: 1, ..Flow::over(MOCK) }.accept(&db, backlog).await?;
    bed.checkpoint().await?;
    let host = BenchHost::start(bed, &db, 0, &[rails::mock(MOCK, CALLS, DELAY_MS)]).await?;
    let accepted = Flow { participants: OTHERS, ..Flow::over(MOCK) }
        .accept_part(&Ingest::new(&db.database(), 1), 0..OTHERS)
        .await?;
    let created: HashMap<Uuid, _> =
        accepted.iter().map(|payment| (payment.outbox_id, payment.created_at)).collect();
    let ids: Vec<Uuid> = created.keys().copied().collect();
    let times = history::times(&db, &ids).await?;
    host.end().await?;
    let waited: Vec<f64> = created
        .iter()
        .filter_map(|(id, created_at)| Some(milliseconds(*created_at, times.get(id)?.claimed_at)))
        .collect();
    let at = |share: f64| percentile(&waited, share).context("nobody waited");
    Ok(Sample::from([("wait_p50_ms", at(0.5)?), ("wait_p99_ms", at(0.99)?)]))
}
