//! The host's side of a call: what an adapter's imports do. All state is the call's own; nothing here outlives it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use secrecy::ExposeSecret;
use tokio::io::AsyncWrite;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Result};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::aside::Aside;
use super::contract::imported::{http, log, settings, tokens, types, vault};
use super::desk::{Desk, Inside};
use super::egress::rules::Operation;
use super::egress::{Failure, Outgoing, Passage};
use super::error::CallError;
use super::journal::Journal;
use super::limits::{
    INSTANCES_MAX, Limits, MEMORIES_MAX, RANDOM_BYTES_MAX, RESOURCES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX,
};
use super::vault::Problem;

const NOT_NOW: &str = "nothing is signed but for disburse and query-status";

/// One call.
pub(super) struct State {
    inside: Arc<Inside>,
    /// Held by a request on its way.
    pub desk: Arc<AsyncMutex<Desk>>,
    pub aside: Aside,
    pub journal: Journal,
    pub output: Output,
    pub limiter: Limiter,
    /// Made when it is asked for: most adapters need clock, chance and output only to fail.
    wasi: Option<WasiCtx>,
    table: ResourceTable,
}

impl State {
    pub(super) fn new(inside: Arc<Inside>, limits: &Limits, passage: Passage) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        Self {
            desk: Arc::new(AsyncMutex::new(Desk::new(inside.clone(), passage))),
            aside: Aside::default(),
            journal: Journal::new(limits.log_kib as usize * 1024),
            limiter: Limiter { memory_bytes_max: limits.memory_bytes(), memory_mib: limits.memory_mib },
            output: Output::new(limits.log_kib as usize * 1024),
            wasi: None,
            table,
            inside,
        }
    }

    /// A signature belongs to a request, and only a payment or a question about one makes requests.
    fn may_sign(&self) -> Result<bool> {
        Ok(self.desk()?.passage.operation != Operation::Validate)
    }

    /// A guest asks for one thing at a time, so the desk is free whenever it asks.
    pub(super) fn desk(&self) -> Result<AsyncMutexGuard<'_, Desk>> {
        Ok(self.desk.try_lock()?)
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let ctx = self.wasi.get_or_insert_with(|| {
            WasiCtx::builder()
                .stdout(self.output.clone())
                .stderr(self.output.clone())
                .max_random_size(RANDOM_BYTES_MAX)
                .allow_tcp(false)
                .allow_udp(false)
                .allow_ip_name_lookup(false)
                .build()
        });
        WasiCtxView { ctx, table: &mut self.table }
    }
}

impl types::Host for State {}

impl http::Host for State {
    async fn send(&mut self, request: http::Request) -> Result<Result<http::Response, http::Failure>> {
        let outgoing = Outgoing {
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: request.body,
        };
        let mut desk = self.desk.clone().try_lock_owned()?;
        Ok(match self.aside.run(async move || desk.send(outgoing).await).await {
            Ok(reply) => {
                Ok(http::Response { status: reply.status, headers: reply.headers, body: reply.body })
            }
            Err(Failure::Denied(why)) => Err(http::Failure::Denied(why)),
            Err(Failure::NotSent(why)) => Err(http::Failure::NotSent(why)),
            Err(Failure::MaybeSent(why)) => Err(http::Failure::MaybeSent(why)),
            Err(Failure::Limit(why)) => Err(http::Failure::Limit(why)),
        })
    }
}

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String, fields: Vec<(String, String)>) -> Result<()> {
        let level = match level {
            log::Level::Debug => tracing::Level::DEBUG,
            log::Level::Info => tracing::Level::INFO,
            log::Level::Warn => tracing::Level::WARN,
            log::Level::Error => tracing::Level::ERROR,
        };
        let desk = self.desk.try_lock()?;
        desk.veiled(|veils| self.journal.write(level, &message, &fields, veils));
        Ok(())
    }
}

impl settings::Host for State {
    fn get(&mut self, name: String) -> Result<Option<String>> {
        Ok(self.inside.settings.get(&name).cloned())
    }
}

impl From<Problem> for vault::Problem {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Unknown(what) => Self::Unknown(what),
            Problem::Unfit(what) => Self::Unfit(what),
        }
    }
}

impl vault::Host for State {
    fn handle(&mut self, name: String) -> Result<Result<String, vault::Problem>> {
        Ok(self.desk()?.handle(name).map_err(Into::into))
    }

    fn sign(&mut self, key: String, message: Vec<u8>) -> Result<Result<Vec<u8>, vault::Problem>> {
        if !self.may_sign()? {
            return Ok(Err(vault::Problem::Unfit(NOT_NOW.to_owned())));
        }
        Ok(self.inside.vault.sign(&key, &message).map_err(Into::into))
    }

    fn hmac(&mut self, key: String, message: Vec<u8>) -> Result<Result<Vec<u8>, vault::Problem>> {
        if !self.may_sign()? {
            return Ok(Err(vault::Problem::Unfit(NOT_NOW.to_owned())));
        }
        Ok(self.inside.vault.hmac(&key, &message).map_err(Into::into))
    }

    fn encrypt(&mut self, key: String, text: vault::Plaintext) -> Result<Result<Vec<u8>, vault::Problem>> {
        let vault = &self.inside.vault;
        Ok(match text {
            vault::Plaintext::Bytes(bytes) => vault.encrypt(&key, &bytes).map_err(Into::into),
            vault::Plaintext::Secret(name) => match vault.secret(&name) {
                Some(secret) => vault.encrypt(&key, secret.expose_secret().as_bytes()).map_err(Into::into),
                None => Err(vault::Problem::Unknown(name)),
            },
        })
    }
}

impl tokens::Host for State {
    async fn current(&mut self, name: String) -> Result<Result<Option<String>, vault::Problem>> {
        Ok(self.desk()?.token(name).await.map_err(Into::into))
    }

    fn reject(&mut self, handle: String) -> Result<()> {
        self.desk()?.reject(&handle);
        Ok(())
    }
}

/// Refuses growth beyond the rail's limits, by an error that ends the call under its own name.
#[derive(Debug)]
pub(super) struct Limiter {
    memory_bytes_max: usize,
    memory_mib: u32,
}

/// An excess, on its way through the engine.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct Excess(pub CallError);

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        match desired > self.memory_bytes_max {
            true => Err(Excess(CallError::Memory(self.memory_mib)).into()),
            false => Ok(true),
        }
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        match desired > TABLE_ELEMENTS_MAX {
            true => Err(Excess(CallError::Table(TABLE_ELEMENTS_MAX)).into()),
            false => Ok(true),
        }
    }

    fn instances(&self) -> usize {
        INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }
}

/// Standard output and error of a guest: kept up to a limit, swallowed beyond it.
#[derive(Debug, Clone)]
pub(super) struct Output {
    kept: Arc<Mutex<Vec<u8>>>,
    bytes_max: usize,
}

impl Output {
    fn new(bytes_max: usize) -> Self {
        Self { kept: Arc::default(), bytes_max }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = self.bytes_max.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(&bytes[..room]);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(4096)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}
