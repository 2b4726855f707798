//! The relayer under faults: hosts that die, freeze and drain, a database that goes away, a pooler in between.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dev::embedded::{self, Server};
use faults::{CRASH_AT, CrashPoint};
use harness::adapter_rig::{AdapterRig, guest};
use harness::host::{
    Host, Process, RAIL, configure, count, enqueue, enqueue_as, most_claims_within_a_second, number, pay,
    until, until_all_have_a_verdict, until_number,
};
use harness::port::Port;
use harness::rail::Reply;
use harness::sql::run;
use harness::tool::tool;
use harness::{Db, DbUser, PATIENCE, Pg, on_each_postgres, railhost_path};
use outbox::enqueue::{Ingest, NewPayment};
use outbox::lease::Executor;
use outbox::operate::{Operator, RailFacts, Reason};
use outbox::{Database, Role, ready};
use rail::{self, Sandbox};
use relayer::RelayerOptions;
use rustix::process::Signal;
use serde_json::Value;
use sqlx::Connection;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Longer than any lease of these rails: so far the database's clock is moved on.
const LEASES_END: &str = "3 minutes";

/// With calls that take longer than a test does, and leases that only the database's clock ends.
fn patient(otherwise: &str) -> String {
    let rail = RAIL
        .replace("call_ms = 20000", "call_ms = 60000")
        .replace("lease_seconds = 45", "lease_seconds = 100")
        .replace("otherwise: settled", otherwise);
    assert!(rail.contains("call_ms = 60000") && rail.contains("lease_seconds = 100"), "{rail}");
    rail
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_payments_of_a_killed_host_move_again_and_none_is_lost_or_doubled() {
    let db = Db::fresh(Pg::V18).await;
    configure(&db, None).await;
    // Some calls do not end before the host does.
    enqueue_as(&db, "long", "mock", &vec![pay("1.80"); 20]).await;
    enqueue(&db, &vec![pay("1.50"); 600]).await;
    let rail = patient("otherwise: settled").replace("delay 800 settled", "delay 50000 settled");
    let first = Process::with(&db, &rail, "", &[]);
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 0).await;
    let held = "payment_outbox_pending where claimed_by is not null and instruction_id like 'long-%'";
    until(&db, held, |rows| rows == 20).await;
    assert_eq!(first.end(Signal::KILL), None);

    db.move_clock(LEASES_END).await;
    let second = Process::start(&db);
    until_all_have_a_verdict(&db).await;
    assert!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await >= 20);
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 620);
    assert_eq!(second.end(Signal::TERM), Some(0));
    assert_eq!(count(&db, "sequence_gaps").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_told_to_stop_under_load_leaves_no_lease_behind() {
    let db = Db::fresh(Pg::V18).await;
    // Half a minute of work.
    enqueue(&db, &vec![pay("1.50"); 6_000]).await;
    let host = Process::start(&db);
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 0).await;
    assert_eq!(host.end(Signal::TERM), Some(0));
    assert_eq!(count(&db, "payment_outbox_pending where claimed_by is not null").await, 0);
    assert!(count(&db, "payment_outbox_pending").await > 0, "there was more to do");
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await, 0);
}

