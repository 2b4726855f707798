//! The engine that runs adapters, and what it is told.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, Strategy};

/// Of every engine of this build, whether it runs code or makes it.
pub(super) fn config(allocation: InstanceAllocationStrategy) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .epoch_interruption(true)
        .consume_fuel(false)
        .concurrency_support(false)
        .max_wasm_stack(GUEST_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        .async_stack_zeroing(false)
        .memory_init_cow(true)
        .parallel_compilation(true)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(20))
        // No adapter needs these, and each is one more thing that can be wrong in a compiler.
        .wasm_tail_call(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_wide_arithmetic(false)
        .wasm_custom_page_sizes(false)
        .allocation_strategy(allocation);
    config
}

/// The unit in which processor time of guests is counted, and after which one that still runs lets others have their turn.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// The stack of a guest; the one of its fiber has to hold the host's frames too.
const GUEST_STACK_BYTES: usize = 512 * 1024;

const FIBER_STACK_BYTES: usize = 1024 * 1024;

/// The same for engines that can run the same code.
pub(super) fn engine_name(engine: &Engine) -> String {
    struct Collect(Sha256);
    impl Hasher for Collect {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut collect = Collect(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut collect);
    hex::encode(&collect.0.finalize()[..8])
}
