mod protocol;

use std::{env, ops::Range, sync::Arc, time::Duration};

use anyhow::{Result, bail};
use graphile_worker::{
    IntoTaskHandlerResult, LocalQueueConfig, TaskHandler, Worker, WorkerContext, WorkerOptions, WorkerUtils,
};
use protocol::{Countdown, Payload, Poster};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{PgPool, postgres::PgPoolOptions};

const TASK: &str = "pay";
const SCHEMA: &str = "graphile_worker";

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

/// The task that only counts.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Noop(Payload);

#[derive(Clone, Debug)]
struct Handled(Arc<Countdown>);

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = TASK;

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if !protocol::has_number(&self.0) {
            return Err("n is not an integer");
        }
        let Handled(count) = context.get_ext().expect("the worker was given a countdown");
        count.one();
        Ok(())
    }
}

/// The task that posts.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Call(Payload);

impl TaskHandler for Call {
    const IDENTIFIER: &'static str = TASK;

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let poster: &Poster = context.get_ext().expect("the worker was given a poster");
        poster.post(&self.0).await.map_err(|error| error.to_string())
    }
}

async fn connect(connections: u32) -> Result<PgPool> {
    let options = PgPoolOptions::new().min_connections(connections).max_connections(connections);
    Ok(options.connect(&env::var("DATABASE_URL")?).await?)
}

// The documented SQL function; `WorkerUtils::add_jobs` calls it too, but reads every row back.
const ADD: &str = "
    select count(*)
    from graphile_worker.add_jobs(array(
        select json_populate_recordset(null::graphile_worker.job_spec, $1::json)
    ))";

async fn insert(pool: PgPool, numbers: Range<i64>) -> Result<()> {
    let jobs = numbers.map(|n| json!({"identifier": TASK, "payload": protocol::job(n)})).collect::<Value>();
    sqlx::query(ADD).bind(jobs.to_string()).execute(&pool).await?;
    Ok(())
}

async fn options(
    concurrency: usize,
    queue: LocalQueueConfig,
    completions: Duration,
) -> Result<WorkerOptions> {
    Ok(WorkerOptions::default()
        .pg_pool(connect(10).await?)
        .schema(SCHEMA)
        .concurrency(concurrency)
        .poll_interval(Duration::from_millis(5))
        .local_queue(queue)
        .complete_job_batch_delay(completions)
        .listen_os_shutdown_signals(false))
}

async fn prepare() -> Result<()> {
    WorkerUtils::new(connect(1).await?, SCHEMA).migrate().await?;
    protocol::emit(json!({"event": "prepared", "version": env!("CARGO_PKG_VERSION")}));
    Ok(())
}

async fn enqueue(count: i64) -> Result<()> {
    let pool = connect(2).await?;
    protocol::ready();
    protocol::go().await?;
    protocol::enqueue(count, 5000, 2, |numbers| insert(pool.clone(), numbers)).await?;
    protocol::done();
    Ok(())
}

async fn work(count: i64) -> Result<()> {
    let handled = Arc::new(Countdown::new(count));
    let queue = LocalQueueConfig::default().with_size(5000);
    let worker = options(500, queue, Duration::from_millis(5))
        .await?
        .add_extension(Handled(handled.clone()))
        .define_job::<Noop>()
        .init()
        .await?;
    protocol::ready();
    protocol::go().await?;
    run(worker, async move {
        handled.zero().await;
        Ok(())
    })
    .await?;
    protocol::done();
    Ok(())
}

async fn call(url: &str, concurrency: usize) -> Result<()> {
    let queue = LocalQueueConfig::default().with_size(concurrency.max(500));
    let worker = options(concurrency, queue, Duration::from_millis(1))
        .await?
        .add_extension(Poster::new(url))
        .define_job::<Call>()
        .init()
        .await?;
    run(worker, async {
        protocol::ready();
        protocol::closed().await
    })
    .await
}

/// Runs the worker until `end`; it returns after the last batch of completions has been written.
async fn run(worker: Worker, end: impl Future<Output = Result<()>>) -> Result<()> {
    let worker = Arc::new(worker);
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { worker.run().await }
    });
    end.await?;
    worker.request_shutdown();
    running.await??;
    Ok(())
}

async fn produce(rate: f64, seconds: f64) -> Result<()> {
    let pool = connect(1).await?;
    protocol::ready();
    protocol::go().await?;
    protocol::produce(rate, seconds, |numbers| insert(pool.clone(), numbers)).await?;
    protocol::done();
    Ok(())
}
