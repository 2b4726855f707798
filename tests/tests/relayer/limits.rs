//! The relayer keeps time and limits: due times, pauses, ceilings, rates, breakers, order, and room for everyone.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use harness::adapter_rig::{AdapterRig, PATIENT, guest};
use harness::host::{
    HOUR, Host, RAIL, configure, count, enqueue, enqueue_as, most_claims_within_a_second, number, pay, short,
    until, until_all_have_a_verdict,
};
use harness::rail::Reply;
use harness::sql::run;
use harness::{Db, DbUser, PATIENCE, Pg};
use outbox::enqueue::{Ingest, NewPayment};
use outbox::operate::{Operator, Reason};
use outbox::read::Reader;
use relayer::RelayerOptions;

fn quick() -> RelayerOptions {
    RelayerOptions { poll: Duration::from_millis(250), ..RelayerOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_due_in_three_seconds_starts_then_and_not_at_the_next_poll() {
    let db = Db::fresh(Pg::V18).await;
    enqueue(&db, &[pay("1.00")]).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    run(
        &mut owner,
        "update symphony.payment_outbox_pending set next_attempt_at = symphony.clock() + interval '3 s'",
    )
    .await;
    // No notification and no poll could bring it at that moment: only the time that was asked for.
    let host =
        Host::start(&db, RelayerOptions { poll: HOUR, listen: false, ..RelayerOptions::default() }).await;
    until_all_have_a_verdict(&db).await;
    host.drain().await;
    let late = number(
        &db,
        "select (extract(epoch from claimed_at - created_at) * 1000)::bigint
           from (select a.claimed_at, symphony.uuidv7_time(a.outbox_id) as created_at
                   from symphony.payment_outbox_attempts a) as one",
    )
    .await;
    assert!(late >= 3_000, "{late} ms after it was accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_twenty_attempts_a_payment_ends_and_says_what_is_known_of_its_money() {
    let db = Db::fresh(Pg::V18).await;
    enqueue(&db, &[pay("1.29"), pay("1.31")]).await;
    let rail =
        RAIL.replace("reconcile_seconds = 0", "reconcile_seconds = 0\nbreaker = { calls_min = 10000 }");
    let host = Host::with_rails(&db, &[("mock", &rail)], quick()).await;
    until_all_have_a_verdict(&db).await;
    host.drain().await;
    let ended =
        |what: &str| format!("payment_outbox_attempts where attempt_no = 20 and state = 'FAILED' and {what}");
    assert_eq!(count(&db, &ended("error_code = 'RETRIES_EXHAUSTED' and money_moved = 'no'")).await, 1);
    assert_eq!(count(&db, &ended("error_code = 'OUTCOME_UNKNOWN' and money_moved = 'unknown'")).await, 1);
    assert_eq!(count(&db, "payment_outbox_attempts").await, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_grow_and_are_scattered() {
    let db = Db::fresh(Pg::V18).await;
    let rail = RAIL.replace(
        "retry = { base_ms = 10, factor = 1, cap_ms = 10 }",
        "retry = { base_ms = 60000, factor = 4, cap_ms = 9000000 }\nbreaker = { calls_min = 10000 }",
    );
    enqueue(&db, &vec![pay("1.29"); 40]).await;
    let host = Host::with_rails(&db, &[("mock", &rail)], quick()).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    let mut means = Vec::new();
    for attempt in 1..=3 {
        until(&db, &format!("payment_outbox_attempts where attempt_no = {attempt}"), |rows| rows == 40).await;
        let (mean, spread): (f64, f64) = sqlx::query_as(
            "select avg(pause)::float8, (max(pause) - min(pause))::float8
               from (select extract(epoch from p.next_attempt_at - max(a.completed_at)) as pause
                       from symphony.payment_outbox_pending p
                       join symphony.payment_outbox_attempts a using (outbox_id)
                      group by p.outbox_id, p.next_attempt_at) as pauses",
        )
        .fetch_one(&mut owner)
        .await
        .expect("pauses");
        assert!(spread > mean, "scattered from nothing to twice the mean: {spread} s around {mean} s");
        means.push(mean);
        run(&mut owner, "update symphony.payment_outbox_pending set next_attempt_at = symphony.clock()")
            .await;
    }
    host.drain().await;
    assert!((10.0..50.0).contains(&means[0]), "30 s on average: {means:?}");
    assert!(means[1] > 2.0 * means[0] && means[2] > 2.0 * means[1], "four times as long each: {means:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rail_that_asks_for_a_pause_gets_it() {
    let db = Db::fresh(Pg::V18).await;
    let rig = AdapterRig::with(|_| Reply::says(429, "slow down").header("retry-after", "7")).await;
    let pace = "pace = { lease_seconds = 45, query = { base_ms = 10, factor = 1, cap_ms = 10 }, reconcile_seconds = 0 }";
    let text = rig.file(&guest("pays_and_tells"), &format!("{PATIENT}\n{pace}"));
    fs::write(rig.path("mock.toml"), text).expect("written");
    let folder = rig.path("");
    let host = Host::over(db.database(), rig.sandbox.clone(), &folder, quick()).await;
    enqueue(&db, &[pay("1.00")]).await;
    until(&db, "payment_outbox_attempts", |rows| rows == 1).await;
    host.drain().await;
    let pause = number(
        &db,
        "select (extract(epoch from p.next_attempt_at - a.completed_at) * 1000)::bigint
           from symphony.payment_outbox_pending p
           join symphony.payment_outbox_attempts a using (outbox_id)",
    )
    .await;
    assert!((7_000..7_100).contains(&pause), "{pause} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rail_on_hold_is_left_alone_then_tried_with_one_payment_and_opened_again() {
    let db = Db::fresh(Pg::V18).await;
    let rail = RAIL.replace("reconcile_seconds = 0", "reconcile_seconds = 0\nbreaker = { open_ms = 3000 }");
    let host = Host::with_rails(&db, &[("mock", &rail)], quick()).await;
    enqueue_as(&db, "hold", "mock", &[pay("1.37")]).await;
    until(&db, "payment_outbox_holds where error_code = 'ON_HOLD'", |rows| rows == 1).await;
    enqueue_as(&db, "later", "mock", &vec![pay("1.50"); 50]).await;
    until_all_have_a_verdict(&db).await;
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 51);
    assert_eq!(
        count(&db, "payment_outbox_attempts").await,
        51,
        "neither a hold nor waiting behind a breaker uses up an attempt"
    );
    let first = number(
        &db,
        "select (extract(epoch from min(b.claimed_at) - min(h.last_held_at)) * 1000)::bigint
           from symphony.payment_outbox_holds h, symphony.payment_outbox_attempts b
          where b.state = 'DISPATCHED'",
    )
    .await;
    // It opened before the hold was written, by as long as that took.
    assert!(first >= 1_400, "the first was sent {first} ms after it was held, though it opens for 3 s");
    let alone = number(
        &db,
        "select count(*) from symphony.payment_outbox_attempts
          where state = 'DISPATCHED'
            and claimed_at < (select min(claimed_at) + interval '250 ms' from symphony.payment_outbox_attempts
                               where state = 'DISPATCHED')",
    )
    .await;
    assert_eq!(alone, 1, "one payment of 300 ms tries before the others follow");
    host.until_metric("rail_breaker_state{rail=\"mock\"}", |state| state == 0.0).await;
    host.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_left_is_asked_about_while_the_breaker_is_open() {
    let db = Db::fresh(Pg::V18).await;
    let rail = RAIL
        .replace("reconcile_seconds = 0", "reconcile_seconds = 0\nbreaker = { open_ms = 600000 }")
        .replace(
            "query = { base_ms = 10, factor = 1, cap_ms = 10 }",
            "query = { base_ms = 600000, factor = 1, cap_ms = 600000 }",
        );
    let host = Host::with_rails(&db, &[("mock", &rail)], quick()).await;
    // Pending twice, settled at the third look.
    enqueue_as(&db, "left", "mock", &[pay("1.19"), pay("2.19")]).await;
    until(&db, "payment_outbox_attempts where error_code = 'RAIL_PENDING'", |rows| rows == 2).await;
    enqueue_as(&db, "hold", "mock", &[pay("1.37")]).await;
    until(&db, "payment_outbox_holds where error_code = 'ON_HOLD'", |rows| rows == 1).await;
    // From now on they are due, again and again.
    let (mut owner, patience) = (db.connect(DbUser::Superuser).await, Instant::now());
    while count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await < 2 {
        assert!(patience.elapsed() < PATIENCE, "they are not asked about");
        run(
            &mut owner,
            "update symphony.payment_outbox_pending set next_attempt_at = symphony.clock()
              where lease_token is null and instruction_id like 'left-%'",
        )
        .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    enqueue_as(&db, "new", "mock", &[pay("1.00")]).await;
    host.until_metric("rail_breaker_state{rail=\"mock\"}", |state| state == 2.0).await;
    // Time in which a host that does not mind the breaker would send it.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(
        count(&db, "payment_outbox_pending where instruction_id = 'new-0' and attempt_count = 0").await,
        1
    );
    host.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_queue_does_not_keep_payments_that_may_have_left_from_being_asked_about() {
    let db = Db::fresh(Pg::V18).await;
    // The questions fall due when the queue is there already.
    let rail = RAIL.replace("[pace]", "[pace]\nconcurrency = 4\nbreaker = { calls_min = 10000 }").replace(
        "query = { base_ms = 10, factor = 1, cap_ms = 10 }",
        "query = { base_ms = 3000, factor = 1, cap_ms = 3000 }",
    );
    enqueue_as(&db, "asked", "mock", &vec![pay("1.17"); 60]).await;
    let host = Host::with_rails(&db, &[("mock", &rail)], quick()).await;
    until(&db, "payment_outbox_attempts where error_code = 'OUTCOME_UNKNOWN'", |rows| rows == 60).await;
    // It stands before the questions, by the order of the claim.
    enqueue_as(&db, "queue", "mock", &vec![pay("1.50"); 400]).await;
    until(&db, "payment_outbox_pending where instruction_id like 'asked-%'", |rows| rows == 0).await;
    assert!(
        count(&db, "payment_outbox_pending where instruction_id like 'queue-%'").await > 100,
        "all were asked about long before the queue was done"
    );
    drop(host);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_sleeps_beside_an_open_breaker() {
    let db = Db::fresh(Pg::V18).await;
    let rail = RAIL.replace("reconcile_seconds = 0", "reconcile_seconds = 0\nbreaker = { open_ms = 600000 }");
    let host = Host::with_rails(&db, &[("mock", &rail), ("other", RAIL)], quick()).await;
    enqueue(&db, &[pay("1.37")]).await;
    until(&db, "payment_outbox_holds where error_code = 'ON_HOLD'", |rows| rows == 1).await;
    until(&db, "relay_hosts where asleep", |rows| rows == 1).await;
    host.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hosts_together_keep_the_rate_of_the_rail() {
    let db = Db::fresh(Pg::V18).await;
    let rail = format!("{RAIL}\n[rate]\nper_second = 10\nburst = 5\n");
    configure(&db, Some((10, 5))).await;
    let mut hosts = Vec::new();
    for _ in 0..3 {
        hosts.push(Host::with_rails(&db, &[("mock", &rail)], RelayerOptions::default()).await);
    }
    until(&db, "relay_hosts", |hosts| hosts == 3).await;
    enqueue(&db, &vec![pay("1.00"); 40]).await;
    until_all_have_a_verdict(&db).await;
    let limited: f64 = hosts.iter().map(|host| host.metric("rail_rate_limited_total{rail=\"mock\"}")).sum();
    assert!(limited > 0.0, "and count that it held them back");
    for host in hosts {
        host.drain().await;
    }
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 40);
    assert_eq!(
        count(&db, "payment_outbox_attempts a where attempt_no > 1").await,
        0,
        "waiting uses up no attempt"
    );
    let most = most_claims_within_a_second(&db).await;
    assert!(most <= 15, "{most} within a second, at 10 a second and a burst of 5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_were_claimed_close_together_do_not_reach_the_rail_as_one_burst() {
    let db = Db::fresh(Pg::V18).await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = calls.clone();
    let rig = AdapterRig::with(move |_| {
        noted.lock().expect("no panic").push(Instant::now());
        Reply::says(200, "paid")
    })
    .await;
    // The database was told of no rate: all are claimed at once, and the host alone holds them back.
    let text =
        rig.file(&guest("pays_and_tells"), &format!("{PATIENT}\nrate = {{ per_second = 5, burst = 5 }}"));
    fs::write(rig.path("mock.toml"), text).expect("written");
    enqueue(&db, &vec![pay("1.00"); 20]).await;
    let host = Host::over(db.database(), rig.sandbox.clone(), &rig.path(""), quick()).await;
    until_all_have_a_verdict(&db).await;
    let calls = calls.lock().expect("no panic").clone();
    assert_eq!(calls.len(), 20);
    // 15 after the burst, at 5 a second; the first may have been under way for a while.
    let within = calls[19].duration_since(calls[0]);
    assert!(within >= Duration::from_millis(2_000), "all of them within {within:?}");
    assert!(host.metric("rail_rate_limited_total{rail=\"mock\"}") >= 5.0);
    host.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_strict_order_a_payment_waits_for_the_verdict_before_it_and_its_stream_is_seen_to_wait() {
    let db = Db::fresh(Pg::V18).await;
    let reason = Reason { by: "test".to_owned(), why: "test".to_owned() };
    let operator = Operator::new(&db.database()).also_unseen(true);
    operator.order_strictly("p-0", true, &reason).await.expect("ordered");
    // Participant p-0 has every fifth: the first of them is pending for two looks, the second takes its time.
    let mut payloads = vec![pay("1.00"); 25];
    (payloads[0], payloads[5]) = (pay("1.19"), pay("1.50"));
    enqueue(&db, &payloads).await;
    // Nobody looks again before the clock says so.
    let slow = RAIL.replace(
        "query = { base_ms = 10, factor = 1, cap_ms = 10 }",
        "query = { base_ms = 600000, factor = 1, cap_ms = 600000 }",
    );
    let host = Host::with_rails(&db, &[("mock", &slow)], quick()).await;
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows == 20).await;
    until(&db, "payment_outbox_attempts where error_code = 'RAIL_PENDING'", |rows| rows == 1).await;
    until(&db, "payment_outbox_pending where parked", |rows| rows == 4).await;
    let blocked = Reader::new(&db.database()).blocked_streams(10).await.expect("read");
    assert_eq!(blocked.len(), 1);
    assert_eq!((blocked[0].participant_id.as_str(), blocked[0].waiting), ("p-0", 4));
    assert!(blocked[0].attempts > 0, "{blocked:?}: it names the one that is tried");
    db.move_clock("12 minutes").await;
    until(&db, "payment_outbox_attempts where error_code = 'RAIL_PENDING'", |rows| rows == 2).await;
    db.move_clock("24 minutes").await;
    until_all_have_a_verdict(&db).await;
    host.drain().await;
    let overlaps = number(
        &db,
        "select count(*) from symphony.payment_outbox_attempts a
           join symphony.payment_outbox_attempts b
             on b.participant_id = a.participant_id and b.sequence_id < a.sequence_id and b.completed_at > a.claimed_at
          where a.participant_id = 'p-0'",
    )
    .await;
    assert_eq!(overlaps, 0, "none was claimed before the one in front of it had its verdict");
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rail_that_never_answers_takes_nothing_from_its_neighbours() {
    let db = Db::fresh(Pg::V18).await;
    let dead = short().replace("otherwise: settled", "otherwise: delay 60000 settled");
    enqueue_as(&db, "dead", "dead", &vec![pay("1.00"); 300]).await;
    let host = Host::with_rails(&db, &[("dead", &dead), ("mock", RAIL)], quick()).await;
    until(&db, "payment_outbox_pending where rail_type = 'dead' and lease_token is not null", |rows| {
        rows > 0
    })
    .await;
    enqueue_as(&db, "alive", "mock", &vec![pay("1.00"); 300]).await;
    until(&db, "payment_outbox_attempts where rail_type = 'mock' and state = 'DISPATCHED'", |rows| {
        rows == 300
    })
    .await;
    assert_eq!(
        count(&db, "payment_outbox_attempts where rail_type = 'dead' and state = 'DISPATCHED'").await,
        0
    );
    assert!(
        count(&db, "payment_outbox_pending where rail_type = 'dead' and lease_token is not null").await <= 64,
        "it holds no more than it may call at a time"
    );
    host.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_backlog_of_one_participant_does_not_shut_out_the_others() {
    let db = Db::fresh(Pg::V18).await;
    let rail = RAIL.replace("[pace]", "[pace]\nconcurrency = 4");
    let payments = |participant: &str, many: usize| -> Vec<NewPayment> {
        let payment = |n| NewPayment {
            instruction_id: format!("{participant}-{n}"),
            participant_id: participant.to_owned(),
            idempotency_key: "k".to_owned(),
            rail_type: "mock".to_owned(),
            payload: pay("1.50").into(),
        };
        (0..many).map(payment).collect()
    };
    let ingest = Ingest::new(&db.database(), 1);
    ingest.enqueue_batch(&payments("huge", 5_000)).await.expect("enqueued");
    let host = Host::with_rails(&db, &[("mock", &rail)], quick()).await;
    until(&db, "payment_outbox_attempts", |rows| rows >= 20).await;
    // Ten others, who come when thousands are waiting, and then once more.
    for round in 0..2 {
        let small: Vec<_> =
            (0..10).flat_map(|n| payments(&format!("small-{n}"), round + 1).split_off(round)).collect();
        ingest.enqueue_batch(&small).await.expect("enqueued");
        until(&db, "payment_outbox_pending where participant_id <> 'huge'", |rows| rows == 0).await;
        // Since they were there, by the order of the claims: how long each of them takes does not count.
        let between = format!(
            "select count(*)
               from symphony.payment_outbox_attempts h,
                    (select max(symphony.uuidv7_time(outbox_id)) as came_at, max(claimed_at) as left_at
                       from symphony.payment_outbox_attempts
                      where instruction_id like 'small-%-{round}') as small
              where h.participant_id = 'huge' and h.claimed_at > small.came_at and h.claimed_at < small.left_at"
        );
        let huge = number(&db, &between).await;
        assert!(huge <= 60, "{huge} of the huge one went before the ten of the others");
    }
    drop(host);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_leased_and_waits_for_its_turn_goes_back_when_a_person_stops_it() {
    let (who, reason) = ("p-1", Reason { by: "test".to_owned(), why: "test".to_owned() });
    for suspended in [false, true] {
        let db = Db::fresh(Pg::V18).await;
        // The database knows no rate: all are leased at once, and leave one by one, over a quarter of a minute. Each waits for its
        // turn before it goes back, too.
        let rail = format!("{RAIL}\n[rate]\nper_second = 2\nburst = 1\n");
        enqueue(&db, &vec![pay("1.00"); 30]).await;
        let host = Host::with_rails(&db, &[("mock", &rail)], quick()).await;
        until(&db, "payment_outbox_attempts", |rows| rows > 0).await;
        let operator = Operator::new(&db.database());
        let stopped = match suspended {
            true => {
                operator.suspend_participant(who, &reason).await.expect("suspended");
                format!("participant_id = '{who}'")
            }
            false => {
                operator.pause_rail("mock", &reason).await.expect("paused");
                "rail_type = 'mock'".to_owned()
            }
        };
        until(&db, &format!("payment_outbox_pending where {stopped} and lease_token is not null"), |rows| {
            rows == 0
        })
        .await;
        let open = format!("payment_outbox_pending where {stopped}");
        let left = count(&db, &open).await;
        assert!(left > 0, "all of them had left before");
        assert_eq!(
            count(&db, &format!("payment_outbox_attempts where {stopped} and state <> 'DISPATCHED'")).await,
            0
        );
        match suspended {
            true => operator.reinstate_participant(who, &reason).await.expect("reinstated"),
            false => operator.resume_rail("mock", &reason).await.expect("resumed"),
        }
        until(&db, &open, |rows| rows < left).await;
        drop(host);
    }
}
