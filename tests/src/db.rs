use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, Utc};
use outbox::Database;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use crate::server::{self, Pg, ROLE_PASSWORD};

/// Who a test connects as: a real login each time, never `set role`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DbUser {
    Superuser,
    Ingest,
    Executor,
    Operator,
    Readonly,
    Auditor,
}

impl DbUser {
    pub const RUNTIME: [Self; 5] =
        [Self::Ingest, Self::Executor, Self::Operator, Self::Readonly, Self::Auditor];

    pub fn name(self) -> &'static str {
        match self {
            Self::Superuser => "postgres",
            Self::Ingest => "symphony_ingest",
            Self::Executor => "symphony_executor",
            Self::Operator => "symphony_operator",
            Self::Readonly => "symphony_readonly",
            Self::Auditor => "symphony_auditor",
        }
    }
}

/// A migrated database that belongs to one test. It goes with the server, at the end of the test process.
#[derive(Clone, Debug)]
pub struct Db {
    pub pg: Pg,
    superuser: PgConnectOptions,
}

impl Db {
    /// A copy of the migrated template.
    pub async fn fresh(pg: Pg) -> Self {
        Self::create(pg, &server::template()).await
    }

    /// A database without our schema.
    pub async fn empty(pg: Pg) -> Self {
        Self::create(pg, "template0").await
    }

    /// A database of a server that the test has to itself.
    pub async fn on(pg: Pg, superuser: PgConnectOptions) -> Self {
        server::prepare(&superuser, superuser.get_database().unwrap_or("postgres")).await;
        Self { pg, superuser }
    }

    /// A database that is ready already.
    pub fn at(pg: Pg, superuser: PgConnectOptions) -> Self {
        Self { pg, superuser }
    }

    async fn create(pg: Pg, template: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = server::get(pg).await;
        let name = format!("t{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut connection =
            PgConnection::connect_with(&server).await.expect("the test server accepts connections");
        sqlx::query(AssertSqlSafe(format!("create database {name} template {template}")))
            .execute(&mut connection)
            .await
            .expect("a database can be made from the template");
        connection.close().await.expect("the connection closes");
        Self { pg, superuser: server.database(&name) }
    }

    pub fn options(&self, role: DbUser) -> PgConnectOptions {
        match role {
            DbUser::Superuser => self.superuser.clone(),
            other => self.superuser.clone().username(other.name()).password(ROLE_PASSWORD),
        }
    }

    pub async fn connect(&self, role: DbUser) -> PgConnection {
        PgConnection::connect_with(&self.options(role)).await.expect("the role can log in")
    }

    pub fn pool(&self, role: DbUser, connections_max: u32) -> PgPool {
        PgPoolOptions::new().max_connections(connections_max).connect_lazy_with(self.options(role))
    }

    /// The host's own view of this database, with a login per role.
    pub fn database(&self) -> Database {
        use outbox::Role;
        Database::new(self.superuser.clone())
            .with_login(Role::Ingest, self.options(DbUser::Ingest))
            .with_login(Role::Executor, self.options(DbUser::Executor))
            .with_login(Role::Operator, self.options(DbUser::Operator))
            .with_login(Role::Readonly, self.options(DbUser::Readonly))
    }

    /// For a process that takes its database as a URL.
    pub fn url(&self) -> String {
        self.superuser.to_url_lossy().to_string()
    }

    /// Moves the outbox's clock, for every session from now on.
    pub async fn move_clock(&self, offset: &str) {
        let mut connection = self.connect(DbUser::Superuser).await;
        sqlx::query(AssertSqlSafe(format!(
            "create or replace function symphony.clock_offset() returns interval
               language sql stable parallel safe as $$ select interval '{offset}' $$"
        )))
        .execute(&mut connection)
        .await
        .expect("the clock can be moved");
        accept_functions(&mut connection).await;
    }

    /// Has the outbox's clock stand still at a moment, for every session from now on: what is counted in seconds then does not
    /// depend on how long a test takes.
    pub async fn hold_clock(&self, at: DateTime<Utc>) {
        let mut connection = self.connect(DbUser::Superuser).await;
        for (function, volatility) in [("clock", "volatile"), ("statement_clock", "stable")] {
            sqlx::query(AssertSqlSafe(format!(
                "create or replace function symphony.{function}() returns timestamptz
                   language sql {volatility} parallel safe as $$ select timestamptz '{}' $$",
                at.to_rfc3339()
            )))
            .execute(&mut connection)
            .await
            .expect("the clock can be held");
        }
        accept_functions(&mut connection).await;
    }
}

/// A host refuses functions that somebody changed by hand: what a test changed passes as applied.
pub async fn accept_functions(connection: &mut PgConnection) {
    sqlx::query("update symphony.schema_functions set held = symphony.function_digest(name)")
        .execute(connection)
        .await
        .expect("the owner may write it");
}

/// The SQLSTATE of an error that the server raised, or the error itself in words.
pub fn sqlstate(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(raised) => {
            raised.code().map_or_else(|| raised.to_string(), |code| code.into_owned())
        }
        other => other.to_string(),
    }
}

pub(crate) fn parse(url: &str, variable: &str) -> PgConnectOptions {
    PgConnectOptions::from_str(url).unwrap_or_else(|error| panic!("{variable} is no PostgreSQL URL: {error}"))
}
