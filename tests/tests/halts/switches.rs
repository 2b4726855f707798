//! Switches that people throw, and what a host does about them.

use std::env;
use std::time::Duration;

use dev::embedded::{self, Server};
use harness::host::{
    Host, Process, RAIL, configure, count, enqueue_as, number, pay, until, until_all_have_a_verdict,
};
use harness::{Db, Pg, on_each_postgres, scratch_folder};
use outbox::operate::{Operator, Reason};
use relayer::RelayerOptions;
use rustix::process::Signal;

/// As long as the requirement says where RAILHOST_LONG is set, and as long as it takes to see it otherwise.
pub(crate) fn long(pushed: Duration, whole: Duration) -> Duration {
    if env::var_os("RAILHOST_LONG").is_some() { whole } else { pushed }
}

fn reason() -> Reason {
    Reason { by: "ada".to_owned(), why: "a test".to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_resume_nothing_is_leased_and_handed_back() {
    let db = Db::fresh(Pg::V18).await;
    configure(&db, None).await;
    let host = Host::start(&db, RelayerOptions::default()).await;
    let operator = Operator::new(&db.database());
    for round in 0..5 {
        operator.pause_rail("mock", &reason()).await.expect("paused");
        // Longer than a host takes to notice.
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        enqueue_as(&db, &format!("round-{round}"), "mock", &vec![pay("1.00"); 20]).await;
        operator.resume_rail("mock", &reason()).await.expect("resumed");
        until_all_have_a_verdict(&db).await;
    }
    // Each payment was claimed once: a row that is leased and handed back is claimed again.
    let claims = host.metric("claim_batches_total");
    assert!(claims <= 5.0 * 20.0, "{claims} claims for 100 payments");
    assert_eq!(host.metric("leases_unused_total"), 0.0);
    host.drain().await;
    assert_eq!(count(&db, "payment_outbox_attempts").await, 100);
}

/// It may have left and cannot be asked about: during a pause it is leasable, but may not be sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_may_only_be_sent_again_waits_out_a_pause_without_a_loop() {
    let db = Db::fresh(Pg::V18).await;
    let rail = RAIL
        .replace("hand_over_marks = false", "hand_over_marks = false\nstatus_query = false")
        .replace("[pace]", "[pace]\nresend_is_safe = true")
        .replace(
            "query = { base_ms = 10, factor = 1, cap_ms = 10 }",
            "query = { base_ms = 2000, factor = 1, cap_ms = 2000 }",
        );
    let host = Host::with_rails(&db, &[("mock", &rail)], RelayerOptions::default()).await;
    enqueue_as(&db, "lost", "mock", &[pay("1.17")]).await;
    until(&db, "payment_outbox_attempts", |rows| rows == 1).await;
    let operator = Operator::new(&db.database());
    operator.pause_rail("mock", &reason()).await.expect("paused");
    until(&db, "payment_outbox_holds where times > 1", |rows| rows == 1).await;
    let claims = host.metric("claim_batches_total");
    assert!(claims < 20.0, "{claims} claims of one payment");
    operator.resume_rail("mock", &reason()).await.expect("resumed");
    until_all_have_a_verdict(&db).await;
    host.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_waits_for_a_database_that_is_still_starting() {
    let options = dev::embedded::ServerOptions {
        major: Some(18),
        ..embedded::ServerOptions::throwaway(scratch_folder("late"))
    };
    let mut server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
    let db = Db::on(Pg::V18, server.connect_options()).await;
    enqueue_as(&db, "waits", "mock", &[pay("1.00")]).await;
    server.stop().await.expect("stopped");
    let host = Process::with(&db, RAIL, "", &[("RAILHOST_LOG", "info")]);
    host.until_it_says("PostgreSQL cannot be reached yet, waiting for it").await;
    server.restart().await.expect("it is back");
    until_all_have_a_verdict(&db).await;
    host.send(Signal::TERM);
    let (status, said) = host.wait_and_hear();
    assert_eq!(status.code(), Some(0), "{said}");
}

/// It was there when the host looked, and is restarted before the first claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_goes_away_as_a_host_begins_ends_no_host() {
    let options = dev::embedded::ServerOptions {
        major: Some(18),
        ..embedded::ServerOptions::throwaway(scratch_folder("begins"))
    };
    let mut server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
    let db = Db::on(Pg::V18, server.connect_options()).await;
    enqueue_as(&db, "begins", "mock", &[pay("1.00")]).await;
    server.stop().await.expect("stopped");
    let host = Host::start(&db, RelayerOptions::default()).await;
    server.restart().await.expect("it is back");
    until_all_have_a_verdict(&db).await;
    host.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_work_with_different_files_say_so() {
    let db = Db::fresh(Pg::V18).await;
    let host = Host::start(&db, RelayerOptions::default()).await;
    let other = RAIL.replace("declined NO_PAYEE", "settled");
    let stranger = Host::with_rails(&db, &[("mock", &other)], RelayerOptions::default()).await;
    host.until_metric("hosts_differing", |hosts| hosts == 1.0).await;
    stranger.drain().await;
    host.until_metric("hosts_differing", |hosts| hosts == 0.0).await;
    host.drain().await;
}

on_each_postgres! {
    async fn a_host_makes_the_months_that_are_missing(db: Db) {
        db.move_clock("200 days").await;
        let host = Host::start(&db, RelayerOptions::default()).await;
        until(&db, "payment_outbox_partitions where until_at > symphony.clock()", |months| months >= 3).await;
        host.until_metric("history_days_left", |days| days > 28.0).await;
        enqueue_as(&db, "later", "mock", &[pay("1.00")]).await;
        until_all_have_a_verdict(&db).await;
        host.drain().await;
        assert_eq!(number(&db, "select count(*) from symphony.payment_outbox_attempts").await, 1);
    }
}
