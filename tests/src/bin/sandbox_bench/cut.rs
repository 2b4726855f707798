//! Calls that have to be ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::adapter_rig::{AdapterRig, instruction};
use rail::{Sandbox, SandboxOptions, Task};
use verdict::answer::CallResult;
use verdict::call_error::CallError;
use verdict::witness::Sent;

use super::parked::{SilentRail, load};
use super::{Spread, descriptors, micros, resident_kib, row, timed};

const CPU_MS: u32 = 50;
/// Calls at a time.
const AT_ONCE: usize = 400;
/// Guests of a rail take turns: long enough that most calls have sent their request by then.
const CALL_MS: u32 = 50;

pub(crate) fn endless_loop(calls: usize) -> Result<()> {
    // One thread for all: what else it runs shows whether the executor stays live.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let rig = AdapterRig::new().await;
        let loaded = rig.load_with("endless_loop", &format!("limits = {{ cpu_ms = {CPU_MS} }}")).await;
        let beats = Arc::new(AtomicUsize::new(0));
        let heart = tokio::spawn({
            let beats = beats.clone();
            async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    beats.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let mut samples = Vec::new();
        for _ in 0..calls {
            let (attempt, took) = timed(rig.disburse(&loaded)).await;
            ensure!(attempt.heard == CallResult::Failed(CallError::Cpu(CPU_MS)), "{attempt:?}");
            samples.push(took);
        }
        heart.abort();
        let each = beats.load(Ordering::Relaxed) as f64 / calls as f64;
        let spread = Spread::of(samples);
        row(
            &format!("endless loop with a budget of {CPU_MS} ms, ticks of 2 ms"),
            &format!(
                "p50 {}, p99 {}; the executor ran other work {each:.0} times meanwhile",
                micros(spread.p50()),
                micros(spread.at(0.99))
            ),
            "–",
            "–",
            "budget + one tick, executor live",
        );
        Ok(())
    })
}

pub(crate) fn cancelled(calls: usize) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let folder = tempfile::tempdir()?;
        let sandbox = Arc::new(Sandbox::new(folder.path(), harness::railhost_path(), SandboxOptions { calls_max: AT_ONCE, ..SandboxOptions::default() })?);
        // A silent rail keeps every connection; a new one now and then keeps its own memory small.
        let mut seen = Vec::new();
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let (descriptors_before, tasks_before) = (descriptors(), tasks());
        let mut waiting = 0;
        for part in 0..10 {
            let rail = SilentRail::start()?;
            let deadline = format!("timeouts = {{ call_ms = {CALL_MS} }}");
            let loaded = Arc::new(load(&sandbox, &rail, &deadline).await?);
            let mut left = calls / 10;
            while left > 0 {
                let now = left.min(AT_ONCE);
                left -= now;
                let batch: Vec<_> = (0..now)
                    .map(|_| {
                        let (loaded, sandbox) = (loaded.clone(), sandbox.clone());
                        tokio::spawn(async move { loaded.call(&sandbox, Task::Disburse, instruction(), None).await })
                    })
                    .collect();
                for call in batch {
                    let attempt = call.await?;
                    ensure!(matches!(attempt.heard, CallResult::Failed(CallError::Deadline(_))), "{attempt:?}");
                    waiting += usize::from(attempt.witness.money_left() == Sent::Body);
                }
            }
            ensure!(sandbox.in_use() == [0; 4], "part {part}: {:?} are in use", sandbox.in_use());
            ensure!(sandbox.free() == AT_ONCE, "part {part}: {} places are free", sandbox.free());
            seen.push(resident_kib() / 1024);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        row(
            &format!(
                "{calls} calls cancelled by a deadline of {CALL_MS} ms, {} % of them while the rail was waited for",
                waiting * 100 / calls
            ),
            &format!(
                "slots in use {:?}, descriptors {descriptors_before} → {}, tasks {tasks_before} → {}, resident {} MiB after a tenth, {} MiB at the end",
                sandbox.in_use(),
                descriptors(),
                tasks(),
                seen[0],
                seen[9]
            ),
            "–",
            "–",
            "back to where they were",
        );
        Ok(())
    })
}
