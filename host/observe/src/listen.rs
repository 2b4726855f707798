//! A plain HTTP server, for pages of our own.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub type Page = Full<Bytes>;

const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// So many connections at a time; more wait. Descriptors are for rails first.
const CONNECTIONS_MAX: usize = 256;
const CONNECTION_LASTS: Duration = Duration::from_secs(60);

pub fn page(status: StatusCode, text: impl Into<Bytes>) -> Response<Page> {
    let mut page = Response::new(Full::new(text.into()));
    *page.status_mut() = status;
    page
}

/// Answers for as long as it is polled. The address is bound already, so that it could be refused at the start.
pub async fn answer<F, A>(listener: TcpListener, answer: F) -> Infallible
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Response<Page>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection was not taken: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let answer = answer.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let answer = answer(request);
                async { Ok::<_, Infallible>(answer.await) }
            });
            let talk = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN)
                .serve_connection(TokioIo::new(stream), answer);
            // What goes wrong on one connection is its other end's to notice.
            tokio::time::timeout(CONNECTION_LASTS, talk).await.ok();
            drop(place);
        });
    }
}
