//! Hosts at work on a test's database: in this process, or as the real binary in one of its own.

use std::fs;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use faults::{self, Guard, LEFT_OUT};
use observe::Registry;
use outbox::Database;
use outbox::enqueue::{Ingest, NewPayment};
use outbox::operate::{Operator, RailFacts, Reason};
use rail::{self, Rails, Reloaded, Rules, Sandbox};
use relayer::{self, Metrics, RelayerOptions, RunError};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::port::Port;
use crate::server::scratch;
use crate::{Db, DbUser, PATIENCE, railhost, railhost_path};

/// A mock rail, and what it answers by amount. Its calls and leases last longer than any machine takes for one of these answers.
pub const RAIL: &str = r#"
kind = "mock"
component = "builtin:mock"
idempotent = true
hand_over_marks = false
timeouts = { call_ms = 20000 }

[pace]
lease_seconds = 45
retry = { base_ms = 10, factor = 1, cap_ms = 10 }
query = { base_ms = 10, factor = 1, cap_ms = 10 }
reconcile_seconds = 0

[codes]
version = 1
rows = [
  { operation = "disburse", field = "code", code = "NO_PAYEE", class = "terminal" },
  { operation = "disburse", field = "code", code = "BUSY", class = "retryable" },
  { operation = "disburse", field = "code", code = "FLOAT_EMPTY", class = "hold" },
]

[settings]
script = """
amount *.13: declined NO_PAYEE
amount *.14: declined NEVER_SEEN
amount *.17: unclear TIMEOUT, settled
amount *.19: pending, pending, settled
amount *.23: not-sent, settled
amount *.29: declined BUSY
amount *.31: pending
amount *.37: declined FLOAT_EMPTY, delay 300 settled
amount *.50: delay 300 settled
amount *.80: delay 800 settled
otherwise: settled
"""
"#;

/// The same with calls and leases that end within a test. For tests of their ends alone: on a busy machine they end early.
pub fn short() -> String {
    let rail =
        RAIL.replace("call_ms = 20000", "call_ms = 1000").replace("lease_seconds = 45", "lease_seconds = 9");
    assert!(rail.contains("call_ms = 1000") && rail.contains("lease_seconds = 9"), "{rail}");
    rail
}

/// Where a host says it.
const SAID: &str = "said.txt";

pub const HOUR: Duration = Duration::from_secs(3600);

/// A host in this process.
#[derive(Debug)]
pub struct Host {
    _folder: Option<TempDir>,
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<usize, RunError>>,
    pub metrics: Arc<Metrics>,
    sandbox: Arc<Sandbox>,
    rails: Arc<Rails>,
}

impl Host {
    pub async fn start(db: &Db, options: RelayerOptions) -> Self {
        Self::with_rails(db, &[("mock", RAIL)], options).await
    }

    /// With the given rails, by name and file.
    pub async fn with_rails(db: &Db, rails: &[(&str, &str)], options: RelayerOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in rails {
            fs::write(folder.path().join(format!("{name}.toml")), text).expect("written");
        }
        let sandbox =
            Sandbox::new(&scratch().join("compiled"), railhost_path(), rail::SandboxOptions::default())
                .expect("a sandbox");
        let host = Self::over(db.database(), Arc::new(sandbox), folder.path(), options).await;
        Self { _folder: Some(folder), ..host }
    }

    /// With the rails of a folder.
    ///
    /// All call slots of a rail are taken from the start, or no test could look at many payments at a time. What is in flight may take
    /// as long as any fact when it is told to stop.
    pub async fn over(
        database: Database,
        sandbox: Arc<Sandbox>,
        folder: &Path,
        options: RelayerOptions,
    ) -> Self {
        faults::leave_out(Guard::BeginsWithOne);
        let options = RelayerOptions { drain: options.drain.max(PATIENCE), ..options };
        let (events, _) = mpsc::unbounded_channel();
        let rails = Rails::load(&sandbox, folder, Rules::default(), events).await.expect("they load");
        let rails = Arc::new(rails);
        let (stop, stopped) = watch::channel(false);
        let metrics = Arc::new(Metrics::new(&Registry::default()).expect("metrics"));
        let (counted, engine, served) = (metrics.clone(), sandbox.clone(), rails.clone());
        let running =
            tokio::spawn(
                async move { relayer::run(&database, engine, served, counted, options, stopped).await },
            );
        Self { _folder: None, stop, running, metrics, sandbox, rails }
    }

