//! The relayer: from a committed row to a fenced verdict.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::host::{HOUR, Host, configure, count, enqueue, pay, until, until_all_have_a_verdict};
use harness::sql::run;
use harness::{DbUser, PATIENCE, on_each_postgres, railhost};
use observe::{self, Registry};
use outbox::lease::Executor;
use outbox::read::Reader;
use outbox::{Database, Role};
use relayer::{Health, Metrics, RelayerOptions};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A page, head and all.
async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("asked");
    let mut page = String::new();
    stream.read_to_string(&mut page).await.expect("answered");
    page
}

/// The same once its status is this one. A database that is slow to answer is not ready for a moment.
async fn until_status(address: SocketAddr, path: &str, status: u16) {
    let patience = Instant::now();
    loop {
        let page = get(address, path).await;
        if page.starts_with(&format!("HTTP/1.1 {status} ")) {
            return;
        }
        assert!(patience.elapsed() < PATIENCE, "{path}: {page}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn looking_at(database: &Database, metrics: Arc<Metrics>, draining: watch::Receiver<bool>) -> Health {
    let (reader, executor) = (Reader::new(database), Executor::new(database, "pages", 1));
    Health { reader, executor, metrics, draining }
}

on_each_postgres! {
    async fn a_bell_alone_drives_it(db: Db) {
        let host = Host::start(&db, RelayerOptions { poll: HOUR, ..RelayerOptions::default() }).await;
        for round in 0..3 {
            until(&db, "relay_hosts where asleep", |rows| rows == 1).await;
            enqueue(&db, &vec![pay("1.00"); round + 1]).await;
            until_all_have_a_verdict(&db).await;
        }
        assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 3, "replays are no payments");
        assert!(host.metric("notify_wakeups_total") >= 1.0 && host.metric("claim_batches_total") >= 3.0);
        host.drain().await;
        assert_eq!(count(&db, "relay_hosts").await, 0);
    }

    async fn any_number_of_bells_is_one(db: Db) {
        let host = Host::start(&db, RelayerOptions { poll: Duration::from_millis(300), ..RelayerOptions::default() }).await;
        until(&db, "relay_hosts where asleep", |rows| rows == 1).await;
        let mut owner = db.connect(DbUser::Superuser).await;
        run(&mut owner, "select pg_notify('outbox_pending', n::text) from generate_series(1, 500) as n").await;
        host.until_metric("notify_wakeups_total", |came| came > 0.0).await;
        // It looks without a notification only when none is left.
        let polled = host.metric("poll_wakeups_total");
        host.until_metric("poll_wakeups_total", |polls| polls >= polled + 2.0).await;
        let wakeups = host.metric("notify_wakeups_total");
        assert!(wakeups < 250.0, "{wakeups} looks for 500 notifications at once");
        host.drain().await;
    }

    async fn where_bells_never_cease_it_looks_by_itself_until_they_do(db: Db) {
        let host = Host::start(&db, RelayerOptions { poll: HOUR, ..RelayerOptions::default() }).await;
        until(&db, "relay_hosts where asleep", |rows| rows == 1).await;
        let mut owner = db.connect(DbUser::Superuser).await;
        let began = Instant::now();
        while count(&db, "relay_hosts where asleep").await == 1 {
            assert!(began.elapsed() < PATIENCE, "it wants to hear every notification");
            run(&mut owner, "select pg_notify('outbox_pending', n::text) from generate_series(1, 100) as n").await;
        }
        until(&db, "relay_hosts where asleep", |rows| rows == 1).await;
        enqueue(&db, &[pay("1.00")]).await;
        until_all_have_a_verdict(&db).await;
        host.drain().await;
    }

    async fn its_pages_say_what_it_did_and_whether_it_is_ready(db: Db) {
        configure(&db, None).await;
        let host = Host::start(&db, RelayerOptions::default()).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, draining) = watch::channel(false);
        let health = looking_at(&db.database(), host.metrics.clone(), draining);
        let pages = tokio::spawn(observe::serve(listener, Arc::new(health)));
        enqueue(&db, &[pay("1.00"), pay("1.13"), pay("1.17"), json!({})]).await;
        until_all_have_a_verdict(&db).await;
        host.drain().await;

        let metrics = get(address, "/metrics").await;
        for line in [
            "attempts_total{rail=\"mock\",state=\"DISPATCHED\"} 2",
            "attempts_total{rail=\"mock\",state=\"FAILED\"} 2",
            "attempts_total{rail=\"mock\",state=\"RETRYABLE\"} 1",
            "plugin_call_seconds_count{rail=\"mock\"} 4",
            "dispatch_latency_ms_count{rail=\"mock\"} 5",
            "retry_depth_count 4",
            "lease_lost_total 0",
            "outbox_pending_depth",
        ] {
            assert!(metrics.contains(line), "{line} is not in\n{metrics}");
        }
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        until_status(address, "/readyz", 200).await;
        assert!(get(address, "/else").await.starts_with("HTTP/1.1 404"));
        stop.send_replace(true);
        let page = get(address, "/readyz").await;
        assert!(page.starts_with("HTTP/1.1 503") && page.contains("draining"), "{page}");
        pages.abort();

        let nowhere = "postgres://nobody@127.0.0.1:1/none".parse().expect("a URL");
        let stranger = db.options(DbUser::Superuser).username("no_such_login");
        for database in [Database::new(nowhere), db.database().with_login(Role::Executor, stranger)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let (_stop, draining) = watch::channel(false);
            let health = looking_at(&database, Arc::new(Metrics::new(&Registry::default()).expect("metrics")), draining);
            let pages = tokio::spawn(observe::serve(listener, Arc::new(health)));
            assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 503"));
            assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"), "the process lives all the same");
            pages.abort();
        }
    }

    async fn a_poll_alone_drives_it(db: Db) {
        let host = Host::start(&db, RelayerOptions { listen: false, poll: Duration::from_millis(100), ..RelayerOptions::default() }).await;
        enqueue(&db, &[pay("1.00"), pay("2.00")]).await;
        until_all_have_a_verdict(&db).await;
        host.until_metric("poll_wakeups_total", |polls| polls > 0.0).await;
        assert_eq!(host.metric("notify_wakeups_total"), 0.0);
        host.drain().await;
    }

    async fn what_a_rail_answers_is_recorded_as_the_contract_says(db: Db) {
        let mut deep = pay("1.00");
        deep["note"] = (0..200).fold(json!(0), |inner, _| json!([inner]));
        enqueue(
            &db,
            &[
                pay("1.00"), pay("1.13"), pay("1.14"), pay("1.17"), pay("1.19"), pay("1.23"), pay("0"), json!({}), deep,
            ],
        )
        .await;
        let host = Host::start(&db, RelayerOptions::default()).await;
        until_all_have_a_verdict(&db).await;
        host.drain().await;
        let mut owner = db.connect(DbUser::Superuser).await;
        let rows: Vec<(String, Vec<String>, String)> = sqlx::query_as(
            "select instruction_id,
                    array_agg(state || coalesce(' ' || error_code, '') order by attempt_no),
                    (array_agg(money_moved order by attempt_no desc))[1]
               from symphony.payment_outbox_attempts
              group by instruction_id
              order by instruction_id",
        )
        .fetch_all(&mut owner)
        .await
        .expect("read");
        let expected = [
            (vec!["DISPATCHED"], "yes"),
            (vec!["FAILED RAIL_DECLINED"], "no"),
            // A code that no table lists refuses nothing at the door.
            (vec!["RETRYABLE OUTCOME_UNKNOWN", "FAILED RAIL_DECLINED"], "unknown"),
            (vec!["RETRYABLE OUTCOME_UNKNOWN", "DISPATCHED"], "yes"),
            (vec!["RETRYABLE RAIL_PENDING", "RETRYABLE RAIL_PENDING", "DISPATCHED"], "yes"),
            (vec!["RETRYABLE NOT_SENT", "DISPATCHED"], "yes"),
            (vec!["FAILED INVALID_PAYLOAD"], "no"),
            (vec!["FAILED INVALID_PAYLOAD"], "no"),
            (vec!["FAILED INVALID_PAYLOAD"], "no"),
        ];
        assert_eq!(rows.len(), expected.len());
        for ((instruction, attempts, money), (wanted, moved)) in rows.iter().zip(expected) {
            assert_eq!((attempts.iter().map(String::as_str).collect(), money.as_str()), (wanted, moved), "{instruction}");
        }
        assert_eq!(count(&db, "payments_needing_review").await, 1, "the code that no table lists");
    }
}

