//! A call slot is free when its outcome is durable, whatever the database's reason not to take it.

use std::time::Duration;

use harness::host::{Process, RAIL, count, enqueue, pay, short, until, until_all_have_a_verdict};
use harness::sql::run;
use harness::{Db, DbUser, Pg};
use rustix::process::Signal;

use crate::switches::long;

const COMPLETE: &str = "function symphony.complete_outbox_batch(text, uuid[], uuid[], text[], text[], text[], text[], text[], int[], double precision[], text[], boolean[], bytea[], bytea[], bytea[], bytea[], text[], jsonb[], text[])";
const CONCURRENCY: i64 = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_may_not_write_stops_taking_and_writes_all_it_has_when_it_may_again() {
    let db = Db::fresh(Pg::V18).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    enqueue(&db, &vec![pay("1.00"); 3_000]).await;
    let rail = short().replace("[pace]", &format!("[pace]\nconcurrency = {CONCURRENCY}"));
    let host = Process::serving(&db, &rail);
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 0).await;

    run(&mut owner, &format!("revoke execute on {COMPLETE} from symphony_executor")).await;
    host.until_page("/metrics", |text| value(text, "outcome_writes_waiting") > 0.0).await;
    let (status, text) = host.page("/readyz").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("cannot be written"), "{text}");
    // Longer than a lease, twice: whoever holds what cannot be written keeps holding it.
    tokio::time::sleep(long(Duration::from_secs(20), Duration::from_secs(60))).await;
    let leased = count(&db, "payment_outbox_pending where claimed_by is not null").await;
    assert!((1..=CONCURRENCY).contains(&leased), "{leased} payments were taken");
    assert!(count(&db, "payment_outbox_pending").await > leased, "there was more to take");

    run(&mut owner, &format!("grant execute on {COMPLETE} to symphony_executor")).await;
    until_all_have_a_verdict(&db).await;
    host.until_page("/readyz", |text| text == "ready\n").await;
    let (_, metrics) = host.page("/metrics").await;
    assert!(value(&metrics, "outcome_writes_failed_total") > 0.0, "{metrics}");
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 3_000);
    assert_eq!(count(&db, "payment_outbox_attempts").await, 3_000, "each by the host that sent it, at once");
    assert_eq!(count(&db, "payment_outbox_late_answers").await, 0);
    assert_eq!(host.end(Signal::TERM), Some(0));
}

/// Somebody replaces the function under a running host by one that fails, as a bad release might.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_that_was_replaced_by_one_that_fails_costs_no_outcome() {
    let db = Db::fresh(Pg::V18).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    let function: String = sqlx::query_scalar(
        "select pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
          where n.nspname = 'symphony' and p.proname = 'complete_outbox_batch'",
    )
    .fetch_one(&mut owner)
    .await
    .expect("the function");
    let fails = function.replacen("\nbegin\n", "\nbegin\n  raise exception 'not this one';\n", 1);
    assert_ne!(fails, function);
    enqueue(&db, &vec![pay("1.00"); 1_000]).await;
    let host = Process::serving(&db, RAIL);
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 0).await;
    run(&mut owner, &fails).await;
    host.until_page("/metrics", |text| value(text, "outcome_writes_waiting") > 0.0).await;
    assert_eq!(host.page("/readyz").await.0, 503);
    run(&mut owner, &function).await;
    until_all_have_a_verdict(&db).await;
    assert_eq!(count(&db, "payment_outbox_attempts").await, 1_000, "each by the host that sent it, at once");
    assert_eq!(count(&db, "payment_outbox_late_answers").await, 0);
    assert_eq!(host.end(Signal::TERM), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_draining_host_cannot_write_as_an_outcome_it_leaves_as_a_late_answer() {
    let db = Db::fresh(Pg::V18).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    let host = Process::serving_with(&db, RAIL, "drain_seconds = 1\n");
    host.until_page("/readyz", |text| text == "ready\n").await;
    run(&mut owner, &format!("revoke execute on {COMPLETE} from symphony_executor")).await;
    enqueue(&db, &vec![pay("1.00"); 10]).await;
    // The rail has answered all of them.
    let calls = r#"plugin_call_seconds_count{rail="mock"}"#;
    host.until_page("/metrics", |text| value(text, calls) == 10.0).await;
    host.until_page("/metrics", |text| value(text, "outcome_writes_waiting") > 0.0).await;
    assert_eq!(host.end(Signal::TERM), Some(0));
    let paid = count(&db, "payment_outbox_late_answers where state = 'DISPATCHED'").await;
    assert_eq!(paid, 10, "what the rail said is not forgotten");
}

/// The value of a metric without labels.
pub(crate) fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or(0.0)
}
