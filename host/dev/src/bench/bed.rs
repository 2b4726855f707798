use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::embedded::{Server, ServerOptions};
use anyhow::Context;
use outbox::retain::Retention;
use outbox::{Database, migrate};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

/// The same for everybody: durable as in production, large enough that no checkpoint falls into a short measurement.
pub(super) const SETTINGS: [(&str, &str); 7] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("shared_buffers", "1GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
    ("max_connections", "300"),
];
/// What a database is called, before its number.
const PREFIX: &str = "bench_";
/// As the host keeps it unless told otherwise.
const HISTORY_DAYS: i32 = 400;
const MONTHS_AHEAD: i32 = 3;

/// The server that everything is measured on, and the folder for what a run leaves.
#[derive(Debug)]
pub(super) struct BenchServer {
    server: Server,
    out: PathBuf,
    databases: AtomicU32,
}

/// A database of one run.
#[derive(Debug)]
pub(super) struct Db {
    pub name: String,
    /// Over TCP, because not every driver can be given a socket's folder; so everybody goes this way.
    pub url: String,
    options: PgConnectOptions,
}

impl BenchServer {
    pub(super) async fn start(out: &Path) -> anyhow::Result<Self> {
        let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let tcp_port = Some(free_port()?);
        let server = Server::start(ServerOptions {
            settings,
            tcp_port,
            ..ServerOptions::throwaway(out.join("postgres"))
        })
        .await?;
        Ok(Self { server, out: out.to_owned(), databases: AtomicU32::new(0) })
    }

    /// Empty; whoever gets it brings a schema.
    pub(super) async fn fresh(&self) -> anyhow::Result<Db> {
        let name = format!("{PREFIX}{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.administer(&format!("create database {name}")).await?;
        let mut url = self.server.connect_options().database(&name).to_url_lossy();
        url.set_host(Some("127.0.0.1"))?;
        // What else stands there is sqlx's own, and others refuse what they do not know.
        url.set_query(Some("sslmode=disable"));
        let url = url.to_string();
        Ok(Db { name, options: url.parse()?, url })
    }

    /// Drops what runs left behind, however they ended. Whoever is still connected is cut off.
    pub(super) async fn drop_databases(&self) -> anyhow::Result<()> {
        let mut connection = self.connect().await?;
        let left: Vec<String> =
            sqlx::query_scalar("select datname::text from pg_database where starts_with(datname::text, $1)")
                .bind(PREFIX)
                .fetch_all(&mut connection)
                .await?;
        connection.close().await?;
        for name in left {
            self.administer(&format!("drop database {name} with (force)")).await?;
        }
        Ok(())
    }

    /// Before a phase that is timed, so that none pays for another's.
    pub(super) async fn checkpoint(&self) -> anyhow::Result<()> {
        self.administer("checkpoint").await
    }

    /// To the server's own database, away from what is measured.
    pub(super) async fn connect(&self) -> anyhow::Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.server.connect_options()).await?)
    }

    pub(super) fn postmaster(&self) -> anyhow::Result<u32> {
        self.server.pid().context("PostgreSQL does not run")
    }

    /// A folder of this name for what a run needs and for what it says.
    pub(super) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.out.join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Where hosts keep compiled adapters, all of them the same; they make it themselves, closed to others.
    pub(super) fn compiled(&self) -> PathBuf {
        self.out.join("compiled")
    }

    async fn administer(&self, statement: &str) -> anyhow::Result<()> {
        let mut connection = self.connect().await?;
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await
            .with_context(|| statement.to_owned())?;
        Ok(connection.close().await?)
    }
}

impl Db {
    pub(super) fn database(&self) -> Database {
        Database::new(self.options.clone())
    }

    /// As the superuser.
    pub(super) async fn connect(&self) -> anyhow::Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.options).await?)
    }

    /// Makes it an outbox.
    pub(super) async fn migrate(&self) -> anyhow::Result<()> {
        let database = self.database();
        migrate::run(&database).await?;
        Retention::new(&database, HISTORY_DAYS).create_ahead(MONTHS_AHEAD).await?;
        Ok(())
    }
}

/// Free a moment ago; somebody else may take it, and then the server says so.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
