//! The real binary and its rail files: what it records of them, how much memory they take, and how it ends while one of them is
//! compiled.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use std::{fs, thread};

use harness::adapter_rig::guest;
use harness::host::{count, enqueue_as, pay, until, until_all_have_a_verdict};
use harness::port::Port;
use harness::{Db, DbUser, PATIENCE, Pg, forged, railhost, scratch_folder};
use outbox::operate::{Operator, Reason};
use rail::builtin;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::Connection;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use verdict::digest::Digest;

const UNREACHABLE: &str = "postgres://nobody@127.0.0.1:1/none";
const MOCK: &str =
    "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n";
/// A host that drains takes no longer where nothing is in flight.
const DRAIN: Duration = Duration::from_secs(30);
/// What a host may grow by for a component of 24 MiB, which it has to read.
const GROWTH_MIB_MAX: u64 = 64;

/// The folder of a host, with its configuration and its rails.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("config/rails")).expect("a folder");
        Self(folder)
    }

    fn rails(&self) -> PathBuf {
        self.0.path().join("config/rails")
    }

    /// At once and as a whole: a host never sees half of a file.
    fn put(&self, name: impl AsRef<OsStr>, text: &str) {
        let draft = self.0.path().join("draft");
        fs::write(&draft, text).expect("written");
        fs::rename(draft, self.rails().join(name.as_ref()).with_extension("toml")).expect("renamed");
    }

    /// A rail with this component.
    fn put_component(&self, name: &str, component: &[u8]) {
        let digest = Digest::of(component);
        fs::write(self.rails().join(format!("{digest}.wasm")), component).expect("written");
        let pinned = format!("{digest}.wasm\"\nsha256 = \"{digest}");
        self.put(name, &MOCK.replace("builtin:mock", &pinned));
    }
}

/// A host in a process of its own.
struct Served {
    child: Child,
    files: Files,
    pages: Port,
    said: Arc<Mutex<String>>,
}

