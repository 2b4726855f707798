use chrono::{DateTime, Utc};
use futures_util::{Stream, TryStreamExt};
use serde::Serialize;
use sqlx::AssertSqlSafe;

use super::pool::Pool;
use super::schema::SchemaName;
use super::{Database, Error, Role};

const VERDICTS_PER_CALL: i32 = 10_000;

/// One month of the history, and how far it is on its way out.
#[derive(Clone, Debug, Serialize, sqlx::FromRow)]
pub struct Month {
    pub partition_name: String,
    pub from_at: DateTime<Utc>,
    pub until_at: DateTime<Utc>,
    pub verdicts_copied: i64,
    pub exported_at: Option<DateTime<Utc>>,
    pub exported_sha256: Option<String>,
    pub detached_at: Option<DateTime<Utc>>,
    pub dropped_at: Option<DateTime<Utc>>,
    /// Why it must stay, if it must.
    pub obstacle: Option<String>,
}

/// Works with the owner's rights: only the owner of a table may detach a partition from it.
#[derive(Clone, Debug)]
pub struct Retention {
    pool: Pool,
    schema: SchemaName,
    keep_days: i32,
}

impl Retention {
    pub fn new(database: &Database, keep_days: i32) -> Self {
        Self { pool: database.pool(Role::Owner, 2, "railhost"), schema: database.schema().clone(), keep_days }
    }

    /// Under which a month is exported. The months of another schema have names of their own.
    pub fn export_name(&self, month: &Month) -> String {
        match self.schema == SchemaName::default() {
            true => month.partition_name.clone(),
            false => format!("{}.{}", self.schema, month.partition_name),
        }
    }

    /// Makes the missing months ahead; how many were made.
    pub async fn create_ahead(&self, months: i32) -> Result<i32, Error> {
        Ok(sqlx::query_scalar("select symphony.create_attempt_partitions($1)")
            .bind(months)
            .fetch_one(&self.pool)
            .await?)
    }

    /// All months that still exist, the oldest first.
    pub async fn months(&self) -> Result<Vec<Month>, Error> {
        Ok(sqlx::query_as(
            "select partition_name, from_at, until_at, verdicts_copied, exported_at, exported_sha256, detached_at, dropped_at,
                    case when detached_at is null then symphony.retention_obstacle(partition_name, $1) end as obstacle
               from symphony.payment_outbox_partitions
              where dropped_at is null
              order by from_at",
        )
        .bind(self.keep_days)
        .fetch_all(&self.pool)
        .await?)
    }

    /// For how many days new payments have a month of the history to go to.
    pub async fn days_left(&self) -> Result<f64, Error> {
        Ok(sqlx::query_scalar("select symphony.history_days_left()").fetch_one(&self.pool).await?)
    }

    /// The rows of a month as JSON text, in the order of their ids.
    pub fn rows<'a>(&'a self, month: &'a Month) -> impl Stream<Item = Result<String, Error>> + 'a {
        sqlx::query_scalar(
            "select to_jsonb(a)::text
               from symphony.payment_outbox_attempts a
              where a.outbox_id >= symphony.uuidv7_floor($1) and a.outbox_id < symphony.uuidv7_floor($2)
              order by a.outbox_id, a.attempt_no",
        )
        .bind(month.from_at)
        .bind(month.until_at)
        .fetch(&self.pool)
        .map_err(Error::from)
    }

    /// Records the export. Refused if the month has another number of rows.
    pub async fn note_export(&self, month: &Month, rows: i64, sha256: &str) -> Result<(), Error> {
        sqlx::query("select symphony.note_export($1, $2, $3)")
            .bind(&month.partition_name)
            .bind(rows)
            .bind(sha256)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Copies verdicts to the permanent record, a bounded number per call; 0 when the month is done.
    pub async fn copy_verdicts(&self, month: &Month) -> Result<i32, Error> {
        Ok(sqlx::query_scalar("select symphony.copy_verdicts($1, $2, $3)")
            .bind(&month.partition_name)
            .bind(self.keep_days)
            .bind(VERDICTS_PER_CALL)
            .fetch_one(&self.pool)
            .await?)
    }

    /// Detaches without blocking a verdict, then drops. Takes up a detachment that was interrupted half-way.
    pub async fn detach_and_drop(&self, month: &Month) -> Result<(), Error> {
        if month.detached_at.is_none() {
            self.detach(month).await?;
        }
        sqlx::query("select symphony.drop_detached($1)")
            .bind(&month.partition_name)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    async fn detach(&self, month: &Month) -> Result<(), Error> {
        sqlx::query("select symphony.check_retirable($1, $2)")
            .bind(&month.partition_name)
            .bind(self.keep_days)
            .execute(&self.pool)
            .await?;
        let half_done: Option<bool> = sqlx::query_scalar(
            "select i.inhdetachpending
               from pg_catalog.pg_inherits i
               join pg_catalog.pg_class c on c.oid = i.inhrelid
              where i.inhparent = 'symphony.payment_outbox_attempts'::regclass and c.relname = $1",
        )
        .bind(&month.partition_name)
        .fetch_optional(&self.pool)
        .await?;
        if let Some(half_done) = half_done {
            // The name comes from the table of partitions, which only its owner writes.
            let how = if half_done { "finalize" } else { "concurrently" };
            sqlx::raw_sql(AssertSqlSafe(format!(
                "alter table symphony.payment_outbox_attempts detach partition symphony.{} {how}",
                month.partition_name
            )))
            .execute(&self.pool)
            .await?;
        }
        sqlx::query("select symphony.note_detached($1)")
            .bind(&month.partition_name)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}
