//! A rail whose file is new is served as soon as the database knows it, without a restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outbox::operate::RailFacts;
use outbox::{Database, ready};
use rail::Rail;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::float;
use crate::host::Host;

/// Files are checked once a second: a new one is served within two.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The database is asked again about a rail that it does not know.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Serves rails as they come, and asks each what is left to pay from, for as long as it is polled.
pub(crate) async fn run(host: &Arc<Host>, database: &Database) {
    let mut floats = JoinSet::new();
    for lane in host.lanes.all().values() {
        floats.spawn(float::watch(host.clone(), lane.clone()));
    }
    // When the database was asked last about a rail, and why the rail was not served then.
    let mut asked: BTreeMap<String, (Instant, String)> = BTreeMap::new();
    loop {
        tokio::select! {
            () = sleep(LOOK_EVERY) => {}
            // It never ends by itself. Without it a rail would pay below its floor, or not at all.
            Some(ended) = floats.join_next() => panic!("a float is no longer watched: {ended:?}"),
        }
        for rail in host.rails.all().into_iter().filter(|rail| host.lanes.get(&rail.name).is_none()) {
            let name = rail.name.clone();
            if asked.get(&name).is_some_and(|(at, _)| at.elapsed() < ASK_EVERY) {
                continue;
            }
            // First this: what is verified is what is served.
            rail.set_promised(true);
            let told = facts(&rail);
            match ready::verify_rail(database, told.clone()).await {
                // The file was corrected at this very moment: the next check is about the new one.
                Ok(()) if facts(&rail) != told => rail.set_promised(false),
                Ok(()) => {
                    host.metrics.expect_rail(&name);
                    let lane = host.lanes.add(rail);
                    floats.spawn(float::watch(host.clone(), lane));
                    host.freed.notify_one();
                    tracing::info!(rail = name, "{name}: its file is new, and it is served from now on");
                }
                Err(error) => {
                    rail.set_promised(false);
                    let why = error.to_string();
                    let before = asked.insert(name.clone(), (Instant::now(), why.clone()));
                    if before.is_none_or(|(_, before)| before != why) {
                        tracing::warn!(
                            rail = name,
                            "{name}: its file is new, and it is not served yet: {why}"
                        );
                    }
                }
            }
        }
    }
}

/// What the database has to know of a rail.
fn facts(rail: &Rail) -> RailFacts {
    let loaded = rail.current();
    RailFacts {
        rail_type: rail.name.clone(),
        deduplicates: loaded.idempotent,
        hand_over_marks: loaded.hand_over_marks,
        sla_seconds: loaded.sla_seconds,
        rate: loaded.rate.map(|rate| (rate.per_second, rate.burst)),
        key_forms: loaded.key_forms.clone(),
    }
}
