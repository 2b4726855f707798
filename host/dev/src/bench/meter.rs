use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};

use super::bed::{BenchServer, Db};
use super::process;

/// Backends tell what they counted when they end, or long after their last statement.
const QUIET_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Reads what PostgreSQL has to do for a run, from outside of the run's database.
#[derive(Debug)]
pub(super) struct Meter<'b> {
    bed: &'b BenchServer,
    db: &'b Db,
    watching: PgConnection,
}

/// The server's state at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    wal_bytes: f64,
    postgres_us: f64,
}

/// What some work took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase {
    pub payments: f64,
    pub seconds: f64,
    /// On the processor, of whoever did it.
    pub worker_us: f64,
    /// On the processor, of PostgreSQL.
    pub postgres_us: f64,
    pub wal_bytes: f64,
}

/// What the server has counted in the run's database.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub(super) struct ServerCounts {
    #[sqlx(skip)]
    pub commits: i64,
    pub updated: i64,
    pub updated_in_place: i64,
    pub deleted: i64,
    pub dead: i64,
    pub bytes: i64,
}

impl<'b> Meter<'b> {
    pub(super) async fn open(bed: &'b BenchServer, db: &'b Db) -> anyhow::Result<Self> {
        Ok(Self { bed, db, watching: bed.connect().await? })
    }

    pub(super) async fn mark(&mut self) -> anyhow::Result<Mark> {
        let wal_bytes =
            sqlx::query_scalar("select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::double precision")
                .fetch_one(&mut self.watching)
                .await?;
        Ok(Mark { wal_bytes, postgres_us: process::cpu_us(self.bed.postmaster()?) })
    }

    /// What was done between two moments, and what it cost since a mark that was set before.
    pub(super) async fn phase(
        &mut self,
        since: Mark,
        (began, ended): (Instant, Instant),
        payments: usize,
        worker_us: f64,
    ) -> anyhow::Result<Phase> {
        let now = self.mark().await?;
        Ok(Phase {
            payments: payments as f64,
            seconds: ended.saturating_duration_since(began).as_secs_f64(),
            worker_us,
            postgres_us: now.postgres_us - since.postgres_us,
            wal_bytes: now.wal_bytes - since.wal_bytes,
        })
    }

    /// Complete once nobody is connected any more, which is waited for.
    pub(super) async fn counts(&mut self) -> anyhow::Result<ServerCounts> {
        let began = Instant::now();
        while self.connected().await? > 0 && began.elapsed() < QUIET_WITHIN {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let commits = sqlx::query_scalar(
            "select coalesce(sum(xact_commit), 0)::bigint from pg_stat_database where datname = $1",
        )
        .bind(&self.db.name)
        .fetch_one(&mut self.watching)
        .await?;
        let mut inside = self.db.connect().await?;
        let counts: ServerCounts = sqlx::query_as(
            "select coalesce(sum(n_tup_upd), 0)::bigint as updated, coalesce(sum(n_tup_hot_upd), 0)::bigint as updated_in_place,
                    coalesce(sum(n_tup_del), 0)::bigint as deleted, coalesce(sum(n_dead_tup), 0)::bigint as dead,
                    pg_database_size(current_database()) as bytes
               from pg_stat_user_tables",
        )
        .fetch_one(&mut inside)
        .await?;
        inside.close().await?;
        Ok(ServerCounts { commits, ..counts })
    }

    async fn connected(&mut self) -> anyhow::Result<i64> {
        Ok(sqlx::query_scalar(
            "select count(*) from pg_stat_activity where datname = $1 and backend_type = 'client backend'",
        )
        .bind(&self.db.name)
        .fetch_one(&mut self.watching)
        .await?)
    }
}

impl Phase {
    pub(super) fn per_second(&self) -> f64 {
        self.payments / self.seconds
    }
}