/// A test that fails leaves no host behind.
impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Served {
    fn start(url: &str, files: Files) -> Self {
        // The mock is compiled once for all of these hosts.
        static CACHE: OnceLock<PathBuf> = OnceLock::new();
        let (pages, cache) = (Port::reserve(), CACHE.get_or_init(|| scratch_folder("served-compiled")));
        let config = format!(
            "[relayer]\nlisten = \"127.0.0.1:{}\"\ndrain_seconds = {}\n[adapters]\ncache = {cache:?}\n",
            pages.number,
            DRAIN.as_secs()
        );
        fs::write(files.0.path().join("config/development.toml"), config).expect("written");
        let mut child = railhost()
            .current_dir(files.0.path())
            .env("DATABASE_URL", url)
            .env("RAILHOST_LOG", "info")
            .arg("serve")
            .stderr(Stdio::piped())
            .spawn()
            .expect("railhost runs");
        let (said, errors) = (Arc::<Mutex<String>>::default(), child.stderr.take().expect("it is piped"));
        let heard = said.clone();
        thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                heard.lock().expect("no panic").push_str(&(line + "\n"));
            }
        });
        Self { child, files, pages, said }
    }

    fn said(&self) -> String {
        self.said.lock().expect("no panic").clone()
    }

    async fn until_said(&self, words: &str, times: usize) {
        eventually(words, || self.said().matches(words).count() >= times).await;
    }

    /// Waits until a process compiles for it under its limits, and has that one stand still: it never ends by itself.
    async fn until_it_compiles(&self) -> Compiler {
        eventually("it compiles", || compiler_of(self.child.id()).is_some_and(is_limited)).await;
        let compiler = Compiler(compiler_of(self.child.id()).expect("it compiles for longer than that"));
        compiler.send(Signal::STOP);
        compiler
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    /// Its exit code, where it ends in time.
    async fn ends_within(&mut self, limit: Duration) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < limit {
            if let Some(status) = self.child.try_wait().expect("a status") {
                return status.code();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }

    /// A line of its status that ends in kB.
    fn memory_mib(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("procfs");
        let found = status.lines().find_map(|found| found.strip_prefix(line)?.strip_suffix(" kB"));
        found.expect("it is there").trim().parse::<u64>().expect("a number") / 1024
    }

    async fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.pages.number)).await.expect("connected");
        let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("asked");
        let mut page = String::new();
        stream.read_to_string(&mut page).await.expect("answered");
        page
    }

    async fn until_metric(&self, line: &str) {
        let patience = Instant::now();
        while !self.metrics().await.lines().any(|found| found == line) {
            assert!(patience.elapsed() < PATIENCE, "{line}\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn eventually(what: &str, fact: impl Fn() -> bool) {
    let patience = Instant::now();
    while !fact() {
        assert!(patience.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A process that compiles, ended with the test at the latest.
struct Compiler(Pid);

impl Drop for Compiler {
    fn drop(&mut self) {
        if self.lives() {
            // It may have ended this very moment.
            kill_process(self.0, Signal::KILL).ok();
        }
    }
}

impl Compiler {
    fn send(&self, signal: Signal) {
        kill_process(self.0, signal).expect("sent");
    }

    fn lives(&self) -> bool {
        compiles(self.0.as_raw_nonzero().get())
    }

    /// Nobody but the kernel may be left to end it, and that takes no time.
    async fn is_gone_within(&self, limit: Duration) -> bool {
        let began = Instant::now();
        while self.lives() && began.elapsed() < limit {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        !self.lives()
    }
}

/// One that ended and that nobody has noticed has no command line any more.
fn compiles(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| String::from_utf8_lossy(&line).contains("\0compile-component\0"))
}

/// It limits its files, to 16, after it has said that it ends with its host.
fn is_limited(compiler: Pid) -> bool {
    let limits =
        fs::read_to_string(format!("/proc/{}/limits", compiler.as_raw_nonzero())).unwrap_or_default();
    limits.lines().any(|line| line.starts_with("Max open files") && line.contains(" 16 "))
}

fn compiler_of(host: u32) -> Option<Pid> {
    let parent = format!("PPid:\t{host}");
    let is_child = |pid: i32| {
        fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| status.lines().any(|line| line == parent))
    };
    let processes = fs::read_dir("/proc").expect("procfs").flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| compiles(*pid) && is_child(*pid)).and_then(Pid::from_raw)
}

/// Rows that say what became of a rail.
fn loads(rail: &str, outcome: &str) -> String {
    format!(
        "operator_acts where act = 'load_rail' and target = '{rail}' and detail ->> 'outcome' = '{outcome}'"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_the_database_refuses_holds_up_no_later_record() {
    let db = Db::fresh(Pg::V18).await;
    let files = Files::new();
    files.put("one", MOCK);
    let host = Served::start(&db.url(), files);
    until(&db, &loads("one", "LOADED"), |rows| rows == 1).await;
    host.files.put("x".repeat(65), MOCK);
    host.until_said("refused; the rail continues unchanged", 1).await;
    host.files.put(OsStr::from_bytes(b"caf\xe9"), MOCK);
    host.until_said("refused; the rail continues unchanged", 2).await;
    host.files.put("one", &format!("{MOCK}# another text\n"));
    until(&db, &loads("one", "LOADED"), |rows| rows == 2).await;
    assert_eq!(count(&db, &loads("caf\u{fffd}", "REFUSED")).await, 1);
    host.until_said("cannot be recorded: invalid argument", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rail_that_is_refused_at_the_start_is_on_record() {
    let db = Db::fresh(Pg::V18).await;
    let files = Files::new();
    files.put("one", MOCK);
    files.put_component("two", b"not even wasm");
    let mut host = Served::start(&db.url(), files);
    assert_eq!(host.ends_within(PATIENCE).await, Some(64), "{}", host.said());
    assert_eq!(count(&db, &loads("two", "REFUSED")).await, 1);
    assert_eq!(count(&db, &loads("one", "LOADED")).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_became_of_a_rail_is_recorded_though_the_host_is_told_to_stop_meanwhile() {
    let db = Db::fresh(Pg::V18).await;
    let files = Files::new();
    files.put("one", MOCK);
    let mut host = Served::start(&db.url(), files);
    until(&db, &loads("one", "LOADED"), |rows| rows == 1).await;
    // Nothing can be written down for a while: one row is on its way, and one waits behind it.
    let mut owner = db.connect(DbUser::Superuser).await;
    let mut locked = owner.begin().await.expect("a transaction");
    sqlx::query("lock table symphony.operator_acts in share mode")
        .execute(&mut *locked)
        .await
        .expect("locked");
    for n in 1..=2 {
        host.files.put("one", &format!("{MOCK}# text {n}\n"));
        host.until_said("reloaded with the same component", n).await;
    }
    host.send(Signal::TERM);
    host.until_said("Draining", 1).await;
    locked.rollback().await.expect("unlocked");
    assert_eq!(host.ends_within(DRAIN).await, Some(0), "{}", host.said());
    assert_eq!(count(&db, &loads("one", "LOADED")).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_told_to_stop_while_it_compiles_its_first_component_ends_at_once() {
    let files = Files::new();
    files.put_component("one", &forged::nested_loops());
    let mut host = Served::start(UNREACHABLE, files);
    let compiler = host.until_it_compiles().await;
    host.send(Signal::TERM);
    assert_eq!(host.ends_within(DRAIN).await, Some(0), "{}", host.said());
    assert!(compiler.is_gone_within(DRAIN).await, "its compiler is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_drains_in_time_while_a_bomb_is_compiled() {
    let db = Db::fresh(Pg::V18).await;
    let files = Files::new();
    files.put("one", MOCK);
    let mut host = Served::start(&db.url(), files);
    host.until_said("ready after", 1).await;
    host.files.put_component("one", &forged::nested_loops());
    let compiler = host.until_it_compiles().await;
    enqueue_as(&db, "i", "one", &[pay("1.00")]).await;
    until_all_have_a_verdict(&db).await;
    host.send(Signal::TERM);
    assert_eq!(host.ends_within(DRAIN).await, Some(0), "{}", host.said());
    assert!(compiler.is_gone_within(DRAIN).await, "its compiler is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compiler_dies_with_its_host() {
    let files = Files::new();
    files.put_component("one", &forged::nested_loops());
    let host = Served::start(UNREACHABLE, files);
    let compiler = host.until_it_compiles().await;
    host.send(Signal::KILL);
    assert!(compiler.is_gone_within(DRAIN).await, "it compiles for nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bomb_that_is_swapped_in_makes_the_host_large_or_stops_it() {
    let db = Db::fresh(Pg::V18).await;
    let files = Files::new();
    files.put("one", MOCK);
    let mut host = Served::start(&db.url(), files);
    until(&db, &loads("one", "LOADED"), |rows| rows == 1).await;
    let before = host.memory_mib("VmRSS:");
    for bomb in [forged::nested_loops(), forged::empty_functions(), forged::huge_data()] {
        host.files.put_component("one", &bomb);
        // One that does compile traps when it is asked who it is.
        let refused = format!(
            "{} and detail ->> 'component_digest' = '{}' and why ~ ': (compiling it took|describe failed)'",
            loads("one", "REFUSED"),
            Digest::of(&bomb)
        );
        until(&db, &refused, |rows| rows == 1).await;
    }
    let growth = host.memory_mib("VmHWM:").saturating_sub(before);
    assert!(growth < GROWTH_MIB_MAX, "it grew by {growth} MiB");
    enqueue_as(&db, "i", "one", &[pay("1.00")]).await;
    until_all_have_a_verdict(&db).await;
    host.send(Signal::TERM);
    assert_eq!(host.ends_within(DRAIN).await, Some(0), "{}", host.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_has_one_sentence_for_each_bomb_and_goes_on() {
    let db = Db::fresh(Pg::V18).await;
    let files = Files::new();
    files.put("mock", MOCK);
    let bombs = [
        ("loops", forged::nested_loops()),
        ("functions", forged::empty_functions()),
        ("data", forged::huge_data()),
    ];
    for (name, bomb) in &bombs {
        files.put_component(name, bomb);
    }
    let mut check = railhost();
    check.current_dir(files.0.path()).env("DATABASE_URL", db.url()).arg("check");
    let output = check.output().expect("railhost runs");
    let [told, faults] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(output.status.code(), Some(64), "{told}{faults}");
    for (name, _) in &bombs {
        let begins = format!("railhost: fault: rail {name}: ");
        let said: Vec<_> = faults.lines().filter_map(|line| line.strip_prefix(&begins)).collect();
        let [sentence] = said[..] else { panic!("{name}: {faults}") };
        let known = ["compiling it took ", "describe failed: trapped: "];
        assert!(known.iter().any(|known| sentence.starts_with(known)), "{name}: {sentence}");
    }
    assert_eq!(faults.matches("railhost: fault: ").count(), bombs.len(), "{faults}");
    assert!(told.contains("mock: adapter"), "the sound one is looked at all the same: {told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rail_whose_component_is_revoked_shows_in_the_metrics_until_it_is_replaced() {
    let db = Db::fresh(Pg::V18).await;
    let files = Files::new();
    files.put("one", MOCK);
    let host = Served::start(&db.url(), files);
    host.until_said("ready after", 1).await;
    host.until_metric("rail_revoked{rail=\"one\"} 0").await;
    let mock = Digest::of(builtin::component("mock").expect("it is built in"));
    let reason = Reason { by: "ada".to_owned(), why: "a test".to_owned() };
    Operator::new(&db.database()).revoke_adapter(mock.as_bytes(), &reason).await.expect("revoked");
    host.until_metric("rail_revoked{rail=\"one\"} 1").await;
    host.files.put_component("one", &guest("keeps_state"));
    host.until_metric("rail_revoked{rail=\"one\"} 0").await;
}
