//! A place is free when its outcome is durable, whatever the database's reason not to take it.

use std::time::Duration;

use harness::host::{Process, RAIL, count, enqueue, pay, until, until_all_have_a_verdict};
use harness::sql::run;
use harness::{Db, PATIENCE, Pg, Role};
use rustix::process::Signal;

use crate::switches::{long, page};

const COMPLETE: &str = "function symphony.complete_outbox_batch(text, uuid[], uuid[], text[], text[], text[], text[], text[], int[], double precision[], text[], boolean[], bytea[])";
const CONCURRENCY: i64 = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_may_not_write_stops_taking_and_writes_all_it_has_when_it_may_again() {
    let db = Db::fresh(Pg::V18).await;
    let mut owner = db.connect(Role::Superuser).await;
    enqueue(&db, &vec![pay("1.00"); 3_000]).await;
    let rail = RAIL.replace("[pace]", &format!("[pace]\nconcurrency = {CONCURRENCY}"));
    let host = Process::serving(&db, &rail);
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 0).await;

    run(&mut owner, &format!("revoke execute on {COMPLETE} from symphony_executor")).await;
    until_page(&host, "/metrics", |text| value(text, "outcome_writes_waiting") > 0.0).await;
    let (status, text) = page(host.pages(), "/readyz").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("cannot be written"), "{text}");
    // Longer than a lease, twice: whoever holds what cannot be written keeps holding it.
    tokio::time::sleep(long(Duration::from_secs(20), Duration::from_secs(60))).await;
    let leased = count(&db, "payment_outbox_pending where claimed_by is not null").await;
    assert!((1..=CONCURRENCY).contains(&leased), "{leased} payments were taken");
    assert!(count(&db, "payment_outbox_pending").await > leased, "there was more to take");

    run(&mut owner, &format!("grant execute on {COMPLETE} to symphony_executor")).await;
    until_all_have_a_verdict(&db).await;
    until_page(&host, "/readyz", |text| text == "ready\n").await;
    let (_, metrics) = page(host.pages(), "/metrics").await;
    assert!(value(&metrics, "outcome_writes_failed_total") > 0.0, "{metrics}");
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 3_000);
    assert_eq!(count(&db, "payment_outbox_attempts").await, 3_000, "each by the host that sent it, at once");
    assert_eq!(count(&db, "payment_outbox_late_answers").await, 0);
    assert_eq!(host.end(Signal::TERM), Some(0));
}

/// The value of a metric without labels.
pub(crate) fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or(0.0)
}

/// Waits until a page of the host says so.
pub(crate) async fn until_page(host: &Process, path: &str, fact: impl Fn(&str) -> bool) {
    let patience = std::time::Instant::now();
    loop {
        let (_, text) = page(host.pages(), path).await;
        if fact(&text) {
            return;
        }
        assert!(patience.elapsed() < PATIENCE, "{path}: {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
