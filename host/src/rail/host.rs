//! The host's side of a call: what an adapter's imports do. All state is the call's own; nothing here outlives it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use secrecy::ExposeSecret;
use tokio::io::AsyncWrite;
use uuid::Uuid;
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Result};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::contract::imported::{http, log, settings, tokens, types, vault};
use super::egress::fill::{Handle, Veil};
use super::egress::{self, Gate, Outgoing, Passage, scrubbed};
use super::error::CallError;
use super::journal::Journal;
use super::limits::{
    INSTANCES_MAX, Limits, MEMORIES_MAX, RANDOM_BYTES_MAX, RESOURCES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX,
};
use super::tokens::{Asked, Errand, Tokens};
use super::vault::{Problem, Vault};

/// What all calls of a loaded rail share.
#[derive(Debug)]
pub(super) struct Inside {
    pub settings: std::collections::BTreeMap<String, String>,
    pub gate: Gate,
    pub vault: Vault,
    pub tokens: Tokens,
}

impl Inside {
    /// Over all that must not show: the rail's secrets, and its tokens of this moment.
    fn veils<'a>(&'a self, tokens: &'a [Arc<Veil>]) -> Vec<&'a Veil> {
        std::iter::once(self.vault.veil()).chain(tokens.iter().map(AsRef::as_ref)).collect()
    }
}

/// One call.
pub(super) struct State {
    inside: Arc<Inside>,
    pub passage: Passage,
    handles: Vec<Handle>,
    /// Handles of tokens: which token, and whether this call fetched it.
    token_handles: Vec<TokenHandle>,
    errands: Vec<(String, Errand)>,
    pub journal: Journal,
    pub output: Output,
    pub limiter: Limiter,
    wasi: WasiCtx,
    table: ResourceTable,
}

struct TokenHandle {
    text: String,
    name: String,
    generation: u64,
    fresh: bool,
}

impl State {
    pub(super) fn new(inside: Arc<Inside>, limits: &Limits, passage: Passage) -> Self {
        let output = Output::new(limits.log_kib as usize * 1024);
        let wasi = WasiCtx::builder()
            .stdout(output.clone())
            .stderr(output.clone())
            .max_random_size(RANDOM_BYTES_MAX)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        Self {
            passage,
            handles: Vec::new(),
            token_handles: Vec::new(),
            errands: Vec::new(),
            journal: Journal::new(limits.log_kib as usize * 1024),
            limiter: Limiter { memory_bytes_max: limits.memory_bytes(), memory_mib: limits.memory_mib },
            output,
            wasi,
            table,
            inside,
        }
    }

    /// Text that came from the guest or the rail, with nothing in it that must not be seen.
    pub(super) fn safe(&self, text: &str) -> String {
        let tokens = self.inside.tokens.veils();
        egress::fill::scrub_text(text, &self.inside.veils(&tokens))
    }

    fn token_handle(&mut self, name: &str, token: super::tokens::Token, fresh: bool) -> String {
        let text = new_handle();
        self.handles.push(Handle { text: text.clone(), name: name.to_owned(), value: token.value });
        self.token_handles.push(TokenHandle {
            text: text.clone(),
            name: name.to_owned(),
            generation: token.generation,
            fresh,
        });
        text
    }

    /// What the rail said about tokens: the ones that a session's reply brought, the ones that it no longer takes.
    fn settle_tokens(
        &mut self,
        endpoint: &egress::rules::Endpoint,
        used: &[String],
        reply: &mut egress::Reply,
    ) {
        if endpoint.is_session() && (200..300).contains(&reply.status) {
            let names: Vec<String> = self.inside.tokens.brought_by(&endpoint.name).cloned().collect();
            for name in names {
                let Some(token) = self.inside.tokens.take(&name, &reply.body) else { continue };
                let value = token.value.clone();
                let handle = self.token_handle(&name, token, true);
                reply.body =
                    egress::fill::replace(&reply.body, value.expose_secret().as_bytes(), handle.as_bytes());
                self.errands.retain(|(errand, _)| *errand != name);
            }
        }
        if matches!(reply.status, 401 | 403) {
            for handle in self.token_handles.iter().filter(|handle| used.contains(&handle.name)) {
                self.inside.tokens.reject(&handle.name, handle.generation);
            }
        }
    }
}

/// Unguessable, and worth nothing in another call.
fn new_handle() -> String {
    format!("handle-{}", Uuid::new_v4().simple())
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
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
        let inside = self.inside.clone();
        let fresh = |used: &[String]| {
            self.token_handles
                .iter()
                .filter(|handle| used.contains(&handle.name))
                .map(|handle| handle.fresh)
                .next_back()
        };
        match inside.gate.pass(&mut self.passage, &self.handles, fresh, outgoing).await {
            Ok(passed) => {
                let mut reply = passed.reply;
                self.settle_tokens(passed.endpoint, &passed.used, &mut reply);
                let tokens = inside.tokens.veils();
                let reply = scrubbed(reply, &inside.veils(&tokens));
                Ok(Ok(http::Response { status: reply.status, headers: reply.headers, body: reply.body }))
            }
            Err(failure) => Ok(Err(match failure {
                egress::Failure::Denied(why) => http::Failure::Denied(why),
                egress::Failure::NotSent(why) => http::Failure::NotSent(why),
                egress::Failure::MaybeSent(why) => http::Failure::MaybeSent(why),
                egress::Failure::Limit(why) => http::Failure::Limit(why),
            })),
        }
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
        let tokens = self.inside.tokens.veils();
        self.journal.write(level, &message, &fields, &self.inside.veils(&tokens));
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
        if let Some(handle) = self.handles.iter().find(|handle| handle.name == name) {
            return Ok(Ok(handle.text.clone()));
        }
        let Some(value) = self.inside.vault.secret(&name) else {
            return Ok(Err(vault::Problem::Unknown(name)));
        };
        let handle = Handle { text: new_handle(), name, value: value.clone() };
        let text = handle.text.clone();
        self.handles.push(handle);
        Ok(Ok(text))
    }

    fn sign(&mut self, key: String, message: Vec<u8>) -> Result<Result<Vec<u8>, vault::Problem>> {
        Ok(self.inside.vault.sign(&key, &message).map_err(Into::into))
    }

    fn hmac(&mut self, key: String, message: Vec<u8>) -> Result<Result<Vec<u8>, vault::Problem>> {
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
        // A handle of this call's own is given again while its token is taken.
        let inside = self.inside.clone();
        if self.errands.iter().any(|(errand, _)| *errand == name) {
            return Ok(Ok(None));
        }
        match inside.tokens.ask(&name).await {
            None => Ok(Err(vault::Problem::Unknown(name))),
            Some(Asked::Fetch(errand)) => {
                self.errands.push((name, errand));
                Ok(Ok(None))
            }
            Some(Asked::Ready(token)) => {
                let known =
                    |handle: &&TokenHandle| handle.name == name && handle.generation == token.generation;
                if let Some(handle) = self.token_handles.iter().find(known) {
                    return Ok(Ok(Some(handle.text.clone())));
                }
                Ok(Ok(Some(self.token_handle(&name, token, false))))
            }
        }
    }

    fn reject(&mut self, handle: String) -> Result<()> {
        if let Some(handle) = self.token_handles.iter().find(|known| known.text == handle) {
            self.inside.tokens.reject(&handle.name, handle.generation);
        }
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
