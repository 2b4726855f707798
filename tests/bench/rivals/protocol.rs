//! The driver protocol, shared by the Rust rivals: events on stdout, one line on stdin to go, its end to stop.

use std::{
    future::Future,
    io::Read,
    ops::Range,
    sync::{
        LazyLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, header::CONTENT_TYPE};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Map, Value, json};
use tokio::{task::JoinSet, time::Instant};

pub type Payload = Map<String, Value>;

static PAYLOAD: LazyLock<Payload> = LazyLock::new(|| {
    let text = std::env::var("BENCH_PAYLOAD").unwrap_or_else(|_| "{}".into());
    serde_json::from_str(&text).expect("BENCH_PAYLOAD is a JSON object")
});

pub fn emit(event: Value) {
    println!("{event}");
}

pub fn ready() {
    emit(json!({"event": "ready"}));
}

pub fn done() {
    emit(json!({"event": "done"}));
}

pub fn job(n: i64) -> Payload {
    let mut payload = PAYLOAD.clone();
    payload.insert("n".into(), n.into());
    payload
}

pub fn has_number(payload: &Payload) -> bool {
    payload.get("n").is_some_and(Value::is_i64)
}

pub async fn go() -> Result<()> {
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    Ok(())
}

pub async fn closed() -> Result<()> {
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}

/// Counts handled jobs down and wakes the waiter at zero.
#[derive(Debug)]
pub struct Countdown {
    left: AtomicI64,
    zero: tokio::sync::Notify,
}

impl Countdown {
    pub fn new(count: i64) -> Self {
        Self { left: AtomicI64::new(count), zero: tokio::sync::Notify::new() }
    }

    pub fn one(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.zero.notify_one();
        }
    }

    pub async fn zero(&self) {
        self.zero.notified().await;
    }
}

/// Adds `count` jobs in batches over a few connections at once; `insert` returns when its batch is committed.
pub async fn enqueue<F>(count: i64, batch: i64, lanes: usize, insert: impl Fn(Range<i64>) -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut running = JoinSet::new();
    for from in (0..count).step_by(batch as usize) {
        if running.len() == lanes {
            running.join_next().await.expect("a lane is busy")??;
        }
        running.spawn(insert(from..count.min(from + batch)));
    }
    while let Some(lane) = running.join_next().await {
        lane??;
    }
    Ok(())
}

/// Offers `rate` jobs a second; a slow insert delays the next one but drops nothing.
pub async fn produce<F>(rate: f64, seconds: f64, insert: impl Fn(Range<i64>) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let began = Instant::now();
    let mut from = 0;
    for tick in 1..=(seconds * 100.0) as u64 {
        tokio::time::sleep_until(began + Duration::from_millis(tick * 10)).await;
        let to = (tick as f64 * rate / 100.0) as i64;
        if to == from {
            continue;
        }
        insert(from..to).await?;
        let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64;
        emit(json!({"event": "committed", "from": from, "count": to - from, "at": at}));
        from = to;
    }
    Ok(())
}

/// Posts payloads over kept-alive connections.
#[derive(Clone, Debug)]
pub struct Poster {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

impl Poster {
    pub fn new(url: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), url: url.into() }
    }

    /// Returns after the whole 2xx reply.
    pub async fn post(&self, payload: &Payload) -> Result<()> {
        let body = Full::from(serde_json::to_vec(payload)?);
        let request = Request::post(&self.url).header(CONTENT_TYPE, "application/json").body(body)?;
        let reply = self.client.request(request).await?;
        ensure!(reply.status().is_success(), "status {}", reply.status());
        reply.into_body().collect().await?;
        Ok(())
    }
}
