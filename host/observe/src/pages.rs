//! The pages of a host, for machines: `/metrics`, `/healthz` (the process), `/readyz` (whether it can do its work).

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Response, StatusCode};
use tokio::net::TcpListener;

use crate::listen::{self, Page};

/// What the pages look at.
pub trait HealthSource: Send + Sync + std::fmt::Debug {
    /// In the format that Prometheus reads.
    fn metrics(&self) -> prometheus::Result<String>;

    /// Why the host cannot do its work, in a sentence that anybody may read.
    fn ready(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// Answers for as long as it is polled. The address is bound already, so that it could be refused at the start.
pub async fn serve(listener: TcpListener, health: Arc<dyn HealthSource>) -> Infallible {
    listen::answer(listener, move |request| {
        let health = health.clone();
        async move { answer(health.as_ref(), request.uri().path()).await }
    })
    .await
}

async fn answer(health: &dyn HealthSource, path: &str) -> Response<Page> {
    let (status, text) = match path {
        "/metrics" => match health.metrics() {
            Ok(text) => (StatusCode::OK, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        "/healthz" => (StatusCode::OK, "alive\n".to_owned()),
        "/readyz" => match health.ready().await {
            Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
            Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        },
        _ => (StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".to_owned()),
    };
    let mut response = listen::page(status, text);
    let kind = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}