    /// Looks at its rail files again; all of them are sound.
    pub async fn reload(&self) {
        let looked = self.rails.reload(&self.sandbox).await.expect("a folder");
        let refused: Vec<_> =
            looked.iter().filter(|(_, done)| matches!(done, Reloaded::Refused(_))).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }

    pub async fn drain(self) {
        self.stop.send_replace(true);
        assert_eq!(self.running.await.expect("it ran").expect("it drained"), 0, "nothing is left in flight");
    }

    /// The value of one line of its metrics, 0 where it is not there.
    pub fn metric(&self, line: &str) -> f64 {
        let text = self.metrics.text().expect("metrics");
        let value = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// Waits until one line of its metrics says so, and not for ever.
    pub async fn until_metric(&self, line: &str, fact: impl Fn(f64) -> bool) {
        let patience = Instant::now();
        while !fact(self.metric(line)) {
            assert!(patience.elapsed() < PATIENCE, "{line}: {}", self.metric(line));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A host in a process of its own.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pages: Option<Port>,
    folder: TempDir,
}

/// A test that fails leaves no host behind.
impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Process {
    pub fn start(db: &Db) -> Self {
        Self::with(db, RAIL, "", &[])
    }

    /// With its own rail, further configuration and environment. What it says is kept where RAILHOST_LOG is set. All call slots of
    /// its rail are taken from the start, unless the environment says what is left out. It may drain for as long as any fact takes,
    /// unless the configuration speaks of the relayer.
    pub fn with(db: &Db, rail: &str, config: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("config/rails")).expect("a folder");
        fs::write(folder.path().join("config/rails/mock.toml"), rail).expect("written");
        let config = match config.contains("[relayer]") {
            true => config.to_owned(),
            false => format!("{config}\n[relayer]\n{}", drains_patiently()),
        };
        fs::write(folder.path().join("config/development.toml"), config).expect("written");
        // Of a mock the database need not know anything.
        if !rail.contains("kind = \"mock\"") {
            let mut migrate = railhost();
            let told =
                migrate.current_dir(folder.path()).env("DATABASE_URL", db.url()).arg("migrate").output();
            assert!(told.expect("railhost runs").status.success(), "the database is told of the rail");
        }
        let heard = environment.iter().any(|(name, _)| *name == "RAILHOST_LOG");
        let child = railhost()
            .current_dir(folder.path())
            .env("DATABASE_URL", db.url())
            .env(LEFT_OUT, format!("{:?}", Guard::BeginsWithOne))
            .envs(environment.iter().copied())
            .arg("serve")
            .stderr(match heard {
                true => fs::File::create(folder.path().join(SAID)).expect("a file").into(),
                false => Stdio::inherit(),
            })
            .spawn()
            .expect("railhost runs");
        Self { child, pages: None, folder }
    }

    /// With its own rail, and with pages.
    pub fn serving(db: &Db, rail: &str) -> Self {
        Self::serving_with(db, rail, &drains_patiently())
    }

    /// And with more in the section of the relayer.
    pub fn serving_with(db: &Db, rail: &str, relayer: &str) -> Self {
        let pages = Port::reserve();
        let config = format!("[relayer]\nlisten = \"127.0.0.1:{}\"\n{relayer}", pages.number);
        let mut process = Self::with(db, rail, &config, &[]);
        process.pages = Some(pages);
        process
    }

    /// The port of its pages.
    pub fn pages(&self) -> u16 {
        self.pages.as_ref().expect("it was started with pages").number
    }

    /// The status and the text of one of its pages; status 0 while nobody listens.
    pub async fn page(&self, path: &str) -> (u16, String) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.pages())).await else {
            return (0, String::new());
        };
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("asked");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.expect("answered");
        let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, reply.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    /// Waits until one of its pages says so, and not for ever.
    pub async fn until_page(&self, path: &str, fact: impl Fn(&str) -> bool) {
        let patience = Instant::now();
        loop {
            let (_, text) = self.page(path).await;
            if fact(&text) {
                return;
            }
            assert!(patience.elapsed() < PATIENCE, "{path}: {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    pub fn end(mut self, signal: Signal) -> Option<i32> {
        self.send(signal);
        self.child.wait().expect("reaped").code()
    }

    /// A rail file, while it runs.
    pub fn put_rail(&self, name: &str, text: &str) {
        let rails = self.folder.path().join("config/rails");
        fs::write(rails.join(format!("{name}.new")), text).expect("written");
        fs::rename(rails.join(format!("{name}.new")), rails.join(format!("{name}.toml"))).expect("there");
    }

    /// What it said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join(SAID)).expect("it is kept")
    }

    /// Waits until it says so, and not for ever.
    pub async fn until_it_says(&self, words: &str) {
        let patience = Instant::now();
        while !self.said().contains(words) {
            assert!(patience.elapsed() < PATIENCE, "it says\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until it ends, and answers with what it said.
    pub fn wait_and_hear(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("reaped");
        (status, self.said())
    }
}

/// For the section of the relayer in a host's configuration.
pub(crate) fn drains_patiently() -> String {
    format!("drain_seconds = {}\n", PATIENCE.as_secs())
}

pub fn pay(amount: &str) -> Value {
    json!({ "amount": amount, "currency": "ZMW", "destination": { "msisdn": "260961234567" } })
}

/// Payments of five participants over the rail `mock`, named after their place.
pub async fn enqueue(db: &Db, payloads: &[Value]) {
    enqueue_as(db, "i", "mock", payloads).await;
}

pub async fn enqueue_as(db: &Db, name: &str, rail: &str, payloads: &[Value]) {
    let payments: Vec<_> = payloads
        .iter()
        .enumerate()
        .map(|(n, payload)| NewPayment {
            instruction_id: format!("{name}-{n}"),
            participant_id: format!("p-{}", n % 5),
            idempotency_key: "k".to_owned(),
            rail_type: rail.to_owned(),
            payload: payload.clone().into(),
        })
        .collect();
    for payments in payments.chunks(5_000) {
        let accepted = Ingest::new(&db.database(), 1).enqueue_batch(payments).await.expect("enqueued");
        assert!(accepted.iter().all(Result::is_ok));
    }
}

/// Payments of one participant over the rail `mock`.
pub async fn enqueue_of(db: &Db, participant: &str, payloads: &[Value]) {
    let payments: Vec<_> = payloads
        .iter()
        .enumerate()
        .map(|(n, payload)| NewPayment {
            instruction_id: format!("{participant}-{n}"),
            participant_id: participant.to_owned(),
            idempotency_key: "k".to_owned(),
            rail_type: "mock".to_owned(),
            payload: payload.clone().into(),
        })
        .collect();
    let accepted = Ingest::new(&db.database(), 1).enqueue_batch(&payments).await.expect("enqueued");
    assert!(accepted.iter().all(Result::is_ok));
}

/// Tells the database of the rail `mock`, with its rate for all hosts together.
pub async fn configure(db: &Db, rate: Option<(i32, i32)>) {
    configure_rail(db, "mock", rate).await;
}

/// The same for a mock of another name.
pub async fn configure_rail(db: &Db, rail: &str, rate: Option<(i32, i32)>) {
    let facts = RailFacts {
        rail_type: rail.to_owned(),
        deduplicates: true,
        hand_over_marks: false,
        sla_seconds: None,
        rate,
        key_forms: None,
    };
    let reason = Reason { by: "test".to_owned(), why: "test".to_owned() };
    Operator::new(&db.database()).configure_rail(&facts, &reason).await.expect("configured");
}

/// A number that the database tells.
pub async fn number(db: &Db, sql: &str) -> i64 {
    let mut owner = db.connect(DbUser::Superuser).await;
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql.to_owned())).fetch_one(&mut owner).await.expect("a number")
}

/// The most claims that lie within one second.
pub async fn most_claims_within_a_second(db: &Db) -> i64 {
    number(
        db,
        "select max(beside)
           from (select count(*) over (order by claimed_at range between current row and '1 second' following) as beside
                   from symphony.payment_outbox_attempts) as windows",
    )
    .await
}

pub async fn count(db: &Db, what: &str) -> i64 {
    number(db, &format!("select count(*) from symphony.{what}")).await
}

/// Waits for a fact, and not for ever.
pub async fn until(db: &Db, what: &str, fact: impl Fn(i64) -> bool) {
    until_number(db, &format!("select count(*) from symphony.{what}"), fact).await;
}

/// The same for any number that the database tells.
pub async fn until_number(db: &Db, sql: &str, fact: impl Fn(i64) -> bool) {
    let patience = Instant::now();
    loop {
        let found = number(db, sql).await;
        if fact(found) {
            return;
        }
        assert!(patience.elapsed() < PATIENCE, "{sql}: {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub async fn until_all_have_a_verdict(db: &Db) {
    until(db, "payment_outbox_pending", |rows| rows == 0).await;
}
