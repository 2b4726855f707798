//! The floor: claim and complete by two statements that check nothing, with no host around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::bed::Db;
use super::meter::{Meter, Phase};
use super::names::MOCK;
use super::process;

const CLAIM: &str = include_str!("floor/claim.sql");
const COMPLETE: &str = include_str!("floor/complete.sql");
/// The planner gets the same hints as in the shipped functions.
const HINTS: &str = "set jit = off; set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off;
                     set enable_hashjoin = off; set enable_mergejoin = off; set plan_cache_mode = force_generic_plan";
const CONNECTIONS: usize = 2;
const ROWS_PER_BATCH: i32 = 500;
/// Long enough that no lease runs out in a measurement.
const LEASE_SECONDS: f64 = 600.0;
const PAUSE_WHEN_EMPTY: Duration = Duration::from_millis(1);

pub(super) const SETTINGS: &str = "2 connections, batches of 500";
pub(super) const LACKS: [&str; 4] = ["any call", "fencing", "retries and repair", "switches and order"];

/// As much of a claimed row as completing it needs.
#[derive(sqlx::FromRow)]
struct Claimed {
    outbox_id: Uuid,
    lease_token: Uuid,
    sequence_id: i64,
}

/// Claims and completes so many payments.
pub(super) async fn empty(db: &Db, meter: &mut Meter<'_>, payments: usize) -> anyhow::Result<Phase> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = db.connect().await?;
        sqlx::raw_sql(HINTS).execute(&mut connection).await?;
        connections.push(connection);
    }
    let done = Arc::new(AtomicUsize::new(0));
    let (mark, cpu_us) = (meter.mark().await?, process::own_cpu_us());
    let began = Instant::now();
    let mut lanes = JoinSet::new();
    for (number, connection) in connections.into_iter().enumerate() {
        lanes.spawn(work(connection, format!("floor-{number}"), payments, done.clone()));
    }
    while let Some(ended) = lanes.join_next().await {
        ended??;
    }
    let ended = Instant::now();
    meter.phase(mark, (began, ended), payments, process::own_cpu_us() - cpu_us).await
}

async fn work(
    mut connection: PgConnection,
    worker: String,
    payments: usize,
    done: Arc<AtomicUsize>,
) -> anyhow::Result<()> {
    while done.load(Ordering::Relaxed) < payments {
        let leases: Vec<Claimed> = sqlx::query_as(CLAIM)
            .bind(ROWS_PER_BATCH)
            .bind(&worker)
            .bind(LEASE_SECONDS)
            .bind(MOCK)
            .fetch_all(&mut connection)
            .await?;
        if leases.is_empty() {
            tokio::time::sleep(PAUSE_WHEN_EMPTY).await;
            continue;
        }
        let references: Vec<_> =
            leases.iter().map(|lease| format!("reference-{}", lease.sequence_id)).collect();
        let written: Vec<(Uuid, Option<String>)> = sqlx::query_as(COMPLETE)
            .bind(&worker)
            .bind(leases.iter().map(|lease| lease.outbox_id).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| lease.lease_token).collect::<Vec<_>>())
            .bind(vec!["DISPATCHED"; leases.len()])
            .bind(references)
            .bind(vec![1_i32; leases.len()])
            .fetch_all(&mut connection)
            .await?;
        // A benchmark that loses rows measures something else.
        ensure!(written.len() == leases.len(), "{} of {} were written", written.len(), leases.len());
        done.fetch_add(leases.len(), Ordering::Relaxed);
    }
    Ok(connection.close().await?)
}
