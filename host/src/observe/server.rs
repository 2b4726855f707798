//! The pages of a host, for machines: `/metrics`, `/healthz` (the process), `/readyz` (database and schema).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::Metrics;
use crate::outbox::read::Reader;
use crate::outbox::{Database, migrate};

/// A database that has not answered by then is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);
const QUEUE_COUNTED_EVERY: Duration = Duration::from_secs(10);
/// Counting a long queue takes its time: it gets no more than this part of it.
const QUEUE_COUNTED_SHARE: u32 = 20;
const HEAD_WITHIN: Duration = Duration::from_secs(5);

/// What the pages look at.
#[derive(Debug, Clone)]
pub struct Health {
    pub database: Database,
    pub metrics: Arc<Metrics>,
}

/// Answers for as long as it is polled. The address is bound already, so that it could be refused at the start.
pub async fn serve(listener: TcpListener, health: Health) -> Infallible {
    tokio::join!(accept(listener, &health), count_queue(&health)).0
}

async fn accept(listener: TcpListener, health: &Health) -> Infallible {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection was not taken: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let health = health.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let health = health.clone();
                async move { Ok::<_, Infallible>(answer(&health, &request).await) }
            });
            // What goes wrong on one connection is its other end's to notice.
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN)
                .serve_connection(TokioIo::new(stream), answer)
                .await
                .ok();
        });
    }
}

async fn answer(health: &Health, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/metrics" => match health.metrics.text() {
            Ok(text) => (StatusCode::OK, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        "/healthz" => (StatusCode::OK, "alive\n".to_owned()),
        "/readyz" => match timeout(READY_WITHIN, migrate::verify(&health.database)).await {
            Ok(Ok(_)) => (StatusCode::OK, "ready\n".to_owned()),
            Ok(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n".to_owned()),
        },
        _ => (StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

async fn count_queue(health: &Health) -> Infallible {
    let reader = Reader::new(&health.database);
    loop {
        let started = Instant::now();
        match reader.status().await {
            Ok(status) => health.metrics.queue(&status),
            Err(error) => {
                health.metrics.queue_counts_failed.inc();
                tracing::warn!(%error, "the queue was not counted: {error}");
            }
        }
        tokio::time::sleep(QUEUE_COUNTED_EVERY.max(started.elapsed() * QUEUE_COUNTED_SHARE)).await;
    }
}
