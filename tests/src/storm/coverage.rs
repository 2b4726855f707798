//! What has to have happened in a storm: one that never met the hard cases proves nothing.

use std::collections::BTreeMap;
use std::fs;

use super::Storm;
use super::fault::Fault;

/// Facts of the history, by what they are called.
const HISTORY: [(&str, &str); 8] = [
    ("reply lost, then found paid", "payment_outbox_attempts a where a.state = 'DISPATCHED' and exists
        (select 1 from symphony.payment_outbox_attempts b where b.outbox_id = a.outbox_id and b.error_code = 'OUTCOME_UNKNOWN')"),
    ("reply lost, then not found", "payment_outbox_attempts b where b.error_code = 'NOT_FOUND'"),
    ("not found, then sent again and paid", "payment_outbox_attempts a where a.state = 'DISPATCHED' and exists
        (select 1 from symphony.payment_outbox_attempts b where b.outbox_id = a.outbox_id and b.error_code = 'NOT_FOUND')"),
    ("taken over from a host that lost it", "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'"),
    ("completion under a lost lease refused, its answer kept", "payment_outbox_late_answers"),
    ("left to a person", "payment_outbox_attempts where state = 'FAILED' and money_moved = 'unknown'"),
    ("refused for good", "payment_outbox_attempts where state = 'FAILED' and money_moved = 'no'"),
    ("a question that failed", "payment_outbox_attempts where error_code = 'QUERY_FAILED'"),
];

/// What brings about that which has not happened yet, where a fault can do that.
pub(super) async fn missed(storm: &Storm) -> Vec<Fault> {
    let saw = all(storm, true).await;
    saw.iter().filter(|(_, count)| **count == 0).filter_map(|(what, _)| fault_for(what)).collect()
}

fn fault_for(what: &str) -> Option<Fault> {
    Some(match what {
        "taken over from a host that lost it" | "completion under a lost lease refused, its answer kept" => {
            Fault::LeaseLost
        }
        "commit of a claim swallowed" => Fault::AnswerSwallowed("claim_outbox_batch"),
        "commit of a completion swallowed" => Fault::AnswerSwallowed("complete_outbox_batch"),
        "commit of a mark swallowed" => Fault::AnswerSwallowed("mark_handed_over"),
        "an adapter swapped under load" => Fault::AdapterSwapped,
        "a host drained with work in flight" => Fault::HostDrained,
        _ => return None,
    })
}

pub(super) async fn all(storm: &Storm, drained: bool) -> BTreeMap<String, u64> {
    let mut saw = BTreeMap::new();
    for (what, rows) in HISTORY {
        saw.insert(what.to_owned(), storm.world.count(rows).await.unsigned_abs());
    }
    let entries: Vec<_> = storm.world.rails.iter().flat_map(|rail| rail.simulator.entries()).collect();
    let twice = entries.iter().filter(|entry| entry.requests > 1 && entry.executions == 1).count();
    saw.insert("a key sent again and paid once".to_owned(), twice as u64);
    let swallowed = |function: &str| {
        let of = |host: &crate::world::HostProcess| {
            host.wire.swallowed().get(function).copied().unwrap_or_default()
        };
        storm.world.hosts.iter().map(of).sum::<u64>()
    };
    for (function, what) in [
        ("claim_outbox_batch", "commit of a claim swallowed"),
        ("complete_outbox_batch", "commit of a completion swallowed"),
        ("mark_handed_over", "commit of a mark swallowed"),
    ] {
        saw.insert(what.to_owned(), swallowed(function));
    }
    let said = |what: &str| {
        let logs = storm.world.hosts.iter().map(|host| fs::read_to_string(&host.log).unwrap_or_default());
        logs.map(|log| log.matches(what).count() as u64).sum::<u64>()
    };
    let shown = storm.world.hosts.iter().filter(|host| host.metrics.contains("attempts_total")).count();
    saw.insert("metrics searched for secrets".to_owned(), shown as u64);
    let swapped = said("takes over from") + said("reloaded with the same component");
    saw.insert("an adapter swapped under load".to_owned(), swapped);
    saw.insert("a host drained with work in flight".to_owned(), storm.drained_at_work);
    saw.insert("all hosts drained at the end".to_owned(), u64::from(drained));
    saw
}
