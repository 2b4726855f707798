use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;

use dev::embedded::{Server, ServerOptions};
use outbox::{Database, migrate};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::runtime::Runtime;

use crate::db::{DbUser, parse};
use crate::docker;
use crate::railhost_binary::profile_folder;

/// The PostgreSQL versions that everything is tested on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pg {
    V15,
    V18,
}

impl Pg {
    pub fn major(self) -> u32 {
        match self {
            Self::V15 => 15,
            Self::V18 => 18,
        }
    }
}

pub(crate) const ROLE_PASSWORD: &str = "only-for-tests";

/// The migrated database that every other one is copied from. One per process: a configured server may be shared.
pub(crate) fn template() -> String {
    format!("symphony_template_{}", std::process::id())
}

/// The server of that version for this test process, started by whoever asks first.
pub(crate) async fn get(pg: Pg) -> PgConnectOptions {
    static SERVERS: [OnceLock<PgConnectOptions>; 2] = [OnceLock::new(), OnceLock::new()];
    let slot = &SERVERS[usize::from(pg == Pg::V18)];
    // Each test has a runtime of its own; the server must outlive them all, so it gets one too.
    tokio::task::spawn_blocking(move || {
        slot.get_or_init(|| {
            std::thread::spawn(move || {
                let runtime = Runtime::new().expect("a runtime for the server");
                let options = runtime.block_on(start(pg));
                std::mem::forget(runtime);
                options
            })
            .join()
            .unwrap_or_else(|_| panic!("PostgreSQL {} cannot be had: see the message above", pg.major()))
        })
        .clone()
    })
    .await
    .expect("the server starts")
}

/// A configured URL, else a Docker daemon that answers, else binaries of this machine, else fetched ones.
async fn start(pg: Pg) -> PgConnectOptions {
    let variable = format!("RAILHOST_TEST_PG{}_URL", pg.major());
    let options = if let Ok(url) = env::var(&variable) {
        parse(&url, &variable)
    } else if let Some(options) = docker::start(pg).await {
        options
    } else {
        let folder = scratch().join(format!("postgres-{}-{}", pg.major(), std::process::id()));
        let options = ServerOptions {
            major: Some(pg.major()),
            settings: vec![("autovacuum_naptime".to_owned(), "5s".to_owned())],
            ..ServerOptions::throwaway(folder)
        };
        let server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
        let options = server.connect_options();
        // Never dropped: the guardian stops it when this process ends, in whatever way.
        std::mem::forget(server);
        options
    };
    let mut connection = PgConnection::connect_with(&options).await.expect("the server accepts connections");
    sqlx::query(AssertSqlSafe(format!("create database {}", template())))
        .execute(&mut connection)
        .await
        .expect("the template can be made");
    prepare(&options, &template()).await;
    options
}

/// `target/tmp`.
pub(crate) fn scratch() -> PathBuf {
    profile_folder().with_file_name("tmp")
}

/// A folder of that name that nobody had before.
pub fn scratch_folder(name: &str) -> PathBuf {
    scratch().join(format!("{name}-{}", uuid::Uuid::new_v4().simple()))
}

/// Brings a database up to date and gives the roles their passwords.
pub(crate) async fn prepare(options: &PgConnectOptions, database: &str) {
    migrate::run(&Database::new(options.clone().database(database))).await.expect("the migrations apply");
    let mut connection = PgConnection::connect_with(options).await.expect("the server accepts connections");
    for role in DbUser::RUNTIME {
        sqlx::query(AssertSqlSafe(format!("alter role {} password '{ROLE_PASSWORD}'", role.name())))
            .execute(&mut connection)
            .await
            .expect("roles get a password");
    }
}
