//! The relayer: from a committed row to a fenced verdict.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::{Db, Pg, Role, on_each_postgres, railhost};
use railhost::observe::{self, Health, Metrics};
use railhost::outbox::enqueue::{Ingest, NewPayment};
use railhost::outbox::lease::Executor;
use railhost::outbox::operate::{Operator, RailFacts, Reason};
use railhost::outbox::{Database, Error};
use railhost::rail::{self, Rails, Sandbox};
use railhost::relayer::{self, Options};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const RAIL: &str = r#"
kind = "mock"
component = "builtin:mock"
idempotent = true
hand_over_marks = false
timeouts = { call_ms = 1000 }

[pace]
lease_seconds = 9
retry = { base_ms = 10, factor = 1, cap_ms = 10 }
query = { base_ms = 10, factor = 1, cap_ms = 10 }
reconcile_seconds = 0

[codes]
version = 1
rows = [{ operation = "disburse", field = "code", code = "NO_PAYEE", class = "terminal" }]

[settings]
script = """
amount *.13: declined NO_PAYEE
amount *.14: declined NEVER_SEEN
amount *.17: unclear TIMEOUT, settled
amount *.19: pending, pending, settled
amount *.23: not-sent, settled
amount *.50: delay 300 settled
amount *.80: delay 800 settled
otherwise: settled
"""
"#;

const HOUR: Duration = Duration::from_secs(3600);

/// A host in this process.
struct Host {
    _folder: TempDir,
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<usize, Error>>,
    metrics: Arc<Metrics>,
}

impl Host {
    async fn start(db: &Db, options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("mock.toml"), RAIL).expect("written");
        let sandbox =
            Sandbox::new(&folder.path().join("compiled"), rail::Options::default()).expect("a sandbox");
        let (sandbox, database) = (Arc::new(sandbox), db.database());
        let rails = Rails::load(&sandbox, folder.path()).await.expect("they load");
        let (stop, stopped) = watch::channel(false);
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let counted = metrics.clone();
        let running =
            tokio::spawn(
                async move { relayer::run(&database, sandbox, &rails, counted, options, stopped).await },
            );
        Self { _folder: folder, stop, running, metrics }
    }

    async fn drain(self) {
        self.stop.send_replace(true);
        assert_eq!(self.running.await.expect("it ran").expect("it drained"), 0, "nothing is left in flight");
    }
}

async fn enqueue(db: &Db, payloads: &[Value]) {
    enqueue_as(db, "i", payloads).await;
}

async fn enqueue_as(db: &Db, name: &str, payloads: &[Value]) {
    let payments: Vec<_> = payloads
        .iter()
        .enumerate()
        .map(|(n, payload)| NewPayment {
            instruction_id: format!("{name}-{n}"),
            participant_id: format!("p-{}", n % 5),
            idempotency_key: "k".to_owned(),
            rail_type: "mock".to_owned(),
            payload: payload.clone(),
        })
        .collect();
    let accepted = Ingest::new(&db.database(), 1).enqueue_batch(&payments).await.expect("enqueued");
    assert!(accepted.iter().all(Result::is_ok));
}

fn pay(amount: &str) -> Value {
    json!({ "amount": amount, "currency": "ZMW", "destination": "260961234567" })
}

/// Tells the database of the rail, with its rate for all hosts together.
async fn configure(db: &Db, rate: Option<(i32, i32)>) {
    let facts = RailFacts {
        rail_type: "mock".to_owned(),
        deduplicates: true,
        hand_over_marks: false,
        sla_seconds: None,
        rate,
    };
    let reason = Reason { by: "test".to_owned(), why: "test".to_owned() };
    Operator::new(&db.database()).configure_rail(&facts, &reason).await.expect("configured");
}

/// A page, head and all.
async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("asked");
    let mut page = String::new();
    stream.read_to_string(&mut page).await.expect("answered");
    page
}

async fn count(db: &Db, what: &str) -> i64 {
    let mut owner = db.connect(Role::Superuser).await;
    sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select count(*) from symphony.{what}")))
        .fetch_one(&mut owner)
        .await
        .expect("counted")
}