#[test]
fn the_demo_kills_a_host_and_the_rails_ledgers_agree_with_the_books() {
    let folder = tempfile::tempdir().expect("a folder");
    let demo =
        railhost().current_dir(folder.path()).args(["demo", "--payments", "1000"]).output().expect("it runs");
    let (said, remarks) = (String::from_utf8_lossy(&demo.stdout), String::from_utf8_lossy(&demo.stderr));
    assert!(demo.status.success(), "{said}{remarks}");
    let number = |name: &str| -> u32 {
        let line =
            said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {said}"));
        line.trim().parse().unwrap_or_else(|_| panic!("{name}: {said}"))
    };
    assert_eq!((number("lost"), number("with two verdicts"), number("gaps in the streams")), (0, 0, 0));
    assert!(number("taken over from the killed host") > 0, "{said}");
    assert_eq!(
        number("dispatched") + number("failed, no money moved") + number("failed, for a person to look at"),
        1000
    );
    for rail in ["demo-mtn", "demo-airtel", "demo-bank", "together"] {
        let line =
            said.lines().find_map(|line| line.strip_prefix(rail)).unwrap_or_else(|| panic!("{rail}: {said}"));
        let numbers: Vec<u32> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [requests, spoilt, paid, lost, doubled, disagreed] = numbers[..] else { panic!("{line}") };
        assert!(requests > paid && spoilt > 0 && paid > 200, "{said}");
        assert_eq!((lost, doubled, disagreed), (0, 0, 0), "{said}");
    }
    assert!(remarks.contains("killed with SIGKILL"), "{remarks}");
    assert!(!folder.path().join(".railhost/demo").exists(), "it cleans up after itself");
}
