//! What an instance and a call may use. Every default is a number with a reason; a rail file may change it within the bounds beside
//! it.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;

/// What an instance may use. Each excess is an error with its own name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Linear memory, all of an instance together, enforced by `Limiter` (`guest.rs`), which `instance.rs` attaches. The pool of
    /// `sandbox.rs` is made for the largest. A Rust adapter that parses JSON stays below 2 MiB.
    pub memory_mib: u32,
    /// Time on the processor, counted in ticks while the guest runs.
    pub cpu_ms: u32,
    pub request_kib: u32,
    pub response_kib: u32,
    /// Headers of one message.
    pub header_kib: u32,
    /// What it may write to its standard output and error.
    pub log_kib: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_mib: 64, cpu_ms: 200, request_kib: 128, response_kib: 512, header_kib: 16, log_kib: 16 }
    }
}

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// One call from the first instance to the last reading.
    pub call_ms: u32,
    /// Name, TCP and TLS.
    pub connect_ms: u32,
    /// From the request to the first byte of the reply.
    pub first_byte_ms: u32,
    /// Between two pieces of the reply.
    pub idle_ms: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { call_ms: 30_000, connect_ms: 3_000, first_byte_ms: 20_000, idle_ms: 5_000 }
    }
}

/// The pool's slots are made for this much.
pub(super) const MEMORY_MIB_MAX: u32 = 512;
/// Enough for language runtimes; a Rust adapter has a few hundred.
pub(super) const TABLE_ELEMENTS_MAX: usize = 100_000;
pub(super) const TABLES_MAX: usize = 16;
/// Core instances within one component: the adapter, and the shims that the toolchain puts around it.
pub(super) const INSTANCES_MAX: usize = 32;
pub(super) const MEMORIES_MAX: usize = 2;
/// Handles that the host keeps for one call: streams, pollables, clocks.
pub(super) const RESOURCES_MAX: usize = 256;
/// Random bytes in one request.
pub(super) const RANDOM_BYTES_MAX: u64 = 4096;

impl Limits {
    pub(super) fn problem(&self) -> Option<String> {
        let bounds: [(&str, u32, RangeInclusive<u32>); 6] = [
            ("memory_mib", self.memory_mib, 1..=MEMORY_MIB_MAX),
            ("cpu_ms", self.cpu_ms, 10..=60_000),
            ("request_kib", self.request_kib, 1..=16_384),
            ("response_kib", self.response_kib, 1..=16_384),
            ("header_kib", self.header_kib, 1..=256),
            ("log_kib", self.log_kib, 0..=1_024),
        ];
        out_of_bounds("limits", &bounds)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_mib as usize * 1024 * 1024
    }

    /// What a guest may hand to the host at a time: its values and facts, and what it writes.
    pub(super) fn hostcall_bytes(&self) -> usize {
        (self.log_kib + 192) as usize * 1024
    }
}

impl Timeouts {
    pub(super) fn problem(&self) -> Option<String> {
        let bounds: [(&str, u32, RangeInclusive<u32>); 4] = [
            ("call_ms", self.call_ms, 10..=300_000),
            ("connect_ms", self.connect_ms, 10..=60_000),
            ("first_byte_ms", self.first_byte_ms, 10..=300_000),
            ("idle_ms", self.idle_ms, 10..=60_000),
        ];
        out_of_bounds("timeouts", &bounds)
    }

    pub(super) fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms.into())
    }

    pub(super) fn first_byte(&self) -> Duration {
        Duration::from_millis(self.first_byte_ms.into())
    }

    pub(super) fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms.into())
    }

    pub fn call(&self) -> Duration {
        Duration::from_millis(self.call_ms.into())
    }
}

fn out_of_bounds(section: &str, bounds: &[(&str, u32, RangeInclusive<u32>)]) -> Option<String> {
    let (name, value, range) = bounds.iter().find(|(_, value, range)| !range.contains(value))?;
    Some(format!("{section}.{name} is {value}, expected {} to {}", range.start(), range.end()))
}
