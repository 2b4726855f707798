//! The schema itself: brought up to date by its owner, compared by everybody else.
//!
//! Numbered files hold tables, types and roles, each applied once, in its order, in a transaction of its own. Functions and views
//! are applied after them, whenever one of them differs ([`functions`]).

use std::time::{Duration, Instant};

use sqlx::migrate::{MigrateError, Migration, Migrator};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgExecutor, SqlSafeStr};

use super::functions::{self, Changed};
use super::operate::{RailFacts, Reason};
use super::read::Reader;
use super::schema::SchemaName;
use super::{Database, Error, Role};

/// What a run of the migrations found and did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Migrated {
    pub server_version: String,
    pub schema: String,
    /// Of this build, and now of the schema.
    pub release: &'static str,
    pub already_applied: usize,
    pub newly_applied: usize,
    pub functions: Changed,
}

const SERVER_VERSION_NUM_MIN: i32 = 150_000;
/// A run that finds another one at work waits for so long.
const OTHER_RUN_WITHIN: Duration = Duration::from_secs(60);
const OTHER_RUN_LOOK: Duration = Duration::from_millis(100);
/// So that payments are accepted at once; hosts make more.
const MONTHS_AHEAD: i32 = 3;

fn migrator(schema: &SchemaName) -> Migrator {
    let placed = |migration: &Migration| {
        let mut placed = migration.clone();
        placed.sql = AssertSqlSafe(schema.place(migration.sql.as_str()).into_owned()).into_sql_str();
        placed
    };
    let files = sqlx::migrate!("../../migrations");
    let mut migrator = Migrator::with_migrations(files.iter().map(placed).collect());
    migrator.create_schema(schema.to_string());
    migrator.dangerous_set_table_name(format!("{schema}.schema_migrations"));
    migrator
}

/// Brings the schema up to date. Safe to run at any time, by anyone, on several databases of one cluster at once.
pub async fn run(database: &Database) -> Result<Migrated, Error> {
    let schema = database.schema();
    let mut connection = database.connect(Role::Owner).await?;
    let (number, server_version, is_plain): (i32, String, bool) = sqlx::query_as(
        "select current_setting('server_version_num')::int, current_setting('server_version'), quote_ident($1) = $1",
    )
    .bind(schema.as_str())
    .fetch_one(&mut connection)
    .await?;
    if number < SERVER_VERSION_NUM_MIN {
        return Err(Error::Schema(format!("PostgreSQL 15 or newer is needed, this is {server_version}")));
    }
    if !is_plain {
        let problem = format!("database.schema: \"{schema}\" is a key word of SQL, choose another name");
        return Err(Error::InvalidArgument(problem));
    }
    alone(&mut connection, schema).await?;
    let already_applied = applied(&mut connection, schema).await?.len();
    let migrator = migrator(schema);
    migrator.run(&mut connection).await.map_err(explain)?;
    let newly_applied = migrator.iter().count() - already_applied;
    let mut functions = functions::apply(&mut connection, schema).await?;
    if newly_applied > 0 {
        // A numbered file may have dropped an overload: nobody's hands were in it.
        functions.applied.append(&mut functions.put_back);
    }
    let months = schema.place("select symphony.create_attempt_partitions($1)").into_owned();
    sqlx::query(AssertSqlSafe(months)).bind(MONTHS_AHEAD).execute(&mut connection).await?;
    connection.close().await?;
    let (schema, release) = (schema.to_string(), functions::RELEASE);
    Ok(Migrated { server_version, schema, release, already_applied, newly_applied, functions })
}

/// One run at a time on a schema: until this connection ends.
async fn alone(connection: &mut PgConnection, schema: &SchemaName) -> Result<(), Error> {
    let lock =
        schema.place("select pg_try_advisory_lock(hashtextextended('symphony.migrate', 0))").into_owned();
    let began = Instant::now();
    while !sqlx::query_scalar::<_, bool>(AssertSqlSafe(lock.clone())).fetch_one(&mut *connection).await? {
        if began.elapsed() > OTHER_RUN_WITHIN {
            return Err(Error::Schema(format!(
                "another railhost migrate is at work on schema {schema}: nothing was changed, try again when it has ended"
            )));
        }
        tokio::time::sleep(OTHER_RUN_LOOK).await;
    }
    Ok(())
}

/// Tells the database what the rails' files say, with the rights of whoever migrates: the operator's login may not exist yet.
/// Writes nothing where nothing changed. One that is refused keeps no other from being told.
pub async fn tell_of_rails(database: &Database, rails: &[RailFacts], reason: &Reason) -> Result<(), Error> {
    let mut connection = database.connect(Role::Owner).await?;
    sqlx::query("set role symphony_control").execute(&mut connection).await?;
    let mut told = Ok(());
    for rail in rails {
        told = told.and(rail.configure(&mut connection, database.schema(), reason).await);
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

pub(super) async fn differences(
    connection: &mut PgConnection,
    schema: &SchemaName,
) -> Result<Vec<Difference>, Error> {
    let differences = of_files(&applied(&mut *connection, schema).await?, &migrator(schema));
    if differences.iter().any(|difference| matches!(difference, Difference::Wrong(_))) {
        return Ok(differences);
    }
    let functions = functions::compare(connection, schema).await?;
    let newer = functions.newer_release().map(|release| {
        Difference::Newer(format!(
            "railhost {release} migrated schema {schema}, this is {}",
            functions::RELEASE
        ))
    });
    let wrong = functions.problems().into_iter().map(Difference::Wrong);
    Ok(differences.into_iter().chain(newer).chain(wrong).collect())
}

fn of_files(applied: &[(i64, Vec<u8>)], migrator: &Migrator) -> Vec<Difference> {
    let mut differences = Vec::new();
    for wanted in migrator.iter() {
        let named = format!("migration {} ({})", wanted.version, wanted.description);
        match applied.iter().find(|(version, _)| *version == wanted.version) {
            None => {
                differences.push(Difference::Wrong(format!(
                    "{named} is not applied; run railhost migrate of version {}",
                    functions::RELEASE
                )));
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
    differences
}

/// None where there is no schema yet.
async fn applied<'c>(
    executor: impl PgExecutor<'c>,
    schema: &SchemaName,
) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let sql = schema
        .place("select version, checksum from symphony.schema_migrations where success order by version");
    let applied = sqlx::query_as(AssertSqlSafe(sql.into_owned()))
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
        let mut connection = self.pool.connections.acquire().await?;
        let found = differences(&mut connection, self.pool.schema()).await?;
        let wrong = found.into_iter().find_map(|difference| match difference {
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
        schema: &SchemaName,
        reason: &Reason,
    ) -> Result<(), Error> {
        let sql = schema.place("select symphony.configure_rail($1, $2, $3, $4, $5, $6, $7, $8, $9)");
        sqlx::query(AssertSqlSafe(sql.into_owned()))
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
