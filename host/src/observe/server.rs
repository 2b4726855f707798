//! The pages of a host, for machines: `/metrics`, `/healthz` (the process), `/readyz` (database, schema, the executor's login, and
//! not draining; adapters are loaded before anything is answered).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Metrics;
use crate::listen::{self, Page};
use crate::outbox::Error;
use crate::outbox::lease::Executor;
use crate::outbox::read::Reader;

/// A database that has not answered by then is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);
const QUEUE_COUNTED_EVERY: Duration = Duration::from_secs(10);
/// Counting a long queue takes its time: it gets no more than this part of it.
const QUEUE_COUNTED_SHARE: u32 = 20;

/// What the pages look at.
#[derive(Debug, Clone)]
pub struct Health {
    pub reader: Reader,
    /// Leases with a login of its own, which may be wrong by itself.
    pub executor: Executor,
    pub metrics: Arc<Metrics>,
    /// True from when the host was told to stop: it takes nothing new.
    pub draining: watch::Receiver<bool>,
}

/// Answers for as long as it is polled. The address is bound already, so that it could be refused at the start.
pub async fn serve(listener: TcpListener, health: Health) -> Infallible {
    let asked = health.clone();
    let pages = listen::answer(listener, move |request| {
        let health = asked.clone();
        async move { answer(&health, request.uri().path()).await }
    });
    tokio::join!(pages, count_queue(&health)).0
}

async fn answer(health: &Health, path: &str) -> Response<Page> {
    let draining = *health.draining.borrow();
    let (status, text) = match path {
        "/metrics" => match health.metrics.text() {
            Ok(text) => (StatusCode::OK, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        "/healthz" => (StatusCode::OK, "alive\n".to_owned()),
        "/readyz" if draining => (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned()),
        "/readyz" if health.metrics.writes_waiting.get() > 0 => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{} batches of outcomes cannot be written\n", health.metrics.writes_waiting.get()),
        ),
        "/readyz" => match timeout(READY_WITHIN, ready(health)).await {
            Ok(Ok(())) => (StatusCode::OK, "ready\n".to_owned()),
            Ok(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", told(&error))),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n".to_owned()),
        },
        _ => (StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".to_owned()),
    };
    let mut response = listen::page(status, text);
    let kind = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

/// Where the database is and who logs in is for the log, not for whoever finds this page.
fn told(error: &Error) -> String {
    match error {
        Error::Unreachable(_) => "the database cannot be reached".to_owned(),
        Error::Denied(_) | Error::LoginRefused(_) => "the database does not let this host in".to_owned(),
        Error::Schema(what) => what.clone(),
        _ => "the database answers with an error".to_owned(),
    }
}

/// On connections that are open already: a probe costs the database two statements.
async fn ready(health: &Health) -> Result<(), Error> {
    health.reader.verify_schema().await?;
    health.executor.next_due_at(&[]).await.map(drop)
}

async fn count_queue(health: &Health) -> Infallible {
    loop {
        let started = Instant::now();
        match health.reader.queue().await {
            Ok(counts) => health.metrics.queue(&counts),
            Err(error) => {
                health.metrics.queue_counts_failed.inc();
                tracing::warn!(%error, "the queue was not counted: {error}");
            }
        }
        tokio::time::sleep(QUEUE_COUNTED_EVERY.max(started.elapsed() * QUEUE_COUNTED_SHARE)).await;
    }
}
