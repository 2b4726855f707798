//! A world to break: PostgreSQL, simulated rails and hosts, all real processes or servers, with wires between them that a test
//! can cut; and the three books by which it is judged afterwards. One seed decides everything that is left to chance.
//!
//! - [`wire`]: what everything goes through · [`host`]: a process of `railhost serve` · [`rails`]: simulators and their files
//! - [`audit`]: what was submitted, our tables, the rails' ledgers

mod audit;
mod host;
mod rails;
pub mod wire;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use dev::embedded::{Server, ServerOptions};
use fastrand::Rng;
use outbox::Database;
use outbox::enqueue::{Ingest, NewPayment};
use rail_simulators::Name;
use rustix::process::Signal;
use serde_json::Value;
use sqlx::{AssertSqlSafe, ConnectOptions};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toml::Table;
use uuid::Uuid;

pub use audit::Audit;
pub use host::HostProcess;
pub use rails::{SimulatedRail, Wanted, leave_out_question};

use crate::canary::{self, Canaries};
use crate::host::drains_patiently;
use crate::port::Port;
use crate::rail_run::set;
use crate::server::{scratch, scratch_folder};
use crate::{Db, DbUser, PATIENCE, Pg, railhost};
use wire::{Far, Mode, Wire};

const PARTICIPANTS: usize = 20;

/// A payment, as the one who submitted it remembers it.
#[derive(Debug, Clone)]
pub struct Owed {
    pub outbox_id: Uuid,
    /// The place of its rail.
    pub rail: usize,
    pub amount: String,
    /// As the rail writes it. Nobody else has the same.
    pub payee: String,
}

#[derive(Debug)]
pub struct World {
    pub seed: u64,
    pub rng: Rng,
    pub hosts: Vec<HostProcess>,
    pub rails: Vec<SimulatedRail>,
    pub db: Db,
    /// Its own server, where it may be killed.
    pub server: Option<Server>,
    pub owed: Vec<Owed>,
    pub folder: TempDir,
    clock_seconds: i64,
    /// Where the first host takes callbacks.
    callbacks: Port,
}

/// What a world is made of.
#[derive(Debug)]
pub struct Plan {
    pub seed: u64,
    pub hosts: usize,
    pub rails: Vec<Wanted>,
    /// A server of its own, of this version; otherwise a database of the one that all tests share.
    pub own_server: Option<Pg>,
    /// Further changes to every rail file.
    pub change: fn(&mut Table),
    /// Hosts keep every exchange, without secrets.
    pub recorded: bool,
}

impl Plan {
    pub fn new(seed: u64, rails: Vec<Wanted>) -> Self {
        Self { seed, hosts: 1, rails, recorded: false, own_server: None, change: |_| {} }
    }
}

impl World {
    /// All is there, and no host runs yet.
    pub async fn build(plan: Plan) -> Self {
        let (server, db) = match plan.own_server {
            None => (None, Db::fresh(Pg::V18).await),
            Some(pg) => {
                let folder = scratch_folder("world");
                let options = ServerOptions { major: Some(pg.major()), ..ServerOptions::throwaway(folder) };
                let server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
                let db = Db::on(pg, server.connect_options()).await;
                (Some(server), db)
            }
        };
        Self::over(plan, server, db).await
    }

