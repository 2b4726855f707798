//! A rail of our own: an HTTP server on loopback that remembers what it was asked and answers as a test tells it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub method: String,
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
    /// The number of the connection that it came over.
    pub connection: usize,
}

impl ReceivedRequest {
    /// What a guest had to say in it.
    pub fn note(&self) -> Option<String> {
        let body: serde_json::Value = serde_json::from_str(&self.body).ok()?;
        Some(body.get("note")?.as_str()?.to_owned())
    }
}

/// What the rail does with a request.
#[derive(Debug, Clone)]
pub enum Reply {
    Says(Response<String>),
    /// Reads the request and never answers.
    Hangs,
    /// Reads the request and closes the connection.
    HangsUp,
}

impl Reply {
    pub fn says(status: u16, body: &str) -> Self {
        Self::Says(Response::builder().status(status).body(body.to_owned()).expect("a reply"))
    }

    #[must_use]
    pub fn header(self, name: &'static str, value: &str) -> Self {
        match self {
            Self::Says(mut reply) => {
                reply.headers_mut().insert(name, value.parse().expect("a header"));
                Self::Says(reply)
            }
            other => other,
        }
    }
}

#[derive(Debug)]
pub struct StubRail {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
    forgetful: Arc<AtomicBool>,
    server: JoinHandle<()>,
}

impl Drop for StubRail {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl StubRail {
    /// Serves on a free port until it is dropped.
    pub async fn start(answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let forgetful = Arc::new(AtomicBool::new(false));
        let (answer, noted, forgets) = (Arc::new(answer), asked.clone(), forgetful.clone());
        let server = tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (answer, noted, forgets) = (answer.clone(), noted.clone(), forgets.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let noted = (!forgets.load(Ordering::Relaxed)).then(|| noted.clone());
                        serve(request, connection, answer.clone(), noted)
                    });
                    // A connection that we hang up ends with an error, which is what the test asked for.
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        Self { address, asked, forgetful, server }
    }

    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Keeps no record from now on: for measurements.
    pub fn forget(&self) {
        self.forgetful.store(true, Ordering::Relaxed);
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<ReceivedRequest> {
        self.asked.lock().expect("no panic").clone()
    }
}

#[derive(Debug)]
struct HangUp;

impl std::fmt::Display for HangUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hung up")
    }
}

impl std::error::Error for HangUp {}

async fn serve(
    request: Request<Incoming>,
    connection: usize,
    answer: Arc<impl Fn(&ReceivedRequest) -> Reply>,
    noted: Option<Arc<Mutex<Vec<ReceivedRequest>>>>,
) -> Result<Response<Full<Bytes>>, HangUp> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
    let asked = ReceivedRequest {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
        connection,
    };
    if let Some(noted) = noted {
        noted.lock().expect("no panic").push(asked.clone());
    }
    match answer(&asked) {
        Reply::Says(reply) => Ok(reply.map(|body| Full::new(Bytes::from(body)))),
        Reply::Hangs => std::future::pending::<Result<_, Infallible>>().await.map_err(|never| match never {}),
        Reply::HangsUp => Err(HangUp),
    }
}
