use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use dev::embedded::{Server, ServerOptions};
use harness::{Db, Pg};
use outbox::enqueue::{Ingest, NewPayment};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

/// Durable as in production, large enough that no checkpoint falls into a short measurement.
const SETTINGS: [(&str, &str); 6] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("shared_buffers", "1GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
    ("max_connections", "100"),
];

/// The server that everything is measured on, and the binary that is measured.
pub(crate) struct Bed {
    server: Server,
    binary: PathBuf,
    pub(crate) quick: bool,
    _folder: TempDir,
}

impl Bed {
    pub(crate) async fn start(quick: bool) -> Result<Self> {
        // The binary beside this one, in the same profile: its folder has the profile's name.
        let binary = std::env::current_exe()?.with_file_name("railhost");
        let profile = binary.parent().and_then(Path::file_name).context("a profile")?;
        let built = Command::new("cargo")
            .args(["build", "--quiet", "--locked", "--workspace", "--bins", "--profile"])
            .arg(profile)
            .status()
            .context("cargo runs")?;
        ensure!(built.success(), "railhost does not build");
        let folder = tempfile::tempdir()?;
        let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let options = ServerOptions {
            major: Some(Pg::V18.major()),
            settings,
            ..ServerOptions::throwaway(folder.path().join("postgres"))
        };
        Ok(Self { server: Server::start(options).await?, binary, quick, _folder: folder })
    }

    pub(crate) fn scale(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// A migrated database with nothing in it.
    pub(crate) async fn fresh(&self) -> Result<Db> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("bench_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut connection = PgConnection::connect_with(&self.server.connect_options()).await?;
        sqlx::query(AssertSqlSafe(format!("create database {name}"))).execute(&mut connection).await?;
        Ok(Db::on(Pg::V18, self.server.connect_options().database(&name)).await)
    }

    /// A host as it is shipped, once it is ready. What it compiles is kept in `cache`.
    pub(crate) fn host(&self, db: &Db, rails: &[(&str, String)], cache: Option<&TempDir>) -> Result<Host> {
        let folder = tempfile::tempdir()?;
        fs::create_dir_all(folder.path().join("config/rails"))?;
        for (name, text) in rails {
            fs::write(folder.path().join(format!("config/rails/{name}.toml")), text)?;
        }
        let compiled = cache.unwrap_or(&folder).path().join("compiled");
        fs::write(
            folder.path().join("config/development.toml"),
            format!("[adapters]\ncache = {compiled:?}\ncalls_max = 16000\n"),
        )?;
        let railhost = || {
            let mut command = Command::new(&self.binary);
            command.current_dir(folder.path()).env("DATABASE_URL", db.url()).env("RAILHOST_LOG", "warn");
            command.env_remove("RAILHOST_CONFIG");
            command
        };
        let told = railhost().arg("migrate").output().context("railhost runs")?;
        ensure!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        let mut child = railhost().arg("serve").stderr(Stdio::piped()).spawn().context("railhost runs")?;
        let mut said = String::new();
        let mut errors = BufReader::new(child.stderr.take().context("what it says")?);
        errors.read_line(&mut said)?;
        // Somebody has to read on, or it would be stopped by a full pipe.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        let ready = said.split("ready after ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        let ready_ms = ready.with_context(|| format!("it did not start: {said}"))?;
        Ok(Host { child, ready_ms, _folder: folder })
    }
}

pub(crate) struct Host {
    child: Child,
    pub(crate) ready_ms: f64,
    _folder: TempDir,
}

impl Host {
    pub(crate) fn end(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// In MiB.
    pub(crate) fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(line.split_whitespace().next().context("a number")?.parse::<f64>()? / 1024.0)
    }

    /// Seconds of processor time so far.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<_> = stat.rsplit(')').next().context("a line")?.split_whitespace().collect();
        Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A mock rail that answers after a time.
pub(crate) fn rail(concurrency: u32, delay_ms: u32) -> String {
    format!(
        "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n\
         timeouts = {{ call_ms = 110000 }}\n[pace]\nconcurrency = {concurrency}\nlease_seconds = 180\n\
         [settings]\nscript = \"\"\"\namount 1.00: settled\notherwise: {}settled\n\"\"\"\n",
        if delay_ms > 0 { format!("delay {delay_ms} ") } else { String::new() }
    )
}

pub(crate) async fn enqueue(db: &Db, rail: &str, name: &str, payments: usize) -> Result<()> {
    enqueue_amount(db, rail, name, payments, "12.50").await
}

/// A rail begins with one payment: one over 1.00 shows at once that it works.
pub(crate) async fn enqueue_amount(
    db: &Db,
    rail: &str,
    name: &str,
    payments: usize,
    amount: &str,
) -> Result<()> {
    let ingest = Ingest::new(&db.database(), 1);
    let payments: Vec<_> = (0..payments)
        .map(|n| NewPayment {
            instruction_id: format!("{name}-{n}"),
            participant_id: format!("p-{}", n % 100),
            idempotency_key: "k".to_owned(),
            rail_type: rail.to_owned(),
            payload: json!({
                "amount": amount, "currency": "ZMW", "destination": { "msisdn": format!("26096{n:07}") },
                "narrative": "salary of the month, as agreed",
            })
            .into(),
        })
        .collect();
    for batch in payments.chunks(5_000) {
        ingest.enqueue_batch(batch).await?;
    }
    Ok(())
}

pub(crate) async fn ask(db: &Db, sql: &str) -> Result<f64> {
    let mut connection = PgConnection::connect_with(&db.options(harness::DbUser::Superuser)).await?;
    let answer: Option<f64> = sqlx::query_scalar(AssertSqlSafe(format!("select ({sql})::double precision")))
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(answer.unwrap_or(0.0))
}

/// Waits until a number is reached, looking seldom.
pub(crate) async fn until(db: &Db, sql: &str, fact: impl Fn(f64) -> bool) -> Result<()> {
    while !fact(ask(db, sql).await?) {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    Ok(())
}
