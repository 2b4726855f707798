//! Whether this host can do its work, and how much of it waits.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outbox::Error;
use outbox::lease::Executor;
use outbox::read::Reader;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::metrics::Metrics;

/// A database that has not answered within this time is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);
const QUEUE_COUNTED_EVERY: Duration = Duration::from_secs(10);
/// To count a long queue takes long: counting gets no more than this part of the time.
const QUEUE_COUNTED_SHARE: u32 = 20;

/// Ready: the database answers, the schema fits, the executor may log in, outcomes can be written, and nobody said stop. Adapters are
/// loaded before any page is answered.
#[derive(Debug, Clone)]
pub struct Health {
    pub reader: Reader,
    /// It leases with a login of its own, which may be wrong on its own.
    pub executor: Executor,
    pub metrics: Arc<Metrics>,
    /// True from when the host was told to stop: it takes nothing new.
    pub draining: watch::Receiver<bool>,
}

impl observe::HealthSource for Health {
    fn metrics(&self) -> prometheus::Result<String> {
        self.metrics.text()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        self.is_ready().boxed()
    }
}

impl Health {
    async fn is_ready(&self) -> Result<(), String> {
        let unwritten = self.metrics.writes.writes_waiting.get();
        if *self.draining.borrow() {
            return Err("draining".to_owned());
        }
        if unwritten > 0 {
            return Err(format!("{unwritten} batches of outcomes cannot be written"));
        }
        match timeout(READY_WITHIN, self.ask_database()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(told(&error)),
            Err(_) => Err("the database does not answer".to_owned()),
        }
    }

    /// The connections are open already: a probe costs the database a few short statements.
    async fn ask_database(&self) -> Result<(), Error> {
        self.reader.schema_serves().await?;
        self.executor.next_due_at(&[]).await.map(drop)
    }

    /// Counts the queue for as long as it is polled.
    pub async fn count_queue(&self) -> Infallible {
        loop {
            let started = Instant::now();
            match self.reader.queue().await {
                Ok(counts) => self.metrics.count_queue(&counts),
                Err(error) => {
                    self.metrics.queue.queue_counts_failed.inc();
                    tracing::warn!(%error, "the queue was not counted: {error}");
                }
            }
            tokio::time::sleep(QUEUE_COUNTED_EVERY.max(started.elapsed() * QUEUE_COUNTED_SHARE)).await;
        }
    }
}

/// Where the database is and who logs in stands in the log. Whoever finds this page must not see it.
fn told(error: &Error) -> String {
    match error {
        Error::Unreachable(_) => "the database cannot be reached".to_owned(),
        Error::Denied(_) | Error::LoginRefused(_) => "the database does not let this host in".to_owned(),
        Error::Schema(what) => what.clone(),
        _ => "the database answers with an error".to_owned(),
    }
}