/// Waits for a fact, and not for ever.
async fn until(db: &Db, what: &str, fact: impl Fn(i64) -> bool) {
    let patience = Instant::now();
    loop {
        let found = count(db, what).await;
        if fact(found) {
            return;
        }
        assert!(patience.elapsed() < Duration::from_secs(90), "{what}: {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn until_all_have_a_verdict(db: &Db) {
    until(db, "payment_outbox_pending", |rows| rows == 0).await;
}

on_each_postgres! {
    async fn a_bell_alone_drives_it(db: Db) {
        let host = Host::start(&db, Options { poll: HOUR, ..Options::default() }).await;
        for round in 0..3 {
            until(&db, "relay_hosts where asleep", |rows| rows == 1).await;
            enqueue(&db, &vec![pay("1.00"); round + 1]).await;
            until_all_have_a_verdict(&db).await;
        }
        assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 3, "replays are no payments");
        host.drain().await;
        assert_eq!(count(&db, "relay_hosts").await, 0);
    }

    async fn its_pages_say_what_it_did_and_whether_it_is_ready(db: Db) {
        configure(&db, None).await;
        let host = Host::start(&db, Options::default()).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let health = Health { database: db.database(), metrics: host.metrics.clone() };
        let pages = tokio::spawn(observe::serve(listener, health));
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
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/else").await.starts_with("HTTP/1.1 404"));
        pages.abort();

        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let nowhere = "postgres://nobody@127.0.0.1:1/none".parse().expect("a URL");
        let health = Health { database: Database::new(nowhere), metrics: Arc::new(Metrics::new().expect("metrics")) };
        let pages = tokio::spawn(observe::serve(listener, health));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 503"));
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"), "the process lives all the same");
        pages.abort();
    }

    async fn a_poll_alone_drives_it(db: Db) {
        let host = Host::start(&db, Options { listen: false, poll: Duration::from_millis(100), ..Options::default() }).await;
        enqueue(&db, &[pay("1.00"), pay("2.00")]).await;
        until_all_have_a_verdict(&db).await;
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
        let host = Host::start(&db, Options::default()).await;
        until_all_have_a_verdict(&db).await;
        host.drain().await;
        let mut owner = db.connect(Role::Superuser).await;
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
            (vec!["FAILED RAIL_DECLINED"], "unknown"),
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hosts_together_keep_the_rate_of_the_rail() {
    let db = Db::fresh(Pg::V18).await;
    configure(&db, Some((40, 20))).await;
    enqueue(&db, &vec![pay("1.00"); 160]).await;
    let mut hosts = Vec::new();
    for _ in 0..3 {
        hosts.push(Host::start(&db, Options::default()).await);
    }
    until_all_have_a_verdict(&db).await;
    for host in hosts {
        host.drain().await;
    }
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 160);
    assert!(
        count(&db, "payment_outbox_attempts a where attempt_no > 1").await == 0,
        "waiting uses up no attempt"
    );
    let mut owner = db.connect(Role::Superuser).await;
    let most: i64 = sqlx::query_scalar(
        "select max(beside)
           from (select count(*) over (order by claimed_at range between current row and '1 second' following) as beside
                   from symphony.payment_outbox_attempts) as windows",
    )
    .fetch_one(&mut owner)
    .await
    .expect("counted");
    assert!(most <= 60, "{most} within a second, at 40 a second and a burst of 20");
}

/// A host in a process of its own.
struct Process {
    child: Child,
    _folder: TempDir,
}

/// A test that fails leaves no host behind.
impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Process {
    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    fn start(db: &Db) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("config/rails")).expect("a folder");
        fs::write(folder.path().join("config/rails/mock.toml"), RAIL).expect("written");
        let child = railhost()
            .current_dir(folder.path())
            .env("DATABASE_URL", db.url())
            .arg("serve")
            .stderr(Stdio::inherit())
            .spawn()
            .expect("railhost runs");
        Self { child, _folder: folder }
    }

    fn end(mut self, signal: Signal) -> Option<i32> {
        self.send(signal);
        self.child.wait().expect("reaped").code()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_payments_of_a_killed_host_move_again_and_none_is_lost_or_doubled() {
    let db = Db::fresh(Pg::V18).await;
    configure(&db, None).await;
    enqueue(&db, &vec![pay("1.50"); 600]).await;
    let first = Process::start(&db);
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 0).await;
    assert_eq!(first.end(Signal::KILL), None);
    assert!(
        count(&db, "payment_outbox_pending where claimed_by is not null").await > 0,
        "it died holding some"
    );

    let second = Process::start(&db);
    until_all_have_a_verdict(&db).await;
    assert!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await > 0);
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 600);
    assert_eq!(second.end(Signal::TERM), Some(0));
    assert_eq!(count(&db, "sequence_gaps").await, 0);
}

#[test]
fn the_demo_kills_a_host_and_proves_that_nothing_was_lost() {
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
    assert!(remarks.contains("killed with SIGKILL"), "{remarks}");
    assert!(!folder.path().join(".railhost/demo").exists(), "it cleans up after itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_told_to_stop_under_load_leaves_no_lease_behind() {
    let db = Db::fresh(Pg::V18).await;
    enqueue(&db, &vec![pay("1.50"); 600]).await;
    let host = Process::start(&db);
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 0).await;
    assert_eq!(host.end(Signal::TERM), Some(0));
    assert_eq!(count(&db, "payment_outbox_pending where claimed_by is not null").await, 0);
    assert!(count(&db, "payment_outbox_pending").await > 0, "there was more to do");
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_frozen_host_heard_is_kept_when_it_wakes_up_too_late() {
    let db = Db::fresh(Pg::V18).await;
    let watcher = Executor::new(&db.database(), "watcher", 1);
    let host = Process::start(&db);
    let mut rounds = 0;
    // A host that is frozen between claim and call has heard nothing: then once more.
    while count(&db, "payment_outbox_late_answers").await == 0 {
        rounds += 1;
        assert!(rounds < 6, "it was never frozen within a call");
        enqueue_as(&db, &format!("round-{rounds}"), &vec![pay("1.80"); 10]).await;
        until(&db, "payment_outbox_pending where claimed_by is not null", |rows| rows > 0).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        host.send(Signal::STOP);
        let patience = Instant::now();
        while count(&db, "payment_outbox_pending where claimed_by is not null").await > 0 {
            watcher.repair(100).await.expect("repaired");
            assert!(patience.elapsed() < Duration::from_secs(60), "a lease does not end");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        host.send(Signal::CONT);
        until_all_have_a_verdict(&db).await;
    }
    assert_eq!(host.end(Signal::TERM), Some(0));
    let verdicts = count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await;
    assert_eq!(verdicts, 10 * rounds, "each once");
    assert!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await > 0);
}
