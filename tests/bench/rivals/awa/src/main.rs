mod protocol;

use std::{env, ops::Range, sync::Arc, time::Duration};

use anyhow::{Result, bail};
use awa::{
    Client, ClientBuilder, InsertOpts, InsertParams, JobArgs, JobError, JobResult, QueueConfig, QueueStorage,
    QueueStorageConfig,
};
use protocol::{Countdown, Payload, Poster};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{PgPool, postgres::PgPoolOptions};

const QUEUE: &str = "pay";

#[derive(Serialize, Deserialize, JobArgs)]
#[serde(transparent)]
struct Pay {
    payload: Payload,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["prepare"] => prepare().await,
        ["enqueue", count] => enqueue(count.parse()?).await,
        ["work", count] => work(count.parse()?).await,
        ["call", url, concurrency] => call(url, concurrency.parse()?).await,
        ["produce", rate, seconds] => produce(rate.parse()?, seconds.parse()?).await,
        _ => bail!("one of prepare, enqueue, work, call, produce"),
    }
}

async fn connect(connections: u32) -> Result<PgPool> {
    let options = PgPoolOptions::new().min_connections(connections).max_connections(connections);
    Ok(options.connect(&env::var("DATABASE_URL")?).await?)
}

/// Producers and workers must agree on this.
fn storage_config() -> QueueStorageConfig {
    QueueStorageConfig { queue_stripe_count: 2, ..Default::default() }
}

fn storage() -> Result<Arc<QueueStorage>> {
    Ok(Arc::new(QueueStorage::new(storage_config())?))
}

/// A worker whose attempts carry no hard deadline, which lets the storage take its short path for claims.
fn worker(pool: &PgPool, max_workers: u32, claimers: u16, poll_interval: Duration) -> ClientBuilder {
    let queue = QueueConfig {
        max_workers,
        poll_interval,
        deadline_duration: Duration::ZERO,
        claimers,
        claim_batch_size: 128,
        ..QueueConfig::default()
    };
    // The crate's own default pace, which cannot be left out once the storage is configured.
    let rotate = Duration::from_secs(1);
    Client::builder(pool.clone()).queue(QUEUE, queue).queue_storage(storage_config(), rotate, rotate)
}

fn params(numbers: Range<i64>) -> Result<Vec<InsertParams>> {
    let opts = InsertOpts { queue: QUEUE.into(), ..Default::default() };
    let params = |n| awa::insert::params_with(&Pay { payload: protocol::job(n) }, opts.clone());
    Ok(numbers.map(params).collect::<Result<_, _>>()?)
}

async fn copy(pool: PgPool, storage: Arc<QueueStorage>, numbers: Range<i64>) -> Result<()> {
    storage.enqueue_params_copy(&pool, &params(numbers)?).await?;
    Ok(())
}

/// Quicker than a copy for a handful of jobs.
async fn insert(pool: &PgPool, storage: &QueueStorage, numbers: Range<i64>) -> Result<()> {
    storage.enqueue_params_batch(pool, &params(numbers)?).await?;
    Ok(())
}

async fn prepare() -> Result<()> {
    let pool = connect(1).await?;
    awa::migrations::run(&pool).await?;
    storage()?.install(&pool).await?;
    protocol::emit(json!({"event": "prepared", "version": env!("CARGO_PKG_VERSION")}));
    Ok(())
}

async fn enqueue(count: i64) -> Result<()> {
    let pool = connect(2).await?;
    let storage = storage()?;
    protocol::ready();
    protocol::go().await?;
    protocol::enqueue(count, 2000, 2, |numbers| copy(pool.clone(), storage.clone(), numbers)).await?;
    protocol::done();
    Ok(())
}

async fn work(count: i64) -> Result<()> {
    let pool = connect(10).await?;
    let handled = Arc::new(Countdown::new(count));
    let counter = handled.clone();
    let client = worker(&pool, 512, 2, Duration::from_millis(20))
        .register::<Pay, _, _>(move |pay, _| {
            let counter = counter.clone();
            async move {
                if !protocol::has_number(&pay.payload) {
                    return Err(JobError::terminal("n is not an integer"));
                }
                counter.one();
                Ok(JobResult::Completed)
            }
        })
        .build()?;
    protocol::ready();
    protocol::go().await?;
    client.start().await?;
    handled.zero().await;
    // Returns after the completions of all handled jobs have been written.
    client.shutdown(Duration::from_secs(60)).await;
    protocol::done();
    Ok(())
}

async fn call(url: &str, concurrency: u32) -> Result<()> {
    let pool = connect(10).await?;
    let poster = Poster::new(url);
    let client = worker(&pool, concurrency, 1, Duration::from_millis(10))
        .register::<Pay, _, _>(move |pay, _| {
            let poster = poster.clone();
            async move {
                poster
                    .post(&pay.payload)
                    .await
                    .map_err(|error| JobError::retryable_msg(error.to_string()))?;
                Ok(JobResult::Completed)
            }
        })
        .build()?;
    client.start().await?;
    protocol::ready();
    protocol::closed().await?;
    client.shutdown(Duration::from_secs(60)).await;
    Ok(())
}

async fn produce(rate: f64, seconds: f64) -> Result<()> {
    let pool = connect(1).await?;
    let storage = storage()?;
    protocol::ready();
    protocol::go().await?;
    protocol::produce(rate, seconds, |numbers| insert(&pool, &storage, numbers)).await?;
    protocol::done();
    Ok(())
}
