//! The engine: one per process, with everything about it said aloud.

use std::path::Path;
use std::sync::Arc;
use std::{fs, thread};

use tokio::sync::Semaphore;
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::p2::bindings::{cli, clocks, random};
use wasmtime_wasi::random::WasiRandom;

use super::cache::Cache;
use super::compile::{CompileLimits, Compiler};
use super::definition::Profile;
use super::engine::{TICK, config};
use super::error::LoadError;
use super::gate::{Resolve, Resolver};
use super::guest::GuestState;
use super::limits::{INSTANCES_MAX, MEMORIES_MAX, MEMORY_MIB_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX};

/// Calls at a time, where nothing else is asked for. While a rail is waited for a call is a connection and a payment: its guest is
/// gone.
pub const CALLS_DEFAULT: usize = 5_000;
/// Guests that may exist at a time, for each worker of the runtime: one computes, the others were interrupted by a tick.
const GUESTS_PER_WORKER: usize = 8;
const GUESTS_MIN: usize = 32;
/// What one instance takes of the kernel's limit on mappings, measured, and what the rest of the process may need.
const MAPPINGS_PER_GUEST: usize = 6;
const MAPPINGS_RESERVED: usize = 10_000;
/// Linux's own default, for where it cannot be read.
const MAPPINGS_DEFAULT: usize = 65_530;

/// Pages of a slot that stay mapped for its next instance: more than a Rust adapter touches.
const KEPT_MEMORY_BYTES: usize = 1024 * 1024;
const KEPT_TABLE_BYTES: usize = 16 * 1024;

/// What adapters run in.
pub struct Sandbox {
    pub(super) engine: Engine,
    strict: Linker<GuestState>,
    inert: Linker<GuestState>,
    /// Open calls.
    pub(super) call_permits: Arc<Semaphore>,
    pub(super) calls_max: usize,
    /// Guests that exist.
    pub(super) guests: Arc<Semaphore>,
    guests_max: usize,
    pub(super) cache: Cache,
    pub(super) compiler: Compiler,
    pub(super) resolver: Arc<dyn Resolve>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("calls_max", &self.calls_max).finish_non_exhaustive()
    }
}

/// How a sandbox is set up.
#[derive(Debug, Clone)]
pub struct SandboxOptions {
    /// Calls at a time.
    pub calls_max: usize,
    pub resolver: Arc<dyn Resolve>,
    pub allocation: Allocation,
    pub compile: CompileLimits,
}

/// Where instances live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// In slots that are reserved at the start and cleaned between calls.
    Pooled,
    /// Mapped for each call anew: slower, for machines that limit the address space of a process.
    OnDemand,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            calls_max: CALLS_DEFAULT,
            resolver: Arc::new(Resolver),
            allocation: Allocation::Pooled,
            compile: CompileLimits::default(),
        }
    }
}

impl Sandbox {
    /// Compiled code goes to `cache`. It is made by `compiler`, which is a `railhost` of this build.
    pub fn new(cache: &Path, compiler: &Path, options: SandboxOptions) -> Result<Self, LoadError> {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let guests_max = (workers * GUESTS_PER_WORKER).max(GUESTS_MIN).min(mappings_allow());
        let calls_max = options.calls_max.max(1);
        let failed =
            |error: wasmtime::Error| LoadError::Compile(format!("the engine does not start: {error:#}"));
        let allocation = match options.allocation {
            Allocation::Pooled => InstanceAllocationStrategy::Pooling(pool(guests_max)),
            Allocation::OnDemand => InstanceAllocationStrategy::OnDemand,
        };
        let engine = Engine::new(&config(allocation)).map_err(failed)?;
        let strict = linker(&engine, Profile::Strict).map_err(failed)?;
        let inert = linker(&engine, Profile::Inert).map_err(failed)?;
        tick(&engine);
        let call_permits = Arc::new(Semaphore::new(calls_max));
        Ok(Self {
            strict,
            inert,
            call_permits,
            calls_max,
            guests: Arc::new(Semaphore::new(guests_max)),
            guests_max,
            cache: Cache::open(cache)?,
            compiler: Compiler::new(compiler, options.compile, &engine),
            resolver: options.resolver,
            engine,
        })
    }

