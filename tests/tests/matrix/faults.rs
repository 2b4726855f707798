use std::time::Duration;

use dev::embedded::{Server, ServerOptions};
use faults::{Guard, LEFT_OUT};
use harness::evidence::Proof;
use harness::host::{Host, count, pay, until_all_have_a_verdict};
use harness::world::{Plan, Wanted, World};
use harness::{Db, DbUser, PATIENCE, Pg};
use outbox::enqueue::Ingest;
use rail_simulators::Name;
use relayer::RelayerOptions;
use serde_json::json;
use sqlx::{Connection, Executor};

use crate::{at_once, payment};

const ENQUEUE: &str = "select symphony.enqueue_payment_outbox($1, 'p', 'k', 'mock', '{\"amount\": \"1.00\", \"currency\": \"ZMW\"}'::jsonb)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fi_01_a_database_that_is_killed_mid_transaction_keeps_all_or_nothing() {
    let proof = Proof::of("FI-01", "database killed mid-transaction");
    let folder = harness::scratch_folder("fi-01");
    let mut server = Server::start(ServerOptions::throwaway(folder)).await.expect("a server");
    let db = Db::on(Pg::V18, server.connect_options()).await;
    for round in 0..5 {
        let mut owner = db.connect(DbUser::Superuser).await;
        sqlx::query(ENQUEUE).bind(format!("kept-{round}")).execute(&mut owner).await.expect("committed");
        let mut open = owner.begin().await.expect("begun");
        sqlx::query(ENQUEUE).bind(format!("gone-{round}")).execute(&mut *open).await.expect("not committed");
        server.kill().await.expect("killed");
        assert!(open.commit().await.is_err(), "nobody may say that it is there");
        server.restart().await.expect("it is back");
    }
    assert_eq!(count(&db, "payment_outbox_pending where instruction_id like 'kept-%'").await, 5);
    assert_eq!(count(&db, "payment_outbox_pending where instruction_id like 'gone-%'").await, 0);
    assert_eq!(count(&db, "sequence_gaps").await, 0, "a rolled-back number is given again");
    proof.holds(json!({ "kills": 5, "kept": 5, "half_done": 0 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fi_02_where_the_callers_ledger_write_fails_nothing_persists() {
    let proof = Proof::of("FI-02", "ledger write fails");
    let db = Db::fresh(Pg::V18).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    owner.execute("create table entries (amount bigint check (amount > 0))").await.expect("a ledger");
    for n in 0..3 {
        let mut together = owner.begin().await.expect("begun");
        sqlx::query(ENQUEUE).bind(format!("i-{n}")).execute(&mut *together).await.expect("enqueued");
        let written = together.execute("insert into entries values (-1)").await;
        assert!(written.is_err());
        together.rollback().await.expect("rolled back");
    }
    assert_eq!(count(&db, "payment_outbox_pending").await, 0);
    sqlx::query(ENQUEUE).bind("i-0").execute(&mut owner).await.expect("enqueued");
    assert_eq!(count(&db, "payment_outbox_pending where sequence_id = 1").await, 1, "the numbers start at 1");
    proof.holds(json!({ "rolled_back": 3, "persisted": 0 }));
}

/// FI-03's other half: with the settings that a rail has by default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fi_03_the_payments_of_a_killed_host_move_again_with_default_settings() {
    // It dies in the middle of all its calls.
    let mut plan =
        Plan { hosts: 2, ..Plan::new(3, vec![Wanted::new(Name::Mtn, "otherwise: pay slow 15000, accept")]) };
    plan.change = |file| {
        for key in ["pace", "timeouts"] {
            file.remove(key);
        }
    };
    let mut world = World::build(plan).await;
    // All call slots of the rail from the start, so that it dies with all of them.
    world.hosts[0].start(&[(LEFT_OUT, &format!("{:?}", Guard::BeginsWithOne))]);
    world.owe(0, &vec!["5.00".to_owned(); 20]).await;
    world.until("payment_outbox_pending where claimed_by is not null", |rows| rows == 20).await;
    world.hosts[1].start(&[]);
    world.hosts[0].kill();
    let killed = std::time::Instant::now();
    world.until("payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'", |rows| rows == 20).await;
    // Evidence, not a verdict: within a minute on a machine that has nothing else to do.
    let moved = killed.elapsed();
    println!("moving again {:.1} s after SIGKILL, lease 45 s", moved.as_secs_f64());
    harness::evidence::keep("recovery", &json!({ "moving_again_after_seconds": moved.as_secs_f64() }));
}

/// Attempts that left, the first of their payments, of which nothing was heard.
const FIRST_UNKNOWN: &str = "payment_outbox_attempts a where a.error_code = 'OUTCOME_UNKNOWN' and not exists
    (select 1 from symphony.payment_outbox_attempts b
      where b.outbox_id = a.outbox_id and b.attempt_no < a.attempt_no and b.error_code is distinct from 'NOT_SENT')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fi_04_a_timeout_in_flight_is_resolved_the_same_way_each_time_and_pays_once() {
    let proof = Proof::of("FI-04", "timeout in flight");
    let script = "amount 1.00: pay hang-after, accept\namount 2.00: pay hang-before, accept";
    let wanted = [Name::Mtn, Name::Airtel, Name::Bank].map(|name| Wanted::new(name, script)).to_vec();
    let mut world = World::build(Plan::new(4, wanted)).await;
    world.start_hosts();
    let amounts: Vec<_> =
        ["1.00", "2.00"].iter().cycle().take(20).map(|amount| (*amount).to_owned()).collect();
    for rail in 0..3 {
        world.owe(rail, &amounts).await;
    }
    assert_eq!(world.converge(PATIENCE).await, 0);
    world.drain().await;
    let audit = world.audit().await;
    assert!(audit.is_clean() && audit.dispatched == 60, "{audit:#?}");
    let unknown = world.count(FIRST_UNKNOWN).await;
    assert_eq!(unknown, 60, "silence is unknown first");
    proof.holds(json!(audit));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fi_06_a_double_tap_on_two_nodes_is_one_payment() {
    let proof = Proof::of("FI-06", "double tap within 10 ms, two nodes");
    let db = Db::fresh(Pg::V18).await;
    let hosts = [
        Host::start(&db, RelayerOptions::default()).await,
        Host::start(&db, RelayerOptions::default()).await,
    ];
    let nodes = [Ingest::new(&db.database(), 1), Ingest::new(&db.database(), 1)];
    for n in 0..50 {
        let tap = payment(n, pay("1.00"));
        let (one, other) = tokio::join!(nodes[0].enqueue(&tap), nodes[1].enqueue(&tap));
        let (one, other) = (one.expect("answered"), other.expect("answered"));
        assert_eq!(one.outbox_id, other.outbox_id);
        assert_eq!(u8::from(one.replayed) + u8::from(other.replayed), 1);
    }
    until_all_have_a_verdict(&db).await;
    for host in hosts {
        host.drain().await;
    }
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 50);
    assert_eq!(count(&db, "payment_outbox_attempts").await, 50);
    proof.holds(json!({ "taps": 100, "payments": 50 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fi_07_a_clock_that_jumps_changes_neither_order_nor_outcome() {
    let proof = Proof::of("FI-07 clock", "clock back 5 s, clock forward");
    let mut world = World::build(Plan {
        hosts: 2,
        ..Plan::new(7, vec![Wanted::new(Name::Mtn, "otherwise: pay slow 100")])
    })
    .await;
    world.start_hosts();
    for jump in [-5, 3_600, -5, 86, -5, 20] {
        world.owe(0, &vec!["5.00".to_owned(); 15]).await;
        world.move_clock(jump).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(world.converge(PATIENCE).await, 0);
    world.drain().await;
    let audit = world.audit().await;
    assert!(audit.is_clean() && audit.dispatched == 90, "{audit:#?}");
    let numbers = at_once(&world.db, payment(1, pay("1.00")), 1).await;
    assert_eq!(numbers[0].sequence_id, 1, "streams are untouched");
    proof.holds(json!({ "jumps": 6, "audit": audit }));
}
