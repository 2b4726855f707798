//! One guest, from its first instruction to its last.

use wasmtime::component::Instance;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};
use wasmtime_wasi::I32Exit;

use faults::{CrashPoint, crash_point};
use payment::plain;

use super::engine::TICK;
use super::guest::{Excess, GuestState};
use super::loaded::Loaded;
use super::sandbox::Sandbox;
use verdict::call_error::CallError;

impl Loaded {
    /// Runs a guest from its first instruction to its last: when this returns nothing is left of it.
    pub(super) async fn guest<T>(
        &self,
        sandbox: &Sandbox,
        log: &mut Vec<String>,
        speak: impl AsyncFnOnce(&Instance, &mut Store<GuestState>) -> Result<T, CallAbort>,
    ) -> Result<T, CallError> {
        if self.revoked.contains(&self.digest) {
            return Err(CallError::Revoked(self.digest));
        }
        let busy = |_| CallError::Busy(sandbox.calls_max);
        // A rail that computes much delays only its own calls: others have the rest of the workers.
        let _turn = self.computing.acquire().await.map_err(busy)?;
        let _guest = sandbox.guests.acquire().await.map_err(busy)?;
        let mut store = self.store(sandbox);
        let spoken = async {
            let instance = self.adapter.instantiate_async(&mut store).await.map_err(CallAbort::Start)?;
            crash_point(CrashPoint::InstanceReady);
            speak(&instance, &mut store).await
        }
        .await;
        let output = store.into_data().output.text();
        let lines = output.lines().filter(|line| !line.trim().is_empty());
        log.extend(lines.map(|line| plain(line).into_owned()));
        spoken.map_err(|ended| match ended {
            CallAbort::Named(error) => error,
            CallAbort::Engine(error) => name(&error, &output, sandbox),
            CallAbort::Start(error) => match name(&error, &output, sandbox) {
                CallError::Resources(why) => CallError::Mismatch(why),
                other => other,
            },
        })
    }

    fn store(&self, sandbox: &Sandbox) -> Store<GuestState> {
        let limits = &self.limits;
        let mut store = Store::new(&sandbox.engine, GuestState::new(limits));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits.hostcall_bytes());
        store.set_epoch_deadline(1);
        let cpu_ms = limits.cpu_ms;
        let mut ticks_left = u128::from(cpu_ms).div_ceil(TICK.as_millis());
        // A tick that finds the guest running costs it one. Yielding keeps the executor live.
        store.epoch_deadline_callback(move |_| match ticks_left {
            0 => Err(Excess(CallError::Cpu(cpu_ms)).into()),
            _ => {
                ticks_left -= 1;
                // Through the runtime, which looks at its timers and sockets before it comes back to us.
                Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
            }
        });
        store
    }
}

/// The name of what ended a guest that left some output.
fn name(error: &wasmtime::Error, output: &str, sandbox: &Sandbox) -> CallError {
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return CallError::Busy(sandbox.calls_max);
    }
    if let Some(Excess(named)) = error.downcast_ref() {
        return named.clone();
    }
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return CallError::Trap(format!("it exited with code {code}"));
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => CallError::Stack,
        Some(trap) => {
            let last = output
                .lines()
                .rev()
                .find(|line| !line.trim().is_empty() && !line.starts_with("note:"))
                .unwrap_or_default();
            CallError::Trap(format!("{trap}: {}", plain(last)).trim_end_matches(": ").to_owned())
        }
        None => CallError::Resources(plain(&error.root_cause().to_string()).into_owned()),
    }
}

pub(super) enum CallAbort {
    /// There is no instance, or it is not of the contract.
    Start(wasmtime::Error),
    Engine(wasmtime::Error),
    Named(CallError),
}

impl From<CallError> for CallAbort {
    fn from(error: CallError) -> Self {
        Self::Named(error)
    }
}
