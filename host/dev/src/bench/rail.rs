//! The rail that everybody calls: it takes a payment, waits if it is told to, and says yes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

/// Thousands may come at once.
const WAITING_MAX: u32 = 8_192;
const BODY_BYTES_MAX: usize = 1 << 16;
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(10);
/// As the adapter of `railhost plugin new` speaks.
const PATH: &str = "/payments";
const KEY: &str = "x-reference-id";
const PAID: &str = r#"{"status":"PAID","reference":"paid-by-the-bench"}"#;

/// It answers until it is dropped.
#[derive(Debug)]
pub(super) struct BenchRail {
    pub url: String,
    seen: Arc<Seen>,
    server: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    /// When a payment came first: ours by its key, a rival's by its number.
    arrivals: Mutex<HashMap<String, DateTime<Utc>>>,
    answered: AtomicUsize,
}

#[derive(Deserialize)]
struct CallBody {
    n: Option<u64>,
}

impl BenchRail {
    pub(super) async fn start(delay: Duration) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, 1], 0).into())?;
        let listener = socket.listen(WAITING_MAX)?;
        let url = format!("http://{}{PATH}", listener.local_addr()?);
        let seen = Arc::new(Seen::default());
        let server = tokio::spawn(serve(listener, seen.clone(), delay));
        Ok(Self { url, seen, server })
    }

    /// Where it is, without the path.
    pub(super) fn base(&self) -> &str {
        self.url.trim_end_matches(PATH)
    }

    /// Payments that came.
    pub(super) fn arrived(&self) -> usize {
        self.seen.arrivals().len()
    }

    /// Requests that were answered.
    pub(super) fn answered(&self) -> usize {
        self.seen.answered.load(Ordering::Relaxed)
    }

    pub(super) fn arrivals(&self) -> HashMap<String, DateTime<Utc>> {
        self.seen.arrivals().clone()
    }
}

impl Drop for BenchRail {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Seen {
    fn arrivals(&self) -> MutexGuard<'_, HashMap<String, DateTime<Utc>>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>, delay: Duration) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(PAID));
        let key = request.headers().get(KEY).and_then(|key| key.to_str().ok()).map(str::to_owned);
        let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
        let body = body.ok().and_then(|body| serde_json::from_slice::<CallBody>(&body.to_bytes()).ok());
        match body.and_then(|body| key.or_else(|| Some(body.n?.to_string()))) {
            Some(name) => {
                self.arrivals().entry(name).or_insert_with(Utc::now);
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
            }
            None => *response.status_mut() = StatusCode::BAD_REQUEST,
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        response
    }
}

async fn serve(listener: TcpListener, seen: Arc<Seen>, delay: Duration) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            continue;
        };
        // Where it cannot be set the answers are a little later, no more.
        stream.set_nodelay(true).ok();
        let seen = seen.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let seen = seen.clone();
                async move { Ok::<_, Infallible>(seen.answer(request, delay).await) }
            });
            // What goes wrong on one connection is its other end's to notice.
            http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await.ok();
        });
    }
}
