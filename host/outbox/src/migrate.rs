//! The schema itself: brought up to date by its owner, compared by everybody else.
//!
//! Numbered files hold tables, types and roles, each applied once and in its order. Functions and views are applied after them,
//! those that differ ([`functions`]). All of it is one transaction.

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
/// Whoever reads a table that is to be altered keeps it from us for no longer than this, and with it all who come after us.
const LOCKED_WITHIN: &str = "set local lock_timeout = '60s'";

fn migrator(schema: &SchemaName) -> Migrator {
    let placed = |migration: &Migration| {
        let mut placed = migration.clone();
        placed.sql = AssertSqlSafe(schema.rewrite(migration.sql.as_str()).into_owned()).into_sql_str();
        placed
    };
    let files = sqlx::migrate!("../../migrations");
    let mut migrator = Migrator::with_migrations(files.iter().map(placed).collect());
    migrator.create_schema(schema.to_string());
    migrator.dangerous_set_table_name(format!("{schema}.schema_migrations"));
    // `alone` has made sure of that already, and waits only so long.
    migrator.set_locking(false);
    migrator
}

/// Brings the schema up to date, in one transaction: numbered files, functions, months. Safe to run at any time, by anyone, on several
/// databases of one cluster at once.
pub async fn run(database: &Database) -> Result<Migrated, Error> {
    run_within(database, OTHER_RUN_WITHIN).await
}

/// The same, with another patience for a run that is at work already.
pub async fn run_within(database: &Database, other_run_within: Duration) -> Result<Migrated, Error> {
    let schema = database.schema();
    let mut connection = database.connect(Role::Owner).await?;
    let server_version = suitable(&mut connection, schema).await?;
    alone(&mut connection, schema, other_run_within).await?;
    let applied = match applied(&mut connection, schema).await? {
        Some(applied) => applied,
        None => {
            refuse_taken(&mut connection, schema).await?;
            Vec::new()
        }
    };
    let migrator = migrator(schema);
    if let Some(problem) = edited(&applied, &migrator).or_else(|| newer(&applied, &migrator)) {
        return Err(Error::Schema(problem));
    }
    let before = functions::compare(&mut connection, schema).await?;
    before.refuse_newer()?;
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql(LOCKED_WITHIN).execute(&mut *transaction).await?;
    migrator.run(&mut *transaction).await.map_err(explain)?;
    let functions = functions::apply(&mut transaction, schema, &before).await?;
    let months = schema.rewrite("select symphony.create_attempt_partitions($1)").into_owned();
    sqlx::query(AssertSqlSafe(months)).bind(MONTHS_AHEAD).execute(&mut *transaction).await?;
    transaction.commit().await?;
    connection.close().await?;
    Ok(Migrated {
        server_version,
        schema: schema.to_string(),
        release: functions::RELEASE,
        already_applied: applied.len(),
        newly_applied: migrator.iter().count() - applied.len(),
        functions,
    })
}

/// The server's version, if this server can hold the schema under its name.
async fn suitable(connection: &mut PgConnection, schema: &SchemaName) -> Result<String, Error> {
    let (number, version, is_plain): (i32, String, bool) = sqlx::query_as(
        "select current_setting('server_version_num')::int, current_setting('server_version'), quote_ident($1) = $1",
    )
    .bind(schema.as_str())
    .fetch_one(connection)
    .await?;
    if number < SERVER_VERSION_NUM_MIN {
        return Err(Error::Schema(format!("PostgreSQL 15 or newer is needed, this is {version}")));
    }
    if !is_plain {
        let problem = format!("database.schema: \"{schema}\" is a key word of SQL, choose another name");
        return Err(Error::InvalidArgument(problem));
    }
    Ok(version)
}

/// One run at a time in a database: until this connection ends.
async fn alone(
    connection: &mut PgConnection,
    schema: &SchemaName,
    other_run_within: Duration,
) -> Result<(), Error> {
    let lock = "select pg_try_advisory_lock(hashtextextended('railhost migrate', 0))";
    let began = Instant::now();
    while !sqlx::query_scalar::<_, bool>(lock).fetch_one(&mut *connection).await? {
        if began.elapsed() >= other_run_within {
            return Err(Error::Schema(format!(
                "another railhost migrate is at work in this database: nothing was changed in schema {schema}, try again when it has ended"
            )));
        }
        tokio::time::sleep(OTHER_RUN_LOOK).await;
    }
    Ok(())
}

/// A schema that somebody else uses is left alone.
async fn refuse_taken(connection: &mut PgConnection, schema: &SchemaName) -> Result<(), Error> {
    let strange: Option<String> = sqlx::query_scalar(
        "select o.name
           from (select c.relname::text as name from pg_class c where c.relnamespace = to_regnamespace($1)
                 union all
                 select p.proname::text from pg_proc p where p.pronamespace = to_regnamespace($1)) o
          order by o.name
          limit 1",
    )
    .bind(schema.as_str())
    .fetch_optional(connection)
    .await?;
    strange.map_or(Ok(()), |name| {
        Err(Error::InvalidArgument(format!(
            "database.schema: \"{schema}\" exists and holds what railhost did not make ({name}, for one), choose another name"
        )))
    })
}