    pub(super) fn linker(&self, profile: Profile) -> &Linker<GuestState> {
        match profile {
            Profile::Strict => &self.strict,
            Profile::Inert => &self.inert,
        }
    }

    /// Calls that could start now.
    pub fn free(&self) -> usize {
        self.call_permits.available_permits()
    }

    /// Guests that could start now, and how many there may be.
    pub fn guests(&self) -> (usize, usize) {
        (self.guests.available_permits(), self.guests_max)
    }

    /// Instances, memories, tables and stacks in use: all zero when nothing runs.
    pub fn in_use(&self) -> [usize; 4] {
        self.engine.pooling_allocator_metrics().map_or([0; 4], |metrics| {
            [metrics.component_instances() as usize, metrics.memories(), metrics.tables(), metrics.stacks()]
        })
    }
}

/// Past the kernel's limit on mappings the process aborts, so the pool ends well below it.
fn mappings_allow() -> usize {
    let limit =
        fs::read_to_string("/proc/sys/vm/max_map_count").ok().and_then(|text| text.trim().parse().ok());
    (limit.unwrap_or(MAPPINGS_DEFAULT).saturating_sub(MAPPINGS_RESERVED) / MAPPINGS_PER_GUEST).max(1)
}

fn pool(guests_max: usize) -> PoolingAllocationConfig {
    // For Rust adapters at full load, and room for the largest component besides.
    let count = |each: usize, most: usize| u32::try_from(guests_max * each + most).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(count(1, 0))
        .total_core_instances(count(8, INSTANCES_MAX))
        .total_memories(count(1, MEMORIES_MAX))
        .total_tables(count(4, TABLES_MAX))
        .total_stacks(count(1, 0))
        .max_component_instance_size(8 << 20)
        .max_core_instance_size(4 << 20)
        .max_core_instances_per_component(INSTANCES_MAX as u32)
        .max_memories_per_component(MEMORIES_MAX as u32)
        .max_tables_per_component(TABLES_MAX as u32)
        .max_memory_size(MEMORY_MIB_MAX as usize * 1024 * 1024)
        .table_elements(TABLE_ELEMENTS_MAX)
        .linear_memory_keep_resident(KEPT_MEMORY_BYTES)
        .table_keep_resident(KEPT_TABLE_BYTES)
        .max_unused_warm_slots(100)
        // Where the kernel can say which pages were written, only those are cleaned.
        .pagemap_scan(Enabled::Auto);
    pool
}

fn linker(engine: &Engine, profile: Profile) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    match profile {
        // Files and sockets are not linked: a component that imports them cannot even be put together.
        Profile::Strict => {
            let l = &mut linker;
            wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)?;
            cli::environment::add_to_linker::<GuestState, WasiCli>(l, GuestState::cli)?;
            cli::exit::add_to_linker::<GuestState, WasiCli>(l, GuestState::cli)?;
            cli::terminal_input::add_to_linker::<GuestState, WasiCli>(l, GuestState::cli)?;
            cli::terminal_output::add_to_linker::<GuestState, WasiCli>(l, GuestState::cli)?;
            cli::terminal_stdin::add_to_linker::<GuestState, WasiCli>(l, GuestState::cli)?;
            cli::terminal_stdout::add_to_linker::<GuestState, WasiCli>(l, GuestState::cli)?;
            cli::terminal_stderr::add_to_linker::<GuestState, WasiCli>(l, GuestState::cli)?;
            random::insecure::add_to_linker::<GuestState, WasiRandom>(l, random_of)?;
            random::insecure_seed::add_to_linker::<GuestState, WasiRandom>(l, random_of)?;
        }
        Profile::Inert => wasmtime_wasi::p2::add_to_linker_async(&mut linker)?,
    }
    // In the place of the usual one: a guest waits for nothing.
    linker.allow_shadowing(true);
    clocks::monotonic_clock::add_to_linker::<GuestState, HasSelf<GuestState>>(&mut linker, |state| state)?;
    Ok(linker)
}

fn random_of(state: &mut GuestState) -> &mut wasmtime_wasi::random::WasiRandomCtx {
    use wasmtime_wasi::WasiView;
    state.ctx().ctx.random()
}

/// A plain thread: an executor that guests keep busy could not tick. It ends with the engine.
fn tick(engine: &Engine) {
    let engine = engine.weak();
    thread::spawn(move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(TICK);
        }
    });
}
