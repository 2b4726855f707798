use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Connection, PgExecutor};

use super::operate::{RailFacts, Reason};
use super::read::Reader;
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
    let mut migrator = sqlx::migrate!("../../migrations");
    migrator.create_schema("symphony");
    migrator.dangerous_set_table_name("symphony.schema_migrations");
    migrator
}

/// Brings the schema up to date. Safe to run at any time, by anyone, on several databases of one cluster at once: each
/// file is one transaction, and a lock keeps two runs on one database apart.
pub async fn run(database: &Database) -> Result<Migrated, Error> {
    let mut connection = database.connect(Role::Owner).await?;
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

/// Tells the database what the rails' files say, with the rights of whoever migrates: the operator's login may not exist yet.
/// Writes nothing where nothing changed. One that is refused keeps no other from being told.
pub async fn tell_of_rails(database: &Database, rails: &[RailFacts], reason: &Reason) -> Result<(), Error> {
    let mut connection = database.connect(Role::Owner).await?;
    sqlx::query("set role symphony_control").execute(&mut connection).await?;
    let mut told = Ok(());
    for rail in rails {
        told = told.and(rail.configure(&mut connection, reason).await);
    }
    connection.close().await?;
    told
}

/// How the schema differs from the one that this build expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    /// It cannot be worked with.
    Wrong(String),
    /// A newer railhost has migrated it.
    Newer(String),
}

pub(super) async fn differences<'c>(executor: impl PgExecutor<'c>) -> Result<Vec<Difference>, Error> {
    let applied = applied(executor).await?;
    let migrator = migrator();
    let mut differences = Vec::new();
    for wanted in migrator.iter() {
        let named = format!("migration {} ({})", wanted.version, wanted.description);
        match applied.iter().find(|(version, _)| *version == wanted.version) {
            None => {
                differences.push(Difference::Wrong(format!("{named} is not applied; run railhost migrate")));
                // The first that is missing says it all.
                break;
            }
            Some((_, checksum)) if wanted.checksum != *checksum => differences.push(Difference::Wrong(
                format!("{named} was applied in another version than this build carries"),
            )),
            Some(_) => {}
        }
    }
    let newest = migrator.iter().map(|migration| migration.version).max().unwrap_or_default();
    if let Some((version, _)) = applied.iter().find(|(version, _)| *version > newest) {
        differences.push(Difference::Newer(format!(
            "the database has migration {version}, which this build does not know; use a newer railhost"
        )));
    }
    Ok(differences)
}

/// None where there is no schema yet.
async fn applied<'c>(executor: impl PgExecutor<'c>) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let applied = sqlx::query_as(
        "select version, checksum from symphony.schema_migrations where success order by version",
    )
    .persistent(false)
    .fetch_all(executor)
    .await
    .map_err(Error::from);
    match applied {
        Err(Error::Schema(_)) => Ok(Vec::new()),
        other => other,
    }
}

impl Reader {
    /// Whether the schema is the one that this build expects; the error says what differs.
    pub async fn verify_schema(&self) -> Result<(), Error> {
        let wrong = differences(&self.pool).await?.into_iter().find_map(|difference| match difference {
            Difference::Wrong(what) => Some(what),
            Difference::Newer(_) => None,
        });
        wrong.map_or(Ok(()), |what| Err(Error::Schema(what)))
    }
}

impl RailFacts {
    pub(super) async fn configure<'c>(
        &self,
        executor: impl PgExecutor<'c>,
        reason: &Reason,
    ) -> Result<(), Error> {
        sqlx::query("select symphony.configure_rail($1, $2, $3, $4, $5, $6, $7, $8, $9)")
            .bind(&self.rail_type)
            .bind(self.deduplicates)
            .bind(self.hand_over_marks)
            .bind(self.sla_seconds)
            .bind(self.rate.map(|(per_second, _)| per_second))
            .bind(self.rate.map(|(_, burst)| burst))
            .bind(&reason.by)
            .bind(&reason.why)
            .bind(&self.key_forms)
            .execute(executor)
            .await?;
        Ok(())
    }
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
