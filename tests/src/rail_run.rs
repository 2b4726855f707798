//! A simulated rail, a host that pays over it by the rail's own file, and what came of it in both books.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use form::{CodeTable, Meaning, Operation, Row};
use observe::Registry;
use payment::{KeyForm, RailKey};
use rail::definition::Definition;
use rail::{self, Rails, Rules, Sandbox};
use rail_simulators::{Audit, Booked, Entry, Name, Simulator, SimulatorOptions};
use relayer::{Metrics, callbacks};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use toml::{Table, Value as Toml};
use uuid::Uuid;

use crate::host::{Host, count, enqueue_as, number};
use crate::server::scratch;
use crate::sql::run;
use crate::{Db, DbUser, PATIENCE, Pg, railhost_path};

/// Pauses that a test can wait for, and deadlines that a busy machine does not come to; everything else is as the rail file has
/// it.
const QUICK: &str = r#"
timeouts = { call_ms = 20000, first_byte_ms = 15000, idle_ms = 15000, connect_ms = 15000 }
pace = { lease_seconds = 45, concurrency = 64, reconcile_seconds = 0, visibility_seconds = 0, retry = { base_ms = 100, factor = 1, cap_ms = 100 }, query = { base_ms = 150, factor = 1, cap_ms = 150 }, breaker = { calls_min = 20, failed_percent = 100, open_ms = 100 } }
"#;

/// Payments that the rail does not know and that may have left less than a call's whole time ago: until that is over they are not
/// sent again. None while a lease could not bear that the clock moves.
const TOO_EARLY_TO_SEND: &str = "
    select count(*)
      from symphony.payment_outbox_pending p
     where p.lease_token is null
       and (select a.error_code
              from symphony.payment_outbox_attempts a
             where a.outbox_id = p.outbox_id
             order by a.attempt_no desc
             limit 1) = 'NOT_FOUND'
       and (select max(a.completed_at)
              from symphony.payment_outbox_attempts a
             where a.outbox_id = p.outbox_id and a.error_code = 'OUTCOME_UNKNOWN')
           > symphony.clock() - interval '21 seconds'
       and not exists (select 1
                         from symphony.payment_outbox_pending l
                        where l.lease_token is not null
                          and l.lease_expires_at < symphony.clock() + interval '35 seconds')";
/// By which it is over: a second more than a call of these rails may last, and less than half of a lease.
const QUIET_SECONDS: i64 = 21;

pub struct RailRun {
    pub db: Db,
    pub simulator: Simulator,
    rail: Name,
    pub host: Host,
    /// How far the outbox's clock is ahead.
    ahead_seconds: AtomicI64,
    /// Where callbacks are taken, if they are.
    pub callbacks: Option<JoinHandle<std::convert::Infallible>>,
    _folder: TempDir,
}

impl std::fmt::Debug for RailRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RailRun").field("rail", &self.rail).finish_non_exhaustive()
    }
}

/// How a payment ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub outbox_id: Uuid,
    pub state: String,
    pub money_moved: String,
    pub rail_code: Option<String>,
    pub message: Option<String>,
    /// The error codes of all attempts, in their order.
    pub attempts: Vec<Option<String>>,
    /// How often the rail paid.
    pub executions: u32,
    /// Requests to pay that reached the rail.
    pub requests: u32,
}

/// The folder of the project's own rail files.
pub fn rails_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/rails")
}

/// The table of a rail's own file.
pub fn table(rail: Name) -> CodeTable {
    let definition = Definition::load(&rails_folder().join(format!("{rail}.toml"))).expect("a rail file");
    definition.file.codes
}

/// The codes of a field that mean this, for an operation.
pub fn codes(rail: Name, operation: Operation, field: &str, class: Meaning) -> Vec<String> {
    let fits = |row: &Row| (row.operation, row.field.as_str(), row.class) == (operation, field, class);
    table(rail).rows.into_iter().filter(fits).map(|row| row.code).collect()
}

/// A payment that the rail's `validate` has nothing against.
pub fn payment(rail: Name, amount: &str) -> Value {
    let destination = match rail {
        Name::Mtn => json!({ "msisdn": "260961234567" }),
        Name::Airtel => json!({ "msisdn": "260971234567" }),
        Name::Bank => json!({ "account": "9876543210987", "bank_code": "210003", "name": "Payee" }),
    };
    json!({ "amount": amount, "currency": "ZMW", "destination": destination })
}

impl RailRun {
    pub async fn start(rail: Name, script: &str) -> Self {
        Self::with(SimulatorOptions::new(rail).script(script), |_| {}).await
    }

    /// With a simulator of its own kind and changes to the rail file.
    pub async fn with(options: SimulatorOptions, change: impl FnOnce(&mut Table)) -> Self {
        let file = rails_folder().join(format!("{}.toml", options.rail));
        Self::of_file(&file, options, change).await
    }

    /// With another file than the project's own.
    pub async fn of_file(path: &Path, options: SimulatorOptions, change: impl FnOnce(&mut Table)) -> Self {
        Self::started(path, options, |_| {}, change).await
    }

