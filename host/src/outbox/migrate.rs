use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Connection, PgConnection};

use super::{Database, Error, Role};

/// What a run of the migrations found and did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Migrated {
    pub server_version: String,
    pub already_applied: usize,
    pub newly_applied: usize,
}

const SERVER_VERSION_NUM_MIN: i32 = 150_000;

fn migrator() -> Migrator {
    let mut migrator = sqlx::migrate!("../migrations");
    migrator.create_schema("symphony");
    migrator.dangerous_set_table_name("symphony.schema_migrations");
    migrator
}

/// Brings the schema up to date. Safe to run at any time, by anyone, on several databases of one cluster at once: each
/// file is one transaction, and a lock keeps two runs on one database apart.
pub async fn run(database: &Database) -> Result<Migrated, Error> {
    let mut connection = PgConnection::connect_with(&database.options(Role::Owner)).await?;
    let (number, server_version): (i32, String) = sqlx::query_as(
        "select current_setting('server_version_num')::int, current_setting('server_version')",
    )
    .fetch_one(&mut connection)
    .await?;
    if number < SERVER_VERSION_NUM_MIN {
        return Err(Error::Schema(format!("PostgreSQL 15 or newer is needed, this is {server_version}")));
    }
    let already_applied = applied(&mut connection).await?.len();
    let migrator = migrator();
    migrator.run(&mut connection).await.map_err(explain)?;
    connection.close().await?;
    Ok(Migrated { server_version, already_applied, newly_applied: migrator.iter().count() - already_applied })
}

/// Whether the schema is the one this build expects; the error says what differs.
pub async fn verify(database: &Database) -> Result<(), Error> {
    let mut connection = PgConnection::connect_with(&database.options(Role::Owner)).await?;
    let applied = applied(&mut connection).await?;
    connection.close().await?;
    let migrator = migrator();
    for wanted in migrator.iter() {
        match applied.iter().find(|(version, _)| *version == wanted.version) {
            None => {
                return Err(Error::Schema(format!(
                    "migration {} ({}) is not applied; run railhost migrate",
                    wanted.version, wanted.description
                )));
            }
            Some((_, checksum)) if wanted.checksum != *checksum => {
                return Err(Error::Schema(format!(
                    "migration {} ({}) was applied in another version than this build carries",
                    wanted.version, wanted.description
                )));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

async fn applied(connection: &mut PgConnection) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let exists: bool = sqlx::query_scalar("select to_regclass('symphony.schema_migrations') is not null")
        .fetch_one(&mut *connection)
        .await?;
    if !exists {
        return Ok(Vec::new());
    }
    Ok(sqlx::query_as(
        "select version, checksum from symphony.schema_migrations where success order by version",
    )
    .fetch_all(connection)
    .await?)
}

fn explain(error: MigrateError) -> Error {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        MigrateError::VersionMissing(version) => Error::Schema(format!(
            "the database has migration {version}, which this build does not know; use a newer railhost"
        )),
        MigrateError::VersionMismatch(version) => Error::Schema(format!(
            "migration {version} was applied in another version than this build carries"
        )),
        other => Error::Schema(other.to_string()),
    }
}
