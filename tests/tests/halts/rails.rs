//! Rails that cannot pay: what it costs, and what is left for a person.

use std::time::Duration;

use faults::{Guard, LEFT_OUT};
use harness::adapter_rig::{AdapterRig, guest};
use harness::host::{Host, enqueue_of, pay, until};
use harness::world::{Plan, Wanted, World};
use harness::{Db, DbUser, PATIENCE, Pg, railhost};
use rail_simulators::Name;
use relayer::RelayerOptions;

async fn world(script: &str) -> World {
    World::build(Plan::new(3, vec![Wanted::new(Name::Mtn, script)])).await
}

async fn owe(world: &mut World, count: usize) {
    world.owe(0, &vec!["5.00".to_owned(); count]).await;
}

/// With other settings of the breaker.
fn breaker(file: &mut toml::Table, more: &str) {
    let pace = file["pace"].as_table_mut().expect("a pace");
    let breaker = pace["breaker"].as_table_mut().expect("a breaker");
    breaker.extend(toml::from_str::<toml::Table>(more).expect("TOML"));
}

const FAILED: &str = "payment_outbox_attempts where state = 'FAILED'";
const PAID: &str = "payment_outbox_attempts where state = 'DISPATCHED'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rail_that_refuses_everybody_costs_a_few_payments_and_not_all() {
    let mut world = world("otherwise: pay refuse 400 VALIDATION_ERROR").await;
    // No probe within this test: each one that is refused would cost one more.
    world.change_rail(0, |file| breaker(file, "open_ms = 600000"));
    world.hosts[0].start(&[]);
    owe(&mut world, 100).await;
    world.until(FAILED, |rows| rows >= 8).await;
    world.until_metric(0, r#"rail_breaker_state{rail="mtn"}"#, |state| state > 0.0).await;
    let failed = world.count(FAILED).await;
    assert!(failed < 20, "{failed} of 100");
    assert!(world.drain().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_does_not_see_a_run_of_refusals_is_caught() {
    let mut world = world("otherwise: pay refuse 400 VALIDATION_ERROR").await;
    let blind = format!("{:?}", Guard::RefusalsTrip);
    world.hosts[0].start(&[(LEFT_OUT, &blind)]);
    owe(&mut world, 100).await;
    world.until(FAILED, |rows| rows == 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_that_says_stop_pauses_the_rail_until_a_person_resumes_it() {
    // The first payment meets the wrong PIN, three times, each time that a person says it is right now.
    let mut world =
        world("amount 7.77: pay refuse 500 WRONG_PIN, refuse 500 WRONG_PIN, refuse 500 WRONG_PIN, accept")
            .await;
    world.change_rail(0, |file| {
        let rows = file["codes"].as_table_mut().expect("codes")["rows"].as_array_mut().expect("rows");
        let stop = "{ operation = 'disburse', field = 'code', code = 'WRONG_PIN', class = 'stop' }";
        rows.push(toml::from_str::<toml::Table>(&format!("row = {stop}")).expect("TOML")["row"].clone());
    });
    world.owe(0, &["7.77".to_owned()]).await;
    owe(&mut world, 49).await;
    world.hosts[0].start(&[]);
    for round in 1..=3 {
        world.until("operator_acts where act = 'stop_rail'", |rows| rows == round).await;
        assert_eq!(world.count("rails where state = 'PAUSED'").await, 1);
        let entries = world.rails[0].simulator.entries();
        let tried: u32 =
            entries.iter().filter(|entry| entry.amount == "7.77").map(|entry| entry.requests).sum();
        assert_eq!(i64::from(tried), round, "a wrong PIN is tried once");
        world.until("payment_outbox_holds where error_code = 'STOPPED'", |rows| rows == 1).await;
        // At once, before the host may have seen that the rail was paused.
        resume(&world);
    }
    assert_eq!(
        world.count("payment_outbox_attempts where error_code = 'STOPPED'").await,
        0,
        "none is used up"
    );
    assert_eq!(world.converge(PATIENCE).await, 0);
    assert_eq!(world.count(PAID).await, 50);
    assert!(world.drain().await);
    world.audit().await.assert_clean(3);
}

fn resume(world: &World) {
    let resumed = railhost()
        .current_dir(world.folder.path())
        .env("RAILHOST_CONFIG", world.folder.path().join("config/host-0.toml"))
        .env("DATABASE_URL", world.db.url())
        .args(["resume", "mtn", "--by", "ada", "--why", "the PIN is right now"])
        .output()
        .expect("railhost runs");
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_holds_than_attempts_fail_no_payment() {
    let holds = ["refuse 500 NOT_ALLOWED"; 25].join(", ");
    let mut world = world(&format!("otherwise: pay {holds}, accept")).await;
    world.change_rail(0, |file| breaker(file, "calls_min = 4\nfailed_percent = 50\nopen_ms = 100"));
    world.hosts[0].start(&[]);
    owe(&mut world, 1).await;
    assert_eq!(world.converge(PATIENCE).await, 0);
    assert_eq!(world.count(PAID).await, 1);
    let mut owner = world.db.connect(DbUser::Superuser).await;
    let times: i32 = sqlx::query_scalar("select times from symphony.payment_outbox_holds")
        .fetch_one(&mut owner)
        .await
        .expect("it was held");
    assert_eq!(times, 25);
    assert!(world.drain().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rail_that_asks_everybody_to_wait_is_left_alone_for_that_long() {
    let mut world = world("otherwise: pay busy 3600, accept").await;
    world.hosts[0].start(&[]);
    owe(&mut world, 20).await;
    world.until("payment_outbox_attempts", |rows| rows >= 1).await;
    world.until_metric(0, r#"rail_breaker_state{rail="mtn"}"#, |state| state > 1.0).await;
    // Others are due all the time, and none of them is sent: the first look would have been within a second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.rails[0].simulator.counts().requests, 1);
    world.hosts[0].kill();
}

/// Of one participant alone it may be that participant's doing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_that_does_what_it_must_not_to_two_participants_is_stopped_for_a_person() {
    for (name, rule, leaves) in [("undeclared_value", "variable", false), ("reads_opposite", "reading", true)]
    {
        let (db, rig) = (Db::fresh(Pg::V18).await, AdapterRig::new().await);
        rig.put_rail("mock", &guest(name), |file| file);
        let host =
            Host::over(db.database(), rig.sandbox.clone(), &rig.path("rails"), RelayerOptions::default())
                .await;
        enqueue_of(&db, "one", &vec![pay("5.00"); 5]).await;
        let denied = format!(r#"egress_denied_total{{rail="mock",rule="{rule}"}}"#);
        host.until_metric(&denied, |denied| denied >= 1.0).await;
        let mut owner = db.connect(DbUser::Superuser).await;
        let paused = "select count(*) from symphony.rails where rail_type = 'mock' and state = 'PAUSED'";
        let stopped: i64 = sqlx::query_scalar(paused).fetch_one(&mut owner).await.expect("a count");
        assert_eq!(stopped, 0, "{name}: one participant stops no rail");
        enqueue_of(&db, "two", &[pay("5.00")]).await;
        until(&db, "rails where rail_type = 'mock' and state = 'PAUSED'", |rows| rows == 1).await;
        let why: String =
            sqlx::query_scalar("select why from symphony.operator_acts where act = 'stop_rail'")
                .fetch_one(&mut owner)
                .await
                .expect("an act");
        assert!(why.contains("did what it must not"), "{why}");
        assert_eq!(!rig.rail.asked().is_empty(), leaves, "{name}");
        host.drain().await;
    }
}
