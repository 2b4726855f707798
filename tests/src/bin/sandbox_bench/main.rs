//! The figures of the sandbox: `cargo run --profile dist -p railhost-tests --bin sandbox_bench`.
//!
//! Ratios of two things measured in turns in one run. Nothing here fails because of a figure: the table says what was met.
//!
//! - `calls`: fresh instances for each call, pooled against mapped anew and against Extism · `http`: through the gate against plain
//!   hyper · `mtn`: the same with a real rail's adapter and its simulator
//! - `parked`: thousands of calls that wait for a silent rail · `start`: a warm cache against compiling
//! - `cut`: endless loops, and calls cancelled by the hundred thousand

mod calls;
mod cut;
mod http;
mod mtn;
mod parked;
mod start;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use form::Meaning;
use rail::CallReport;
use verdict::answer::CallResult;

/// As the host has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "sandbox_bench", about = "Measures the sandbox against its targets")]
struct Arguments {
    /// A smoke test of the benchmark itself: everything scaled down.
    #[arg(long)]
    quick: bool,
    /// Only these: calls, extism, http, mtn, parked, start, loop, cancelled; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Serve as a rail that never answers, on a port that is printed; used by the benchmark itself.
    #[arg(long, hide = true)]
    silent_rail: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.silent_rail {
        return parked::silent_rail();
    }
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let scale = |full: usize| if arguments.quick { (full / 50).max(20) } else { full };
    println!("| what | ours | against | ratio | target |\n|---|---|---|---|---|");
    if wanted("calls") {
        calls::run(scale(20_000))?;
    }
    if wanted("extism") {
        calls::against_extism(scale(20_000))?;
    }
    if wanted("http") {
        http::run(scale(10_000))?;
    }
    if wanted("mtn") {
        mtn::run(scale(10_000))?;
    }
    if wanted("parked") {
        parked::run(scale(5_000))?;
    }
    if wanted("start") {
        start::run(if arguments.quick { 2 } else { 9 })?;
    }
    if wanted("loop") {
        cut::endless_loop(scale(100))?;
    }
    if wanted("cancelled") {
        cut::cancelled(scale(100_000))?;
    }
    Ok(())
}

/// Sorted durations.
struct Spread(Vec<Duration>);

impl Spread {
    fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    fn at(&self, share: f64) -> Duration {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }

    fn p50(&self) -> Duration {
        self.at(0.5)
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p50 {}, p99 {}", micros(self.p50()), micros(self.at(0.99)))
    }
}

fn micros(duration: Duration) -> String {
    match duration.as_micros() {
        0..10_000 => format!("{:.1} µs", duration.as_nanos() as f64 / 1e3),
        _ => format!("{:.1} ms", duration.as_micros() as f64 / 1e3),
    }
}

fn row(what: &str, ours: &str, against: &str, ratio: &str, target: &str) {
    println!("| {what} | {ours} | {against} | {ratio} | {target} |");
}

fn ratio(ours: Duration, against: Duration) -> f64 {
    ours.as_nanos() as f64 / against.as_nanos() as f64
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    let done = work.await;
    (done, started.elapsed())
}

/// What the reply to a call means, where its adapter has nothing against it.
fn meaning(attempt: &CallReport) -> Option<Meaning> {
    match &attempt.heard {
        CallResult::Reading(reading) if reading.veto.is_none() => reading.meaning,
        _ => None,
    }
}

/// Files and connections that this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map(Iterator::count).unwrap_or(0)
}

/// Memory that this process has mapped and present, in KiB.
fn resident_kib() -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A runtime on one thread, tied to the first processor: both sides of a comparison get the same one.
fn on_one_core<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let thread = std::thread::spawn(move || -> Result<T> {
        let mut set = rustix::thread::CpuSet::new();
        set.set(0);
        rustix::thread::sched_setaffinity(None, &set)?;
        Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work))
    });
    thread.join().map_err(|_| anyhow::anyhow!("the benchmark panicked"))?
}