/// Tells the database what the rail files say, with the rights of whoever migrates: the operator's login may not exist yet.
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
    /// Functions are not those of this build. No host starts with them; one that runs goes on.
    Changed(String),
    /// A newer railhost has migrated it.
    Newer(String),
}

pub(super) async fn differences(
    connection: &mut PgConnection,
    schema: &SchemaName,
) -> Result<Vec<Difference>, Error> {
    let applied = applied(&mut *connection, schema).await?.unwrap_or_default();
    let differences = of_files(&applied, &migrator(schema));
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
    let missing = functions.missing().map(Difference::Wrong);
    let changed = functions.changed().into_iter().map(Difference::Changed);
    Ok(differences.into_iter().chain(newer).chain(changed).chain(missing).collect())
}

fn of_files(applied: &[(i64, Vec<u8>)], migrator: &Migrator) -> Vec<Difference> {
    if let Some(problem) = edited(applied, migrator) {
        return vec![Difference::Wrong(problem)];
    }
    // The first that is missing says it all.
    let missing =
        migrator.iter().find(|wanted| !applied.iter().any(|(version, _)| *version == wanted.version));
    let missing = missing.map(|wanted| {
        Difference::Wrong(format!(
            "migration {} ({}) is not applied; run railhost migrate of version {}",
            wanted.version,
            wanted.description,
            functions::RELEASE
        ))
    });
    missing.into_iter().chain(newer(applied, migrator).map(Difference::Newer)).collect()
}

/// A released file never changes: with another one in its place nobody knows what the schema is.
fn edited(applied: &[(i64, Vec<u8>)], migrator: &Migrator) -> Option<String> {
    let wanted = migrator.iter().find(|wanted| {
        applied.iter().any(|(version, checksum)| *version == wanted.version && wanted.checksum != *checksum)
    })?;
    Some(format!(
        "migration {} ({}) was applied from another file than this build carries: the schema was made by a build that was not released, or with an edited file; use the build that made it, or another database.schema",
        wanted.version, wanted.description
    ))
}

fn newer(applied: &[(i64, Vec<u8>)], migrator: &Migrator) -> Option<String> {
    let newest = migrator.iter().map(|migration| migration.version).max().unwrap_or_default();
    let (version, _) = applied.iter().find(|(version, _)| *version > newest)?;
    Some(format!(
        "the database has migration {version}, which this build does not know; use a newer railhost than {}",
        functions::RELEASE
    ))
}

/// The numbered files that were applied. `None` where there is no schema of ours yet.
async fn applied(
    connection: &mut PgConnection,
    schema: &SchemaName,
) -> Result<Option<Vec<(i64, Vec<u8>)>>, Error> {
    // Other tools have a table of this name, without checksums.
    let look = schema.rewrite(
        "select exists (select 1 from pg_attribute
                         where attrelid = to_regclass('symphony.schema_migrations') and attname = 'checksum')",
    );
    let look = AssertSqlSafe(look.into_owned());
    if !sqlx::query_scalar::<_, bool>(look).persistent(false).fetch_one(&mut *connection).await? {
        return Ok(None);
    }
    let sql = schema
        .rewrite("select version, checksum from symphony.schema_migrations where success order by version");
    let applied = sqlx::query_as(AssertSqlSafe(sql.into_owned())).persistent(false).fetch_all(connection);
    Ok(Some(applied.await?))
}

impl Reader {
    /// Whether the schema is the one that this build expects; the error says what differs.
    pub async fn verify_schema(&self) -> Result<(), Error> {
        let wrong = self.differences().await?.into_iter().find_map(|difference| match difference {
            Difference::Wrong(what) | Difference::Changed(what) => Some(what),
            Difference::Newer(_) => None,
        });
        wrong.map_or(Ok(()), |what| Err(Error::Schema(what)))
    }

    /// Whether a host that runs can go on. A function that somebody mends by hand at night must not end all hosts at once.
    pub async fn schema_serves(&self) -> Result<(), Error> {
        let wrong = self.differences().await?.into_iter().find_map(|difference| match difference {
            Difference::Wrong(what) => Some(what),
            Difference::Changed(_) | Difference::Newer(_) => None,
        });
        wrong.map_or(Ok(()), |what| Err(Error::Schema(what)))
    }

    async fn differences(&self) -> Result<Vec<Difference>, Error> {
        // In a transaction: a pooler may give each statement another connection to the server.
        let mut connection = self.pool.connection().await?;
        let mut transaction = connection.begin().await?;
        let found = differences(&mut transaction, self.pool.schema()).await?;
        transaction.commit().await?;
        Ok(found)
    }
}

impl RailFacts {
    pub(super) async fn configure<'c>(
        &self,
        executor: impl PgExecutor<'c>,
        schema: &SchemaName,
        reason: &Reason,
    ) -> Result<(), Error> {
        let sql = schema.rewrite("select symphony.configure_rail($1, $2, $3, $4, $5, $6, $7, $8, $9)");
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
        other => Error::Schema(other.to_string()),
    }
}
