use std::collections::HashSet;

use harness::evidence::Proof;
use harness::host::{Host, count, enqueue, pay, until_all_have_a_verdict};
use harness::world::{Plan, Wanted, World};
use harness::{Db, PATIENCE, Pg};
use outbox::enqueue::Ingest;
use rail_simulators::Name;
use relayer::RelayerOptions;
use serde_json::json;

use crate::{at_once, payment};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_01_the_same_key_twice_is_one_payment_and_one_answer() {
    let proof = Proof::of("ID-01", "same key twice");
    let db = Db::fresh(Pg::V18).await;
    let ingest = Ingest::new(&db.database(), 1);
    let first = ingest.enqueue(&payment(1, pay("1.00"))).await.expect("accepted");
    let second = ingest.enqueue(&payment(1, pay("1.00"))).await.expect("accepted");
    assert_eq!((first.outbox_id, first.sequence_id), (second.outbox_id, second.sequence_id));
    assert!(!first.replayed && second.replayed);
    let host = Host::start(&db, RelayerOptions::default()).await;
    until_all_have_a_verdict(&db).await;
    host.drain().await;
    let dispatched = count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await;
    assert_eq!(dispatched, 1);
    proof.holds(json!({ "requests": 2, "dispatched": dispatched }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_02_of_500_duplicates_at_once_one_is_accepted_and_the_rest_are_replayed() {
    let proof = Proof::of("ID-02", "concurrent duplicates (500)");
    let db = Db::fresh(Pg::V18).await;
    let answers = at_once(&db, payment(1, pay("1.00")), 500).await;
    let ids: HashSet<_> = answers.iter().map(|answer| answer.outbox_id).collect();
    let replayed = answers.iter().filter(|answer| answer.replayed).count();
    assert_eq!((ids.len(), replayed), (1, 499));
    assert_eq!(count(&db, "payment_outbox_pending").await, 1);
    proof.holds(json!({ "requests": 500, "accepted": 1, "replayed": replayed }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_03_a_retry_after_completion_gets_the_first_answer_and_executes_nothing() {
    let proof = Proof::of("ID-03", "retry after completion");
    let (ended, attempts) = retried_after_verdict("1.00").await;
    assert_eq!((ended.as_str(), attempts), ("DISPATCHED", 1));
    proof.holds(json!({ "state": ended, "attempts": attempts }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_04_a_retry_after_failure_has_no_side_effect() {
    let proof = Proof::of("ID-04", "retry after failure");
    let (ended, attempts) = retried_after_verdict("1.13").await;
    assert_eq!((ended.as_str(), attempts), ("FAILED", 1));
    proof.holds(json!({ "state": ended, "attempts": attempts }));
}

/// The state that a replay is told after the verdict, and how many attempts there are then.
async fn retried_after_verdict(amount: &str) -> (String, i64) {
    let db = Db::fresh(Pg::V18).await;
    let host = Host::start(&db, RelayerOptions::default()).await;
    enqueue(&db, &[pay(amount)]).await;
    until_all_have_a_verdict(&db).await;
    let ingest = Ingest::new(&db.database(), 1);
    let request = outbox::enqueue::NewPayment {
        instruction_id: "i-0".to_owned(),
        participant_id: "p-0".to_owned(),
        ..payment(0, pay(amount))
    };
    let again = ingest.enqueue(&request).await.expect("answered");
    assert!(again.replayed);
    assert_eq!(count(&db, "payment_outbox_pending").await, 0);
    host.drain().await;
    (again.state, count(&db, "payment_outbox_attempts").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_05_after_a_crash_a_replay_goes_on_safely() {
    let proof = Proof::of("ID-05", "crash, then replay");
    let mut world = World::build(Plan::new(5, vec![Wanted::new(Name::Mtn, "otherwise: pay slow 300")])).await;
    world.start_hosts();
    world.owe(0, &vec!["5.00".to_owned(); 20]).await;
    world.until("payment_outbox_pending where claimed_by is not null", |rows| rows > 0).await;
    world.hosts[0].kill();
    world.submit_again(20).await;
    world.move_clock(20).await;
    world.heal().await;
    world.submit_again(20).await;
    assert_eq!(world.converge(PATIENCE).await, 0);
    world.submit_again(20).await;
    world.drain().await;
    let audit = world.audit().await;
    assert!(audit.is_clean() && audit.dispatched == 20, "{audit:#?}");
    proof.holds(json!(audit));
}
