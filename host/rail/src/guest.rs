//! What a guest finds around it: stand-ins for what its standard library imports, the same for every call, and limits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime::{ResourceLimiter, Result};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock;
use wasmtime_wasi::p2::{DynPollable, OutputStream, Pollable, StreamResult, subscribe};
use wasmtime_wasi::{Deterministic, HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView};

use super::limits::{
    INSTANCES_MAX, Limits, MEMORIES_MAX, RANDOM_BYTES_MAX, RESOURCES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX,
};
use verdict::call_error::CallError;

/// What belongs to one instance.
pub(super) struct GuestState {
    pub output: Output,
    pub limiter: Limiter,
    /// Made when it is asked for: most adapters need clock, randomness and output only to fail.
    wasi: Option<WasiCtx>,
    table: ResourceTable,
}

impl GuestState {
    pub(super) fn new(limits: &Limits) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        Self {
            limiter: Limiter::of(limits),
            output: Output::new(limits.log_kib as usize * 1024),
            wasi: None,
            table,
        }
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let ctx = self.wasi.get_or_insert_with(|| {
            WasiCtx::builder()
                .stdout(self.output.clone())
                .stderr(self.output.clone())
                .max_random_size(RANDOM_BYTES_MAX)
                .secure_random(fixed())
                .insecure_random(fixed())
                .insecure_random_seed(SEED)
                .wall_clock(Still)
                .monotonic_clock(Still)
                .allow_tcp(false)
                .allow_udp(false)
                .allow_ip_name_lookup(false)
                .build()
        });
        WasiCtxView { ctx, table: &mut self.table }
    }
}

/// Any number: it has only to be the same each time.
const SEED: u128 = 0x5e1e_c7ed_0000_0000_0000_0000_0000_0001;

/// Chance that is none: the same input gives the same output.
fn fixed() -> Deterministic {
    Deterministic::new(SEED.to_le_bytes().to_vec())
}

/// A clock that stands still.
struct Still;

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// 1 January 2026.
    fn now(&self) -> Duration {
        Duration::from_secs(1_767_225_600)
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1_000_000_000
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Waits are over at once.
impl monotonic_clock::Host for GuestState {
    fn now(&mut self) -> Result<u64> {
        Ok(HostMonotonicClock::now(&Still))
    }

    fn resolution(&mut self) -> Result<u64> {
        Ok(HostMonotonicClock::resolution(&Still))
    }

    fn subscribe_instant(&mut self, _: u64) -> Result<Resource<DynPollable>> {
        self.at_once()
    }

    fn subscribe_duration(&mut self, _: u64) -> Result<Resource<DynPollable>> {
        self.at_once()
    }
}

impl GuestState {
    fn at_once(&mut self) -> Result<Resource<DynPollable>> {
        let over = self.table.push(Over)?;
        subscribe(&mut self.table, over)
    }
}

struct Over;

#[wasmtime_wasi::async_trait]
impl Pollable for Over {
    async fn ready(&mut self) {}
}

/// Refuses growth beyond the rail's limits, by an error that ends the call under its own name.
#[derive(Debug)]
pub(super) struct Limiter {
    memory_bytes_max: usize,
    memory_mib: u32,
    /// Of all memories of the instance together.
    memory_bytes: usize,
    /// The same before the last growth, which may fail yet.
    before_growth: usize,
}

impl Limiter {
    fn of(limits: &Limits) -> Self {
        Self {
            memory_bytes_max: limits.memory_bytes(),
            memory_mib: limits.memory_mib,
            memory_bytes: 0,
            before_growth: 0,
        }
    }
}

/// An excess, on its way through the engine.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct Excess(pub CallError);

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        let wanted = self.memory_bytes.saturating_sub(current).saturating_add(desired);
        if wanted > self.memory_bytes_max {
            return Err(Excess(CallError::Memory(self.memory_mib)).into());
        }
        (self.before_growth, self.memory_bytes) = (self.memory_bytes, wanted);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> Result<()> {
        self.memory_bytes = self.before_growth;
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memories_of_an_instance_share_one_limit() {
        let mib = |count: usize| count << 20;
        let mut limiter = Limiter::of(&Limits { memory_mib: 64, ..Limits::default() });
        assert!(limiter.memory_growing(0, mib(40), None).expect("the first memory"));
        assert!(limiter.memory_growing(0, mib(20), None).expect("a second one"));
        assert!(limiter.memory_growing(mib(20), mib(24), None).expect("up to the limit"));
        assert!(limiter.memory_growing(mib(40), mib(41), None).is_err(), "one more");

        let mut limiter = Limiter::of(&Limits { memory_mib: 64, ..Limits::default() });
        assert!(limiter.memory_growing(0, mib(60), None).expect("it may grow"));
        limiter
            .memory_grow_failed(wasmtime::Error::msg("beyond the maximum that it declares"))
            .expect("noted");
        assert!(limiter.memory_growing(0, mib(60), None).expect("what failed is not counted"));
    }
}
