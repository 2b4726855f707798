use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dev::embedded::{Server, ServerOptions};
use indicatif::{ProgressBar, ProgressStyle};
use outbox::enqueue::Ingest;
use outbox::lease::Executor;
use outbox::operate::Operator;
use outbox::{Database, migrate};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::Arguments;
use crate::report::Facts;

/// Durable as in production, large enough that no checkpoint falls into a short measurement.
const SETTINGS: [(&str, &str); 8] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("shared_buffers", "2GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
    ("autovacuum_naptime", "5s"),
    ("max_connections", "200"),
];
const AUTOVACUUM_RUNS: &str = "select exists (select 1 from pg_stat_activity
                                                where backend_type = 'autovacuum worker' and datname = current_database())";
const SETTLE_MAX: Duration = Duration::from_secs(120);
const TEMPLATE: &str = "bench_template";

/// The server that everything is measured on.
#[derive(Debug)]
pub(crate) struct BenchServer {
    server: Server,
    pub(crate) quick: bool,
    pub(crate) shrink: usize,
}

/// A migrated database with nothing in it.
#[derive(Debug)]
pub(crate) struct Db {
    name: String,
    options: PgConnectOptions,
}

impl BenchServer {
    pub(crate) async fn start(arguments: &Arguments) -> Result<Self> {
        std::fs::create_dir_all(&arguments.out)
            .with_context(|| format!("make {}", arguments.out.display()))?;
        let folder = arguments.out.join(format!("postgres-{}", std::process::id()));
        let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let server = Server::start(ServerOptions {
            major: Some(arguments.major),
            settings,
            ..ServerOptions::throwaway(folder)
        })
        .await?;
        let bed = Self { server, quick: arguments.quick, shrink: arguments.shrink as usize };
        bed.administer(&format!("create database {TEMPLATE}")).await?;
        migrate::run(&Database::new(bed.server.connect_options().database(TEMPLATE))).await?;
        Ok(bed)
    }

    /// One number for the full run and one for the smoke test.
    pub(crate) fn scale<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    pub(crate) async fn create(&self, name: &str) -> Result<Db> {
        self.administer(&format!("create database {name} template {TEMPLATE}")).await?;
        Ok(Db { name: name.to_owned(), options: self.server.connect_options().database(name) })
    }

    /// Gives the disk back. Connections that a pool still holds are cut.
    pub(crate) async fn drop(&self, db: Db) -> Result<()> {
        self.administer(&format!("drop database {} with (force)", db.name)).await
    }

    pub(crate) async fn checkpoint(&self) -> Result<()> {
        self.administer("checkpoint").await
    }

    pub(crate) async fn facts(&self) -> Result<Facts> {
        let mut connection = PgConnection::connect_with(&self.server.connect_options()).await?;
        let version = sqlx::query_scalar("select version()").fetch_one(&mut connection).await?;
        let mut settings = Vec::new();
        for (name, _) in SETTINGS {
            let value: String = sqlx::query_scalar("select current_setting($1)")
                .bind(name)
                .fetch_one(&mut connection)
                .await?;
            settings.push((name.to_owned(), value));
        }
        Ok(Facts::new(version, settings, self.quick))
    }

    async fn administer(&self, statement: &str) -> Result<()> {
        let mut connection = PgConnection::connect_with(&self.server.connect_options()).await?;
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await
            .context(statement.to_owned())?;
        Ok(connection.close().await?)
    }
}

impl Db {
    pub(crate) fn database(&self) -> Database {
        Database::new(self.options.clone())
    }

    pub(crate) fn ingest(&self, connections: u32) -> Ingest {
        Ingest::new(&self.database(), connections)
    }

    pub(crate) fn executor(&self, worker_id: &str) -> Executor {
        Executor::new(&self.database(), worker_id, 1)
    }

    pub(crate) fn operator(&self) -> Operator {
        Operator::new(&self.database()).also_unseen(true)
    }

    pub(crate) async fn superuser(&self) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.options).await?)
    }

    /// Runs statements as the superuser, on a connection of their own.
    pub(crate) async fn execute(&self, statements: &str) -> Result<()> {
        let mut connection = self.superuser().await?;
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut connection).await?;
        Ok(connection.close().await?)
    }

    /// Waits until autovacuum is done here: an ANALYZE holds a snapshot, under which no page is cleaned.
    pub(crate) async fn settle(&self) -> Result<()> {
        let deadline = Instant::now() + SETTLE_MAX;
        while self.ask::<bool>(AUTOVACUUM_RUNS).await? && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    /// One answer of the superuser's.
    pub(crate) async fn ask<T>(&self, query: &'static str) -> Result<T>
    where
        T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let mut connection = self.superuser().await?;
        let answer = sqlx::query_scalar(query).fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(answer)
    }
}

/// One line for whoever watches.
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// Says what begins, and how long it took when it ends.
pub(crate) async fn step<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let started = Instant::now();
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(250));
    let done = work.await;
    bar.finish_and_clear();
    say(&format!("  {what}: {:.1} s", started.elapsed().as_secs_f64()));
    done
}

/// A bar for something that is counted in rows.
pub(crate) fn bar(what: &str, rows: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("  {msg} {wide_bar} {human_pos}/{human_len} {eta}");
    let bar = ProgressBar::new(rows as u64).with_message(what.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// What /proc says under a name, where there is a /proc.
pub(crate) fn proc_line(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc").join(file)).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':').map_or(line, |(_, value)| value).trim().to_owned())
}