    /// The same on a database that is there already.
    pub async fn over(plan: Plan, server: Option<Server>, db: Db) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let rails_folder = folder.path().join("config/rails");
        fs::create_dir_all(&rails_folder).expect("a folder");
        rails::copy_secrets(&rails_folder);
        let callbacks = Port::reserve();
        let mut rails = Vec::new();
        for wanted in &plan.rails {
            let change = |file: &mut Table| {
                if wanted.kind == Name::Mtn {
                    let url = format!("http://127.0.0.1:{}/callbacks/{}", callbacks.number, wanted.name);
                    set(file, "settings", "callback_url", url);
                }
                (plan.change)(file);
            };
            rails.push(SimulatedRail::start(wanted, plan.seed, &rails_folder, change).await);
        }
        let mut hosts = Vec::new();
        for number in 0..plan.hosts {
            // A callback is heard by the first host, or by nobody.
            let hears = if number == 0 {
                format!("[callbacks]\nlisten = \"127.0.0.1:{}\"\n", callbacks.number)
            } else {
                String::new()
            };
            let pages = Port::reserve();
            let record_to = plan.recorded.then(|| folder.path().join(RECORDED));
            fs::write(
                folder.path().join(format!("config/host-{number}.toml")),
                config(pages.number, record_to.as_deref(), &hears),
            )
            .expect("written");
            let wire = Wire::to_postgres(upstream(&db)).await;
            let url = through(&db, wire.port);
            hosts.push(HostProcess::new(folder.path(), number, wire, url, pages));
        }
        let world = Self {
            seed: plan.seed,
            rng: Rng::with_seed(plan.seed),
            hosts,
            rails,
            db,
            server,
            owed: Vec::new(),
            folder,
            clock_seconds: 0,
            callbacks,
        };
        world.tell_the_database_of_its_rails();
        world
    }

    fn tell_the_database_of_its_rails(&self) {
        let told = railhost()
            .current_dir(self.folder.path())
            .env("RAILHOST_CONFIG", self.folder.path().join("config/host-0.toml"))
            .env("DATABASE_URL", self.db.url())
            .arg("migrate")
            .output()
            .expect("railhost runs");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    }

    pub fn start_hosts(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.start(&[]));
    }

    /// Submits payments to a rail, one for each amount, and repeats itself until it has an answer.
    pub async fn owe(&mut self, rail: usize, amounts: &[String]) {
        let first = self.owed.len();
        let numbered = amounts.iter().enumerate();
        let (payments, payees): (Vec<_>, Vec<_>) =
            numbered.map(|(n, amount)| self.payment(rail, first + n, amount)).unzip();
        let ids = self.submit(&payments).await;
        let owed = ids.into_iter().zip(amounts.iter().cloned()).zip(payees);
        self.owed.extend(owed.map(|((outbox_id, amount), payee)| Owed { outbox_id, rail, amount, payee }));
        if self.rng.u8(..) < 26 {
            let again = self.submit(&payments).await;
            assert!(
                again.iter().eq(self.owed[first..].iter().map(|owed| &owed.outbox_id)),
                "a replay is another payment"
            );
        }
    }

    /// Submits the last ones once more, from several sides at once.
    pub async fn submit_again(&mut self, count: usize) {
        let last = &self.owed[self.owed.len().saturating_sub(count)..];
        let first = self.owed.len() - last.len();
        let payments: Vec<_> = last
            .iter()
            .enumerate()
            .map(|(n, owed)| self.payment(owed.rail, first + n, &owed.amount).0)
            .collect();
        let (one, other) = tokio::join!(self.submit(&payments), self.submit(&payments));
        let known: Vec<_> = last.iter().map(|owed| owed.outbox_id).collect();
        assert!(one == known && other == known, "a replay is another payment");
    }

    /// Callbacks from somebody who guesses.
    pub async fn forge_callbacks(&mut self, count: usize) {
        for owed in self.owed.iter().rev().take(count) {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.callbacks.number)).await else {
                return;
            };
            let path =
                format!("/callbacks/{}/{}/{}", self.rails[owed.rail].name, owed.outbox_id, "ab".repeat(32));
            let request =
                format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            if stream.write_all(request.as_bytes()).await.is_err() {
                return;
            }
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await.ok();
            assert!(!reply.contains("200 OK"), "a forged callback was taken");
        }
    }

    /// The payment with this number, and how its rail writes the payee.
    fn payment(&self, rail: usize, number: usize, amount: &str) -> (NewPayment, String) {
        let (payload, payee) = rails::payload(self.rails[rail].kind, number, amount);
        let payment = NewPayment {
            instruction_id: format!("world-{}-{number}", self.seed),
            participant_id: format!("participant-{}", number % PARTICIPANTS),
            idempotency_key: "k".to_owned(),
            rail_type: self.rails[rail].name.clone(),
            payload: payload.into(),
        };
        (payment, payee)
    }

    async fn submit(&self, payments: &[NewPayment]) -> Vec<Uuid> {
        let ingest = Ingest::new(&self.database(), 1);
        let began = Instant::now();
        loop {
            match ingest.enqueue_batch(payments).await {
                Ok(accepted) => {
                    return accepted.into_iter().map(|answer| answer.expect("accepted").outbox_id).collect();
                }
                Err(error) => assert!(began.elapsed() < PATIENCE, "not accepted: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn database(&self) -> Database {
        self.db.database()
    }

    /// Moves the database's clock, on top of where it is.
    pub async fn move_clock(&mut self, seconds: i64) {
        self.clock_seconds += seconds;
        self.db.move_clock(&format!("{} seconds", self.clock_seconds)).await;
    }

    /// Undoes every fault and sees that all hosts run.
    pub async fn heal(&mut self) {
        for rail in &self.rails {
            rail.wire.set(Mode::Through);
        }
        if let Some(server) = &mut self.server {
            server.thaw().expect("thawed");
            if server.pid().is_none() {
                server.restart().await.expect("it is back");
            }
        }
        for host in &mut self.hosts {
            host.wire.set(Mode::Through);
            host.wire.disarm();
            host.thaw();
            if !host.is_up() {
                host.start(&[]);
            }
        }
    }

    /// Waits until every payment has its verdict. Answers how many have not.
    pub async fn converge(&mut self, within: Duration) -> i64 {
        let began = Instant::now();
        loop {
            let open = self.count("payment_outbox_pending").await;
            if open == 0 || began.elapsed() > within {
                return open;
            }
            for host in &mut self.hosts {
                if !host.is_up() {
                    host.start(&[]);
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends the hosts as an operator would. Answers whether each of them ended well.
    pub async fn drain(&mut self) -> bool {
        let mut well = true;
        for host in &mut self.hosts {
            host.serves().await;
            host.keep_metrics().await;
            host.send(Signal::TERM);
        }
        for host in &mut self.hosts {
            if host.is_up() {
                well &= host.ended().await.is_some_and(|status| status.code() == Some(0));
            }
        }
        well
    }

    /// Waits for a fact, and not for ever.
    pub async fn until(&self, what: &str, fact: impl Fn(i64) -> bool) {
        let began = Instant::now();
        loop {
            let found = self.count(what).await;
            if fact(found) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{what}: {found}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How many rows of the outbox there are of a kind.
    pub async fn count(&self, what: &str) -> i64 {
        let mut owner = self.db.connect(DbUser::Superuser).await;
        sqlx::query_scalar(AssertSqlSafe(format!("select count(*) from symphony.{what}")))
            .fetch_one(&mut owner)
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Secrets that show in what was left behind: tables, logs, metrics, recorded exchanges.
    pub async fn leaked(&self) -> Vec<String> {
        let canaries = Canaries::of(self, &self.folder.path().join("config/rails/simulated"));
        assert!(!canaries.is_empty(), "nothing is looked for");
        let mut places = canary::tables(&self.db).await;
        places.extend(canary::files(&self.folder.path().join(RECORDED)));
        for host in &self.hosts {
            places.push((host.log.display().to_string(), fs::read(&host.log).unwrap_or_default()));
            places.push(("metrics".to_owned(), host.metrics.clone().into_bytes()));
        }
        canaries.found(&places)
    }

    /// Has every recorded exchange judged again by another process. How many there were, and those that came to something else.
    pub fn judged_again(&self) -> (u64, Vec<String>) {
        let (mut judged, mut otherwise) = (0, Vec::new());
        for rail in &self.rails {
            let recorded = self.folder.path().join(RECORDED).join(format!("{}.jsonl", rail.name));
            if !recorded.exists() {
                continue;
            }
            let component = self.folder.path().join(format!("{}.wasm", rail.kind));
            let done =
                railhost().args(["plugin", "extract", rail.kind.as_str(), "--out"]).arg(&component).output();
            assert!(done.as_ref().is_ok_and(|done| done.status.success()), "{done:?}");
            let file = self.folder.path().join(format!("config/rails/{}.toml", rail.name));
            let mut replay = railhost();
            replay.args(["--json", "plugin", "replay"]).arg(&component).arg("--rail").arg(file);
            let done = replay.arg("--exchanges").arg(&recorded).output().expect("railhost runs");
            let told: Value = serde_json::from_slice(&done.stdout)
                .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&done.stderr)));
            judged += told["judged"].as_u64().expect("a number");
            let changed = told["changed"].as_array().expect("a list");
            otherwise.extend(changed.iter().map(|changed| format!("{}: {changed}", rail.name)));
        }
        (judged, otherwise)
    }

    /// The three books, compared.
    pub async fn audit(&self) -> Audit {
        Audit::of(self).await
    }

    /// Changes a rail file before a host reads it.
    pub fn change_rail(&self, rail: usize, change: impl FnOnce(&mut Table)) {
        let file = self.folder.path().join(format!("config/rails/{}.toml", self.rails[rail].name));
        let mut table: Table = fs::read_to_string(&file).expect("a rail file").parse().expect("TOML");
        change(&mut table);
        fs::write(&file, table.to_string()).expect("written");
    }

    /// Waits until a metric of a host says so, and not for ever.
    pub async fn until_metric(&mut self, host: usize, name: &str, fact: impl Fn(f64) -> bool) {
        let began = Instant::now();
        loop {
            let found = self.hosts[host].metric(name).await;
            if found.is_some_and(&fact) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{name}: {found:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Rewrites a rail file, so that every host swaps its component.
    pub fn touch_rail(&mut self, rail: usize) {
        let file = self.folder.path().join(format!("config/rails/{}.toml", self.rails[rail].name));
        let mut table: Table = fs::read_to_string(&file).expect("a rail file").parse().expect("TOML");
        let cpu_ms = 200 + i64::from(self.rng.u8(..));
        set(&mut table, "limits", "cpu_ms", cpu_ms);
        let new = file.with_extension("new");
        fs::write(&new, table.to_string()).expect("written");
        fs::rename(&new, &file).expect("in place");
    }

    /// Secrets that must not be found anywhere.
    pub fn secrets(&self) -> Vec<String> {
        let folder = self.folder.path().join("config/rails/simulated");
        let secrets = fs::read_dir(folder).expect("secrets").map(|file| file.expect("a file").path());
        secrets
            .filter(|path| path.extension().is_none())
            .map(|path| fs::read_to_string(path).expect("a secret").trim().to_owned())
            .filter(|secret| secret.len() >= SECRET_CHARS_MIN)
            .collect()
    }
}

/// Shorter ones are found by chance.
const SECRET_CHARS_MIN: usize = 8;

/// Where hosts keep exchanges.
const RECORDED: &str = "recorded";

fn config(pages: u16, record_to: Option<&Path>, more: &str) -> String {
    let record_to = record_to.map(|folder| format!("record_to = {folder:?}\n")).unwrap_or_default();
    let cache = scratch().join("worlds-compiled");
    fs::create_dir_all(&cache).expect("a folder");
    format!(
        "[adapters]\ncache = \"{}\"\n[relayer]\nlisten = \"127.0.0.1:{pages}\"\n{record_to}{}{more}",
        cache.display(),
        drains_patiently()
    )
}

fn upstream(db: &Db) -> Far {
    let server = db.options(DbUser::Superuser);
    match server.get_socket() {
        Some(folder) => Far::Unix(Path::new(folder).join(format!(".s.PGSQL.{}", server.get_port()))),
        None => Far::Tcp(format!("{}:{}", server.get_host(), server.get_port()).parse().expect("an address")),
    }
}

/// The same database through a wire.
fn through(db: &Db, port: u16) -> String {
    let mut url = db.options(DbUser::Superuser).to_url_lossy();
    url.set_query(Some("sslmode=disable"));
    url.set_host(Some("127.0.0.1")).expect("a host");
    url.set_port(Some(port)).expect("a port");
    url.to_string()
}

/// What a row of the outbox is, as text: for looking at everything.
pub(crate) async fn all_text(db: &Db) -> String {
    let mut owner = db.connect(DbUser::Superuser).await;
    let tables: Vec<String> = sqlx::query_scalar(
        "select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = 'symphony' and c.relkind = 'r'",
    )
    .fetch_all(&mut owner)
    .await
    .expect("tables");
    let mut text = String::new();
    for table in tables {
        let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(format!("select t::text from {table} t")))
            .fetch_all(&mut owner)
            .await
            .expect("rows");
        text += &rows.join("\n");
    }
    text
}