/// A rail that takes every request and never answers, for a host in a process of its own.
fn silent(rig: &AdapterRig) -> String {
    let more = "timeouts = { call_ms = 60000, connect_ms = 60000, first_byte_ms = 60000 }\npace = { lease_seconds = 100 }";
    let folder = rig.path("");
    let inside = |key: &str| format!("{key} = \"{}", folder.display());
    rig.file(&guest("pays_and_tells"), more)
        .replace("component = \"", &inside("component"))
        .replace("file = \"", &inside("file"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_a_host_at_once_and_the_next_one_asks_what_became_of_its_payments() {
    let db = Db::fresh(Pg::V18).await;
    configure(&db, None).await;
    enqueue(&db, &vec![pay("1.00"); 20]).await;
    let rig = AdapterRig::with(|_| Reply::Hangs).await;
    let first = Process::with(&db, &silent(&rig), "", &[]);
    // What has not begun would be handed back.
    let patience = Instant::now();
    while rig.rail.asked().len() < 20 {
        assert!(patience.elapsed() < PATIENCE, "{} calls have begun", rig.rail.asked().len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Two of one kind could arrive as one.
    first.send(Signal::TERM);
    assert_eq!(first.end(Signal::INT), Some(130));
    let held = count(&db, "payment_outbox_pending where claimed_by is not null").await;
    assert_eq!(held, 20, "it did not wait for its calls");
    assert_eq!(count(&db, "payment_outbox_attempts").await, 0);

    db.move_clock(LEASES_END).await;
    let rail = RAIL.replace("otherwise: settled", "otherwise: settled, not-found, settled");
    let second = Host::with_rails(&db, &[("mock", &rail)], RelayerOptions::default()).await;
    until_all_have_a_verdict(&db).await;
    let asked = number(
        &db,
        "select count(*)
           from (select array_agg(state || coalesce(' ' || error_code, '') order by attempt_no) as attempts
                   from symphony.payment_outbox_attempts
                  group by outbox_id) as payments
          where attempts = array['ZOMBIE_REQUEUE LEASE_EXPIRED', 'RETRYABLE NOT_FOUND', 'DISPATCHED']",
    )
    .await;
    assert_eq!(asked, held, "a request to pay would have found something");
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 20);
    assert_eq!(count(&db, "sequence_gaps").await, 0);
    assert_eq!(second.metric("reaper_requeues_total"), held as f64);
    assert_eq!(second.metric("zombie_recovery_seconds_count"), held as f64);
    second.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_after_its_lease_is_kept_and_counted() {
    let db = Db::fresh(Pg::V18).await;
    let rail = patient("otherwise: delay 10000 settled, settled");
    enqueue(&db, &vec![pay("1.00"); 5]).await;
    let host = Host::with_rails(&db, &[("mock", &rail)], RelayerOptions::default()).await;
    until(&db, "payment_outbox_pending where claimed_by is not null", |rows| rows == 5).await;
    db.move_clock(LEASES_END).await;
    host.until_metric("late_answers_total", |answers| answers == 5.0).await;
    assert_eq!(host.metric("lease_lost_total"), 5.0);
    until_all_have_a_verdict(&db).await;
    host.drain().await;
    assert_eq!(count(&db, "payment_outbox_late_answers where state = 'DISPATCHED'").await, 5);
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 5, "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_host_marked_goes_to_a_person_and_the_rest_is_sent() {
    let db = Db::fresh(Pg::V18).await;
    let rail = RAIL
        .replace("idempotent = true", "idempotent = false")
        .replace("hand_over_marks = false", "hand_over_marks = true\nstatus_query = false");
    let facts = RailFacts {
        rail_type: "mock".to_owned(),
        deduplicates: false,
        hand_over_marks: true,
        sla_seconds: None,
        rate: None,
        key_forms: None,
    };
    let reason = Reason { by: "test".to_owned(), why: "test".to_owned() };
    Operator::new(&db.database()).configure_rail(&facts, &reason).await.expect("configured");
    let mut marks = Vec::new();
    for (name, place, clock) in [
        ("before", CrashPoint::ClaimCommitted, "1 minute"),
        ("after", CrashPoint::MarkCommitted, "2 minutes"),
    ] {
        enqueue_as(&db, name, "mock", &vec![pay("1.00"); 10]).await;
        let place = format!("{place:?}:1");
        let environment = [("RAILHOST_LOG", "warn"), (CRASH_AT, place.as_str())];
        let (status, said) = Process::with(&db, &rail, "", &environment).wait_and_hear();
        assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{said}");
        assert_eq!(count(&db, "payment_outbox_pending where claimed_by is not null").await, 10);
        marks.push(count(&db, "payment_outbox_pending where handed_over_at is not null").await);
        db.move_clock(clock).await;
        let next = Host::with_rails(&db, &[("mock", &rail)], RelayerOptions::default()).await;
        until_all_have_a_verdict(&db).await;
        next.drain().await;
    }
    assert!(marks[0] == 0 && marks[1] > 0, "{marks:?}");
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await, 20);
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 20 - marks[1]);
    let open = "payment_outbox_attempts where state = 'FAILED' and error_code = 'OUTCOME_UNKNOWN'";
    assert_eq!(count(&db, open).await, marks[1]);
    assert_eq!(count(&db, "payments_needing_review").await, marks[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_stuck_does_not_hold_up_the_others() {
    let db = Db::fresh(Pg::V18).await;
    enqueue_as(&db, "stuck", "mock", &[pay("1.00")]).await;
    // Somebody else has written its verdict and not said yet whether it counts: the host's own has to wait for that.
    let mut owner = db.connect(DbUser::Superuser).await;
    let mut open = owner.begin().await.expect("begun");
    run(
        &mut *open,
        "insert into symphony.payment_outbox_attempts
                (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, state, instruction_id,
                 participant_id, idempotency_key, rail_type, worker_id, money_moved, payload)
         select outbox_id, gen_random_uuid(), sequence_id, now(), now(), now(), 1, 'DISPATCHED', instruction_id,
                participant_id, idempotency_key, rail_type, 'nobody', 'yes', payload
           from symphony.payment_outbox_pending",
    )
    .await;
    let host = Host::start(&db, RelayerOptions::default()).await;
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    until_number(&db, waits, |waiting| waiting > 0).await;
    enqueue_as(&db, "other", "mock", &vec![pay("1.00"); 10]).await;
    until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows == 10).await;
    open.rollback().await.expect("let go");
    until_all_have_a_verdict(&db).await;
    host.drain().await;
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_frozen_host_heard_is_kept_when_it_wakes_up_too_late() {
    let db = Db::fresh(Pg::V18).await;
    let watcher = Executor::new(&db.database(), "watcher", 1);
    enqueue(&db, &vec![pay("1.00"); 10]).await;
    let host = Process::with(&db, &patient("otherwise: delay 10000 settled, settled"), "", &[]);
    until(&db, "payment_outbox_pending where claimed_by is not null", |rows| rows == 10).await;
    host.send(Signal::STOP);
    db.move_clock(LEASES_END).await;
    let patience = Instant::now();
    while count(&db, "payment_outbox_pending where claimed_by is not null").await > 0 {
        watcher.repair(100).await.expect("repaired");
        assert!(patience.elapsed() < PATIENCE, "a lease does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    host.send(Signal::CONT);
    until(&db, "payment_outbox_late_answers", |rows| rows > 0).await;
    until_all_have_a_verdict(&db).await;
    assert_eq!(host.end(Signal::TERM), Some(0));
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 10, "each once");
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_default_settings_the_payments_of_a_killed_host_move_again_by_themselves() {
    let db = Db::fresh(Pg::V18).await;
    configure(&db, None).await;
    let rail = "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n[settings]\nscript = \"otherwise: delay 20000 settled\"";
    enqueue(&db, &vec![pay("1.00"); 20]).await;
    let first = Process::with(&db, rail, "", &[]);
    until(&db, "payment_outbox_pending where lease_token is not null", |rows| rows == 20).await;
    assert_eq!(first.end(Signal::KILL), None);
    let killed = Instant::now();
    let second = Process::with(&db, &rail.replace("delay 20000 ", ""), "", &[]);
    until(&db, "payment_outbox_pending where attempt_count = 0", |rows| rows == 0).await;
    // Within a minute on a machine that has nothing else to do, and on no machine after two.
    assert!(killed.elapsed() < Duration::from_secs(120), "{:?} after SIGKILL", killed.elapsed());
    println!("moving again {:.1} s after SIGKILL, lease 45 s", killed.elapsed().as_secs_f64());
    until_all_have_a_verdict(&db).await;
    assert_eq!(second.end(Signal::TERM), Some(0));
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hosts_dispatch_ten_thousand_payments_once_each_within_the_rate() {
    let db = Db::fresh(Pg::V18).await;
    configure(&db, Some((1_500, 300))).await;
    let rail = format!("{RAIL}\n[rate]\nper_second = 1500\nburst = 300\n");
    let hosts = [(); 3].map(|()| Process::with(&db, &rail, "", &[]));
    until(&db, "relay_hosts", |rows| rows == 3).await;
    enqueue(&db, &vec![pay("1.00"); 10_000]).await;
    until_all_have_a_verdict(&db).await;
    for host in hosts {
        assert_eq!(host.end(Signal::TERM), Some(0));
    }
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 10_000);
    assert_eq!(count(&db, "payment_outbox_attempts").await, 10_000, "each in one attempt");
    assert!(number(&db, "select count(distinct worker_id) from symphony.payment_outbox_attempts").await == 3);
    let most = most_claims_within_a_second(&db).await;
    assert!(most <= 1_800, "{most} within a second, at 1500 a second and a burst of 300");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_survives_its_database_loses_nothing_and_does_not_shout() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = dev::embedded::ServerOptions {
        major: Some(Pg::V18.major()),
        ..embedded::ServerOptions::throwaway(folder.path().join("postgres"))
    };
    let mut server = Server::start(options).await.expect("a server");
    let db = Db::on(Pg::V18, server.connect_options()).await;
    enqueue(&db, &vec![pay("1.50"); 1_500]).await;
    let host = Process::with(&db, RAIL, "", &[("RAILHOST_LOG", "info,sqlx=warn")]);
    let mut away = Duration::ZERO;
    for round in 1..=3 {
        until(&db, "payment_outbox_attempts where state = 'DISPATCHED'", |rows| rows > 100 * round).await;
        let gone = Instant::now();
        match round {
            2 => server.stop().await.expect("stopped"),
            _ => server.kill().await.expect("killed"),
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.restart().await.expect("it is back");
        let before = count(&db, "payment_outbox_attempts").await;
        // There is something to dispatch, however far it had come.
        enqueue_as(&db, &format!("after-{round}"), "mock", &vec![pay("1.50"); 20]).await;
        until(&db, "payment_outbox_attempts", |rows| rows > before).await;
        away += gone.elapsed();
    }
    until_all_have_a_verdict(&db).await;
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 1_560);
    assert_eq!(count(&db, "sequence_gaps").await, 0);
    host.send(Signal::TERM);
    let (status, said) = host.wait_and_hear();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.lines().count() >= 3, "three outages:\n{said}");
    // Neither a line for each payment nor one for each try.
    let most = 100 + 2 * usize::try_from(away.as_secs()).expect("a few minutes");
    for (message, times) in messages(&said) {
        assert!(times <= most, "{times} times within {away:?}: {message}\n{said}");
    }
}

/// How often each line was said, without its words that hold digits: times, ids and numbers.
fn messages(said: &str) -> BTreeMap<String, usize> {
    let mut messages = BTreeMap::new();
    for line in said.lines() {
        let words = line.split_whitespace().filter(|word| !word.contains(|char: char| char.is_ascii_digit()));
        *messages.entry(words.collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    messages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_does_not_serve_a_database_that_is_not_migrated() {
    let db = Db::empty(Pg::V18).await;
    let (status, said) = Process::with(&db, RAIL, "", &[("RAILHOST_LOG", "warn")]).wait_and_hear();
    assert_eq!(status.code(), Some(69), "{said}");
    assert!(said.contains("run railhost migrate") && said.trim().lines().count() == 1, "{said}");

    let db = Db::fresh(Pg::V18).await;
    let limited = format!("{RAIL}\n[rate]\nper_second = 10\nburst = 1\n");
    let (status, said) = Process::with(&db, &limited, "", &[("RAILHOST_LOG", "warn")]).wait_and_hear();
    assert_eq!(status.code(), Some(69), "{said}");
    assert!(said.contains("does not know rail mock") && said.contains("run railhost migrate"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_loudest_log_is_json_and_shows_no_account_number() {
    let db = Db::fresh(Pg::V18).await;
    let environment = [("RAILHOST_LOG", "railhost=trace,sqlx=debug"), ("RAILHOST_LOG_FORMAT", "json")];
    let host = Process::with(&db, RAIL, "", &environment);
    enqueue(&db, &[pay("1.00"), pay("1.13"), pay("1.17"), pay("0")]).await;
    until_all_have_a_verdict(&db).await;
    host.send(Signal::TERM);
    let (status, said) = host.wait_and_hear();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(!said.contains("260961234567"), "{said}");
    let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let outcome = lines.iter().find(|line| line["state"] == "FAILED").expect("a line about the refused one");
    assert!(outcome["payment"].is_string() && outcome["timestamp"].is_string(), "{outcome}");
}

/// A pooler in transaction mode before a database, ended with the test.
struct Bouncer {
    child: Child,
    port: Port,
    _folder: TempDir,
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Bouncer {
    async fn before(db: &Db) -> Self {
        let server = db.options(DbUser::Superuser);
        let (host, user) = match server.get_socket() {
            // It does not run as root, and the socket's folder is its server's alone.
            Some(folder) => (folder.display().to_string(), fs::metadata(folder).expect("a folder").uid()),
            None => (server.get_host().to_owned(), 65_534),
        };
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("opened");
        let port = Port::reserve();
        let name = server.get_database().expect("a name");
        let users = DbUser::RUNTIME.map(|role| format!("\"{}\" \"only-for-tests\"\n", role.name())).concat();
        let settings = format!(
            "[databases]\n{name} = host={host} port={} dbname={name}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {}\nunix_socket_dir =\npool_mode = transaction\ndefault_pool_size = 3\n\
             auth_type = trust\nauth_file = {}\nignore_startup_parameters = extra_float_digits\n",
            server.get_port(),
            port.number,
            folder.path().join("users").display()
        );
        for (name, text) in [("users", &users), ("settings", &settings)] {
            fs::write(folder.path().join(name), text).expect("written");
        }
        chown(folder.path(), Some(user), None).expect("given away");
        let mut command = tool("pgbouncer", &["pgbouncer", "libevent-2.1-7", "libc-ares2"]);
        let child = command
            .arg(folder.path().join("settings"))
            .uid(user)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbouncer runs");
        let bouncer = Self { child, port, _folder: folder };
        let patience = Instant::now();
        while TcpStream::connect(("127.0.0.1", bouncer.port.number)).await.is_err() {
            assert!(patience.elapsed() < PATIENCE, "pgbouncer does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bouncer
    }

    /// The logins go through it, the base does not.
    fn database(&self, db: &Db) -> Database {
        let name = db.options(DbUser::Superuser).get_database().expect("a name").to_owned();
        let through = |role: DbUser| {
            PgConnectOptions::new_without_pgpass()
                .host("127.0.0.1")
                .port(self.port.number)
                .username(role.name())
                .database(&name)
        };
        Database::new(db.options(DbUser::Superuser))
            .with_login(Role::Ingest, through(DbUser::Ingest))
            .with_login(Role::Executor, through(DbUser::Executor))
            .with_login(Role::Operator, through(DbUser::Operator))
            .with_login(Role::Readonly, through(DbUser::Readonly))
            .behind_pooler(None)
    }
}

on_each_postgres! {
    async fn a_pooler_in_transaction_mode_may_stand_between_host_and_database(db: Db) {
        let bouncer = Bouncer::before(&db).await;
        let database = bouncer.database(&db);
        let payments: Vec<_> = (0..600)
            .map(|n| NewPayment {
                instruction_id: format!("i-{n}"),
                participant_id: format!("p-{}", n % 7),
                idempotency_key: "k".to_owned(),
                rail_type: "mock".to_owned(),
                payload: pay(["1.00", "1.17", "1.00", "1.23", "1.00", "1.13", "1.00", "1.00"][n % 8]).into(),
            })
            .collect();
        let ingest = Ingest::new(&database, 4);
        for batch in payments.chunks(50) {
            assert!(ingest.enqueue_batch(batch).await.expect("enqueued").iter().all(Result::is_ok));
        }
        for _ in 0..3 {
            ready::verify(&database, &[]).await.expect("a host may start on it");
        }
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("mock.toml"), RAIL).expect("written");
        let sandbox = Sandbox::new(&folder.path().join("compiled"), railhost_path(), rail::SandboxOptions::default()).expect("a sandbox");
        let host = Host::over(database, Arc::new(sandbox), folder.path(), RelayerOptions::default()).await;
        until_all_have_a_verdict(&db).await;
        host.drain().await;
        assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 525);
        assert_eq!(count(&db, "payment_outbox_attempts where state = 'FAILED'").await, 75);
        assert_eq!(count(&db, "payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await, 0);
    }
}
