use harness::evidence::Proof;
use harness::host::{Host, count, enqueue, number, pay, until_all_have_a_verdict};
use harness::world::{Plan, Wanted, World};
use harness::{Db, PATIENCE, Pg};
use rail_simulators::Name;
use relayer::RelayerOptions;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rt_01_a_storm_of_retries_breaks_no_invariant() {
    let proof = Proof::of("RT-01", "retry storm");
    let script = "otherwise: pay either 6 accept | 2 busy | 2 html-before 503 | 1 reset-before | 1 close-after; ask either 2 accept | 1 html 502 | 1 reset";
    let wanted = [Name::Mtn, Name::Airtel, Name::Bank].map(|name| Wanted::new(name, script)).to_vec();
    let mut world = World::build(Plan { hosts: 2, ..Plan::new(1, wanted) }).await;
    world.start_hosts();
    for rail in 0..3 {
        world.owe(rail, &vec!["5.00".to_owned(); 100]).await;
    }
    assert_eq!(world.converge(PATIENCE).await, 0);
    world.drain().await;
    let audit = world.audit().await;
    assert!(audit.is_clean(), "{audit:#?}");
    let attempts = world.count("payment_outbox_attempts").await;
    assert!(attempts > 400, "there were no retries: {attempts}");
    proof.holds(json!({ "attempts": attempts, "audit": audit }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rt_02_retries_past_the_ceiling_end_as_failed_at_20() {
    let proof = Proof::of("RT-02", "retries past the ceiling");
    let db = Db::fresh(Pg::V18).await;
    let host = Host::start(&db, RelayerOptions::default()).await;
    // Refused for now each time, and never more than pending.
    enqueue(&db, &[pay("1.29"), pay("1.31")]).await;
    until_all_have_a_verdict(&db).await;
    host.drain().await;
    let last = "payment_outbox_attempts where state = 'FAILED' and attempt_no = 20 and error_code";
    assert_eq!(count(&db, &format!("{last} = 'RETRIES_EXHAUSTED' and money_moved = 'no'")).await, 1);
    assert_eq!(count(&db, &format!("{last} = 'OUTCOME_UNKNOWN' and money_moved = 'unknown'")).await, 1);
    assert_eq!(number(&db, "select max(attempt_no)::bigint from symphony.payment_outbox_attempts").await, 20);
    proof.holds(json!({ "attempts_each": 20 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rt_03_a_partial_success_that_is_retried_posts_once() {
    let proof = Proof::of("RT-03", "partial success then retry");
    let script = "otherwise: pay reset-after, accept; then missing, after 1s settled";
    let wanted = [Name::Mtn, Name::Airtel, Name::Bank].map(|name| Wanted::new(name, script)).to_vec();
    let mut world = World::build(Plan::new(3, wanted)).await;
    world.start_hosts();
    for rail in 0..3 {
        world.owe(rail, &vec!["5.00".to_owned(); 10]).await;
    }
    assert_eq!(world.converge(PATIENCE).await, 0);
    world.drain().await;
    let audit = world.audit().await;
    assert!(audit.is_clean() && audit.dispatched + audit.unresolved == 30, "{audit:#?}");
    proof.holds(json!(audit));
}
