//! The same work by different ways: the shipped functions, loops, bare statements.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use outbox::enqueue::NewPayment;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::bed::Db;
use crate::payments::{RAIL, payments};

/// Long enough that no lease runs out in a measurement.
const LEASE_SECONDS: f64 = 600.0;
const WORKERS: usize = 2;
const PAUSE_WHEN_EMPTY: Duration = Duration::from_millis(1);

/// As much of a claimed row as completing it needs.
#[derive(sqlx::FromRow)]
struct Claimed {
    outbox_id: Uuid,
    lease_token: Uuid,
    sequence_id: i64,
}

/// Three statements with the same parameters and answers, whoever wrote them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    enqueue: &'static str,
    claim: &'static str,
    complete: &'static str,
    /// What its author would set for the session.
    settings: &'static str,
}

pub(crate) const SHIPPED: Way = Way {
    enqueue: "select outbox_id, refusal from symphony.enqueue_payment_outbox_batch($1, $2, $3, $4, $5) order by ordinal",
    claim: "select * from symphony.claim_outbox_batch($1, $2, $3, array[$4])",
    complete: "select outbox_id, refusal from symphony.complete_outbox_batch($1, $2, $3, $4, p_rail_references => $5, p_latencies_ms => $6) order by ordinal",
    settings: "",
};

pub(crate) const LOOPED: Way = Way {
    enqueue: "select outbox_id, refusal from bench.enqueue_payment_outbox_batch($1, $2, $3, $4, $5) order by ordinal",
    claim: "select * from bench.claim_outbox_batch($1, $2, $3, array[$4])",
    complete: "select outbox_id, refusal from bench.complete_outbox_batch($1, $2, $3, $4, $5, $6) order by ordinal",
    settings: "",
};

/// The planner gets the same hints as in the shipped functions.
pub(crate) const BARE: Way = Way {
    enqueue: SHIPPED.enqueue,
    claim: include_str!("../../../../host/dev/src/bench/floor/claim.sql"),
    complete: include_str!("../../../../host/dev/src/bench/floor/complete.sql"),
    settings: "set jit = off; set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off;
               set enable_hashjoin = off; set enable_mergejoin = off; set plan_cache_mode = force_generic_plan",
};

pub(crate) const LOOPED_SQL: &str = include_str!("../../../bench/looped.sql");

impl Way {
    /// Payments per second from the first enqueue to the last verdict: one connection enqueues, two claim and complete.
    pub(crate) async fn lifecycle(&self, db: &Db, rows: usize, batch: usize) -> Result<f64> {
        self.race(db, rows, batch, payments(rows)).await
    }

    /// Payments per second from the first claim to the last verdict of what is already there.
    pub(crate) async fn drain(&self, db: &Db, rows: usize, batch: usize) -> Result<f64> {
        self.race(db, rows, batch, Vec::new()).await
    }

    /// Puts payments into the queue without measuring.
    pub(crate) async fn fill(&self, db: &Db, rows: usize, batch: usize) -> Result<()> {
        let mut connection = self.connect(db).await?;
        self.enqueue(&mut connection, &payments(rows), batch).await
    }

    async fn race(&self, db: &Db, rows: usize, batch: usize, payments: Vec<NewPayment>) -> Result<f64> {
        // What earlier rounds left there is no part of this one.
        db.execute("delete from symphony.payment_outbox_claims").await?;
        let way = *self;
        let done = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        let mut connections = Vec::new();
        for _ in 0..=WORKERS {
            connections.push(self.connect(db).await?);
        }
        let started = Instant::now();
        if let Some(mut connection) = connections.pop() {
            tasks.spawn(async move { way.enqueue(&mut connection, &payments, batch).await });
        }
        for (n, mut connection) in connections.into_iter().enumerate() {
            let done = Arc::clone(&done);
            tasks.spawn(async move {
                way.work(&mut connection, &format!("worker-{n}"), batch, rows, &done).await
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(rows as f64 / started.elapsed().as_secs_f64())
    }

    async fn connect(&self, db: &Db) -> Result<PgConnection> {
        let mut connection = db.superuser().await?;
        sqlx::raw_sql(self.settings).execute(&mut connection).await?;
        Ok(connection)
    }

    async fn enqueue(
        &self,
        connection: &mut PgConnection,
        payments: &[NewPayment],
        batch: usize,
    ) -> Result<()> {
        for part in payments.chunks(batch) {
            let column = |pick: fn(&NewPayment) -> &str| part.iter().map(pick).collect::<Vec<_>>();
            let answers: Vec<(Option<Uuid>, Option<String>)> = sqlx::query_as(AssertSqlSafe(self.enqueue))
                .bind(column(|payment| &payment.instruction_id))
                .bind(column(|payment| &payment.participant_id))
                .bind(column(|payment| &payment.idempotency_key))
                .bind(column(|payment| &payment.rail_type))
                .bind(part.iter().map(|payment| Json(&payment.payload)).collect::<Vec<_>>())
                .fetch_all(&mut *connection)
                .await?;
            all_accepted(&answers, part.len())?;
        }
        Ok(())
    }

    async fn work(
        &self,
        connection: &mut PgConnection,
        worker: &str,
        batch: usize,
        rows: usize,
        done: &AtomicUsize,
    ) -> Result<()> {
        while done.load(Ordering::Relaxed) < rows {
            let leases: Vec<Claimed> = sqlx::query_as(AssertSqlSafe(self.claim))
                .bind(i32::try_from(batch)?)
                .bind(worker)
                .bind(LEASE_SECONDS)
                .bind(RAIL)
                .fetch_all(&mut *connection)
                .await?;
            if leases.is_empty() {
                tokio::time::sleep(PAUSE_WHEN_EMPTY).await;
                continue;
            }
            let answers: Vec<(Option<Uuid>, Option<String>)> = sqlx::query_as(AssertSqlSafe(self.complete))
                .bind(worker)
                .bind(leases.iter().map(|lease| lease.outbox_id).collect::<Vec<_>>())
                .bind(leases.iter().map(|lease| lease.lease_token).collect::<Vec<_>>())
                .bind(vec!["DISPATCHED"; leases.len()])
                .bind(
                    leases.iter().map(|lease| format!("reference-{}", lease.sequence_id)).collect::<Vec<_>>(),
                )
                .bind(vec![180_i32; leases.len()])
                .fetch_all(&mut *connection)
                .await?;
            all_accepted(&answers, leases.len())?;
            done.fetch_add(leases.len(), Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A benchmark that loses rows measures something else.
fn all_accepted(answers: &[(Option<Uuid>, Option<String>)], rows: usize) -> Result<()> {
    let accepted = answers.iter().filter(|(id, refusal)| id.is_some() && refusal.is_none()).count();
    ensure!(accepted == rows, "{accepted} of {rows} rows were accepted: {:?}", answers.first());
    Ok(())
}