    /// With something done to the simulator before the host begins.
    pub async fn before(
        options: SimulatorOptions,
        first: impl FnOnce(&Simulator),
        change: impl FnOnce(&mut Table),
    ) -> Self {
        let file = rails_folder().join(format!("{}.toml", options.rail));
        Self::started(&file, options, first, change).await
    }

    async fn started(
        path: &Path,
        options: SimulatorOptions,
        first: impl FnOnce(&Simulator),
        change: impl FnOnce(&mut Table),
    ) -> Self {
        let rail = options.rail;
        let simulator = Simulator::start(options).await.expect("a simulator");
        first(&simulator);
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("simulated")).expect("a folder");
        for secret in fs::read_dir(rails_folder().join("simulated")).expect("secrets") {
            let secret = secret.expect("a file");
            fs::copy(secret.path(), folder.path().join("simulated").join(secret.file_name()))
                .expect("copied");
        }
        let file = folder.path().join(format!("{rail}.toml"));
        fs::write(&file, rail_file_at(path, &simulator.base(), change)).expect("written");

        let db = Db::fresh(Pg::V18).await;
        let sandbox = Arc::new(
            Sandbox::new(&scratch().join("compiled"), railhost_path(), rail::SandboxOptions::default())
                .expect("a sandbox"),
        );
        let host =
            Host::over(db.database(), sandbox, folder.path(), relayer::RelayerOptions::default()).await;
        Self { db, simulator, rail, host, ahead_seconds: AtomicI64::new(0), callbacks: None, _folder: folder }
    }

    /// Changes the rail file, and has the host take it up.
    pub async fn change(&self, change: impl FnOnce(&mut Table)) {
        let path = self._folder.path().join(format!("{}.toml", self.rail));
        let mut file: Table = fs::read_to_string(&path).expect("a file").parse().expect("TOML");
        change(&mut file);
        fs::write(&path, file.to_string()).expect("written");
        self.host.reload().await;
    }

    /// Takes callbacks on a listener, as `serve` does.
    #[must_use]
    pub async fn taking_callbacks(mut self, listener: TcpListener) -> Self {
        let sandbox =
            Sandbox::new(&scratch().join("compiled"), railhost_path(), rail::SandboxOptions::default());
        let sandbox = Arc::new(sandbox.expect("a sandbox"));
        let (events, _) = mpsc::unbounded_channel();
        let rails = Rails::load(&sandbox, self._folder.path(), Rules::default(), events).await;
        let rails = Arc::new(rails.expect("they load"));
        let (database, metrics) =
            (self.db.database(), Arc::new(Metrics::new(&Registry::default()).expect("metrics")));
        self.callbacks = Some(tokio::spawn(async move {
            callbacks::serve(listener, &database, sandbox, rails, metrics).await
        }));
        self
    }

    pub async fn pay(&self, payments: &[Value]) {
        enqueue_as(&self.db, "i", self.rail.as_str(), payments).await;
    }

    /// Waits for all verdicts. What may be sent again only after a call's whole time is not waited for: the clock moves on instead.
    pub async fn until_all_have_a_verdict(&self) {
        let patience = Instant::now();
        loop {
            let open = count(&self.db, "payment_outbox_pending").await;
            if open == 0 {
                return;
            }
            assert!(patience.elapsed() < PATIENCE, "{open} payments have no verdict");
            if number(&self.db, TOO_EARLY_TO_SEND).await > 0 {
                let ahead = self.ahead_seconds.fetch_add(QUIET_SECONDS, Ordering::Relaxed) + QUIET_SECONDS;
                self.db.move_clock(&format!("{ahead} seconds")).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Has all that wait asked about now, and again, until each has its verdict. For rails that [`ask_nobody`].
    pub async fn ask_until_all_have_a_verdict(&self) {
        let (mut owner, patience) = (self.db.connect(DbUser::Superuser).await, Instant::now());
        loop {
            let open = count(&self.db, "payment_outbox_pending").await;
            if open == 0 {
                return;
            }
            assert!(patience.elapsed() < PATIENCE, "{open} payments have no verdict");
            let due = "update symphony.payment_outbox_pending set next_attempt_at = symphony.clock() where lease_token is null";
            run(&mut owner, due).await;
            // Few enough questions that a payment does not run out of them.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Waits for all verdicts, drains, compares the books, and tells of each payment in the order of acceptance.
    pub async fn end(self) -> Vec<Ended> {
        self.end_with_entries().await.into_iter().map(|(ended, _)| ended).collect()
    }

    /// The same, with what the rail's ledger has of each.
    pub async fn end_with_entries(self) -> Vec<(Ended, Option<Entry>)> {
        let (ended, audit) = self.judged().await;
        assert!(audit.agrees(), "{audit:?}\n{ended:#?}");
        ended
    }

    /// How the payments ended, and how the books compare.
    pub async fn judged(self) -> (Vec<(Ended, Option<Entry>)>, Audit) {
        self.until_all_have_a_verdict().await;
        self.host.drain().await;
        if let Some(callbacks) = &self.callbacks {
            callbacks.abort();
        }
        let ended = endings(&self.db, &self.simulator, self.rail).await;
        let books = ended
            .iter()
            .map(|ended| {
                (key(self.rail, ended.outbox_id), Booked::of(Some(&ended.state), Some(&ended.money_moved)))
            })
            .collect();
        let audit = Audit::of(&self.simulator.entries(), &books);
        let with_entry = |ended: Ended| {
            let entry = self.simulator.entry(&key(self.rail, ended.outbox_id));
            (ended, entry)
        };
        (ended.into_iter().map(with_entry).collect(), audit)
    }
}

/// Changes a key of a section of a rail file.
pub fn set(file: &mut Table, section: &str, key: &str, value: impl Into<Toml>) {
    let section = file.entry(section).or_insert_with(|| Toml::Table(Table::new()));
    section.as_table_mut().expect("a section").insert(key.to_owned(), value.into());
}

/// For scripts that leave a request without a reply and its connection open: each time a test waits this long.
pub fn impatient(file: &mut Table) {
    set(file, "timeouts", "first_byte_ms", 3_000_i64);
}

/// Nobody asks within a test, unless it says so.
pub fn ask_nobody(file: &mut Table) {
    let query = "base_ms = 600000\nfactor = 1.0\ncap_ms = 600000";
    set(file, "pace", "query", query.parse::<Table>().expect("TOML"));
}

/// Every payment gets the timeline beside it. Answers how they ended, in the same order.
pub async fn play(rail: Name, plans: &[String]) -> Vec<Ended> {
    play_with(rail, plans, |_| {}).await
}

/// The same with changes to the rail file.
pub async fn play_with(rail: Name, plans: &[String], change: impl FnOnce(&mut Table)) -> Vec<Ended> {
    let amounts: Vec<_> = (1..=plans.len()).map(|n| format!("{n}.00")).collect();
    let rules: Vec<_> =
        amounts.iter().zip(plans).map(|(amount, plan)| format!("amount {amount}: {plan}")).collect();
    let play = RailRun::with(SimulatorOptions::new(rail).script(&rules.join("\n")), change).await;
    play.pay(&amounts.iter().map(|amount| payment(rail, amount)).collect::<Vec<_>>()).await;
    play.end().await
}

/// The project's own file of a rail, with a simulator in the place of its default one, quick pauses, patient deadlines and no rate
/// to speak of.
pub fn rail_file(rail: Name, base: &str, change: impl FnOnce(&mut Table)) -> String {
    rail_file_at(&rails_folder().join(format!("{rail}.toml")), base, change)
}

/// The same of another file.
pub fn rail_file_at(path: &Path, base: &str, change: impl FnOnce(&mut Table)) -> String {
    let text = fs::read_to_string(path).expect("a rail file");
    let mut file: Table = text.parse().expect("TOML");
    file.insert("base".to_owned(), base.into());
    file.extend(QUICK.parse::<Table>().expect("TOML"));
    file.insert("rate".to_owned(), Toml::Table("per_second = 10000\nburst = 10000".parse().expect("TOML")));
    change(&mut file);
    file.to_string()
}

/// The rail's form of a payment's key.
pub fn key(rail: Name, outbox_id: Uuid) -> String {
    RailKey::of(outbox_id).form(match rail {
        Name::Mtn => KeyForm::Uuid,
        Name::Airtel => KeyForm::Hex,
        Name::Bank => KeyForm::Hex32,
    })
}

async fn endings(db: &Db, simulator: &Simulator, rail: Name) -> Vec<Ended> {
    type Row = (Uuid, String, String, Option<String>, Option<String>, Vec<Option<String>>);
    let mut owner = db.connect(DbUser::Superuser).await;
    let rows: Vec<Row> = sqlx::query_as(
        "select v.outbox_id, v.state::text, v.money_moved::text, v.rail_code, v.error_message,
                (select array_agg(a.error_code order by a.attempt_no)
                   from symphony.payment_outbox_attempts a where a.outbox_id = v.outbox_id)
           from symphony.payment_outbox_attempts v
          where v.state in ('DISPATCHED', 'FAILED')
          order by substring(v.instruction_id from 3)::int",
    )
    .fetch_all(&mut owner)
    .await
    .expect("the history");
    let told: HashMap<String, _> =
        simulator.entries().into_iter().map(|entry| (entry.key.clone(), entry)).collect();
    rows.into_iter()
        .map(|(outbox_id, state, money_moved, rail_code, message, attempts)| {
            let entry = told.get(&key(rail, outbox_id));
            Ended {
                outbox_id,
                state,
                money_moved,
                rail_code,
                message,
                attempts,
                executions: entry.map_or(0, |entry| entry.executions),
                requests: entry.map_or(0, |entry| entry.requests),
            }
        })
        .collect()
}
