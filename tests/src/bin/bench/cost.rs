//! What one claim costs, in time and in buffers.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use outbox::lease::{ClaimLimit, Executor};
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{Connection, PgConnection};

use crate::bed::Db;
use crate::payments::{LEASE_SECONDS, completions};

const BUFFER_ROUNDS: usize = 7;

/// Room on rails, as a host would say it, without a lower bound.
pub(crate) fn limits(rails: &[&str], rows: i32) -> Vec<ClaimLimit> {
    rails
        .iter()
        .map(|rail| ClaimLimit {
            rail_type: (*rail).to_owned(),
            rows_max: rows,
            lease_seconds: LEASE_SECONDS,
            after: None,
            only: None,
        })
        .collect()
}

/// Claims on one database, on connections that keep their plans.
#[derive(Debug)]
pub(crate) struct Claimer {
    executor: Executor,
    explaining: PgConnection,
}

impl Claimer {
    pub(crate) async fn new(db: &Db) -> Result<Self> {
        Ok(Self { executor: db.executor("bench"), explaining: db.superuser().await? })
    }

    /// Milliseconds of a claim with its commit. What it leased is completed afterwards, off the clock.
    pub(crate) async fn timed(&self, rows: i32, limits: &[ClaimLimit]) -> Result<f64> {
        let started = Instant::now();
        let leases = self.executor.claim(rows, limits, 100).await?;
        let elapsed_ms = started.elapsed().as_secs_f64() * 1000.0;
        ensure!(i32::try_from(leases.len())? == rows, "{} rows instead of {rows} were leased", leases.len());
        for answer in self.executor.complete_batch(&completions(&leases)).await? {
            answer?;
        }
        Ok(elapsed_ms)
    }

    /// Buffers that a claim looks at, in a transaction that is rolled back.
    pub(crate) async fn buffers(&mut self, rows: i32, limits: &[ClaimLimit]) -> Result<f64> {
        let mut transaction = self.explaining.begin().await?;
        let (Json(plan),): (Json<Value>,) = sqlx::query_as(
            "explain (analyze, buffers, format json)
             select * from symphony.claim_outbox_batch($1, 'bench', $2, $3, $4, $5, $6, 100)",
        )
        .bind(rows)
        .bind(LEASE_SECONDS)
        .bind(limits.iter().map(|limit| limit.rail_type.as_str()).collect::<Vec<_>>())
        .bind(limits.iter().map(|limit| limit.rows_max).collect::<Vec<_>>())
        .bind(limits.iter().map(|limit| limit.lease_seconds).collect::<Vec<_>>())
        .bind(limits.iter().map(|limit| limit.after).collect::<Vec<_>>())
        .fetch_one(&mut *transaction)
        .await?;
        transaction.rollback().await?;
        let plan = plan.pointer("/0/Plan").context("a plan without a plan")?;
        let figure = |name: &str| {
            plan.get(name).and_then(Value::as_f64).with_context(|| format!("a plan without {name}"))
        };
        let leased = figure("Actual Rows")?;
        ensure!(leased == f64::from(rows), "{leased} rows instead of {rows} were leased");
        Ok(figure("Shared Hit Blocks")? + figure("Shared Read Blocks")?)
    }
}

/// The cost of the same claim on two databases, in turns.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    pub(crate) times: (Vec<f64>, Vec<f64>),
    pub(crate) buffers: (Vec<f64>, Vec<f64>),
}

pub(crate) async fn compare(
    ours: &mut Claimer,
    against: &mut Claimer,
    rows: i32,
    limits: &[ClaimLimit],
    rounds: usize,
) -> Result<Pair> {
    let mut pair = Pair::default();
    // The first claims plan their statements and clear away what finished rows left in the index.
    for _ in 0..3 {
        for claimer in [&mut *ours, &mut *against] {
            claimer.timed(rows, limits).await?;
            claimer.buffers(rows, limits).await?;
        }
    }
    for _ in 0..rounds {
        pair.times.0.push(ours.timed(rows, limits).await?);
        pair.times.1.push(against.timed(rows, limits).await?);
    }
    for _ in 0..BUFFER_ROUNDS {
        for (claimer, samples) in [(&mut *ours, &mut pair.buffers.0), (&mut *against, &mut pair.buffers.1)] {
            samples.push(claimer.buffers(rows, limits).await?);
            // Those rows go now, for a claim that was rolled back leaves versions behind that the next would step over.
            claimer.timed(rows, limits).await?;
        }
    }
    Ok(pair)
}
