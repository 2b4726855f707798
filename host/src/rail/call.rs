//! One call: a fresh instance, a deadline, and whatever the adapter says or does within it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;
use wasmtime::component::Instance;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};
use wasmtime_wasi::I32Exit;

use crate::faults::{CrashPoint, crash_point};
use crate::payment::{Instruction, Violation, plain};

use super::artifact::Digest;
use super::contract::{self, RailAdapter};
use super::desk::Desk;
use super::egress::rules::Operation;
use super::egress::{Departure, Passage, Witness};
use super::error::CallError;
use super::host::{Excess, State};
use super::journal::Line;
use super::loaded::Loaded;
use super::sandbox::{Sandbox, TICK};

/// What an adapter is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Validate, and where nothing is wrong disburse, in one instance.
    Disburse,
    Query,
    /// Validate alone.
    Validate,
}

/// A code that the rail gave, and the field in which it stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    pub field: String,
    pub value: String,
}

/// What the adapter says it learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Settled { reference: String, code: Option<Code> },
    Pending { reference: Option<String>, code: Option<Code> },
    Declined { code: Option<Code>, message: String },
    NotFound,
    NotSent { reason: String },
    Unclear { code: Option<Code>, detail: String },
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Answer(Answer),
    /// Nothing is wrong with the payment, and no more was asked.
    Valid,
    Invalid(Vec<Violation>),
    Failed(CallError),
}

/// A call and all that the host knows of it.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub heard: Heard,
    pub witness: Witness,
    /// The component that spoke.
    pub digest: Digest,
    pub log: Vec<Line>,
    pub took: Duration,
}

/// What an adapter says of itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Description {
    pub name: String,
    pub version: String,
    pub currencies: Vec<String>,
    pub can_query: bool,
    pub settings: Vec<Need>,
    pub secrets: Vec<Need>,
    pub keys: Vec<Need>,
    pub tokens: Vec<Need>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Need {
    pub name: String,
    pub required: bool,
    pub purpose: String,
}

impl Loaded {
    /// Calls the adapter. It always comes back, by `call_ms` and one tick at the latest. Nothing begins to leave after
    /// `send_before`.
    pub async fn call(
        &self,
        sandbox: &Sandbox,
        task: Task,
        instruction: Arc<Instruction>,
        send_before: Option<Instant>,
    ) -> Attempt {
        let told = contract::instruction(&instruction, &self.timeouts);
        let operation = match task {
            Task::Query => Operation::Query,
            Task::Disburse | Task::Validate => Operation::Validate,
        };
        let departure =
            Departure { before: send_before, component: Some((self.digest, self.revoked.clone())) };
        let passage = Passage::new(operation, Some(instruction), departure);
        let functions = &self.functions;
        self.run(sandbox, passage, async move |instance: &Instance, store: &mut Store<State>| {
            if task == Task::Query {
                let answer = contract::call(&functions.query_status, instance, store, &told);
                return Ok(Heard::Answer(contract::answer_to_query(answer.await.map_err(Ended::Engine)?)?));
            }
            let valid = contract::call(&functions.validate, instance, store, &told);
            match valid.await.map_err(Ended::Engine)? {
                Err(found) => Ok(Heard::Invalid(contract::violations(found)?)),
                Ok(()) if task == Task::Validate => Ok(Heard::Valid),
                Ok(()) => {
                    store.data().desk().map_err(Ended::Engine)?.passage.operation = Operation::Disburse;
                    let answer = contract::call(&functions.disburse, instance, store, &told);
                    Ok(Heard::Answer(contract::answer_to_disburse(answer.await.map_err(Ended::Engine)?)?))
                }
            }
        })
        .await
    }

    /// Compares all its functions with the contract, and asks the adapter who it is. Nothing can leave.
    pub(super) async fn describe(&self, sandbox: &Sandbox) -> Result<Description, CallError> {
        let mut described = None;
        let passage = Passage::new(Operation::Validate, None, Departure::default());
        let attempt = self
            .run(sandbox, passage, async |instance: &Instance, store: &mut Store<State>| {
                let adapter = RailAdapter::new(&mut *store, instance).map_err(Ended::Start)?;
                let said =
                    adapter.symphony_rail_adapter().call_describe(store).await.map_err(Ended::Engine)?;
                described = Some(contract::description(said));
                Ok(Heard::Valid)
            })
            .await;
        match (attempt.heard, described) {
            (Heard::Failed(error), _) => Err(error),
            (_, Some(description)) => Ok(description),
            (_, None) => Err(CallError::BadAnswer("no description".to_owned())),
        }
    }

    async fn run(
        &self,
        sandbox: &Sandbox,
        passage: Passage,
        speak: impl AsyncFnOnce(&Instance, &mut Store<State>) -> Result<Heard, Ended>,
    ) -> Attempt {
        let started = Instant::now();
        if self.revoked.contains(&self.digest) {
            let heard = Heard::Failed(CallError::Revoked(self.digest));
            return self.attempt(heard, Witness::default(), Vec::new(), started);
        }
        let Ok(_place) = sandbox.places.try_acquire() else {
            return self.attempt(
                Heard::Failed(CallError::Busy(sandbox.calls_max)),
                Witness::default(),
                Vec::new(),
                started,
            );
        };
        let mut store = self.store(sandbox, passage);
        let aside = store.data().aside.clone();
        let deadline = tokio::time::Instant::from_std(started + self.timeouts.call());
        let spoken = timeout_at(
            deadline,
            aside.beside(async {
                let instance = self.adapter.instantiate_async(&mut store).await.map_err(Ended::Start)?;
                crash_point(CrashPoint::InstanceReady);
                speak(&instance, &mut store).await
            }),
        )
        .await;
        // After a trap or a cancelled call the instance is unusable; what the host noted about it is not.
        let State { desk, mut journal, output, .. } = store.into_data();
        let desk = desk.lock().await;
        let output = desk.safe(&output.text());
        let name = |error: &wasmtime::Error| match error.downcast_ref::<PoolConcurrencyLimitError>() {
            Some(_) => CallError::Busy(sandbox.calls_max),
            None => name(error, &output, &desk),
        };
        let heard = match spoken {
            Ok(Ok(heard)) => heard,
            Ok(Err(Ended::Named(error))) => Heard::Failed(error),
            Ok(Err(Ended::Engine(error))) => Heard::Failed(name(&error)),
            Ok(Err(Ended::Start(error))) => Heard::Failed(match name(&error) {
                CallError::Resources(why) => CallError::Mismatch(why),
                other => other,
            }),
            Err(_) => Heard::Failed(CallError::Deadline(self.timeouts.call())),
        };
        for line in output.lines().filter(|line| !line.trim().is_empty()) {
            journal.write(tracing::Level::INFO, line, &[("stream".to_owned(), "output".to_owned())], &[]);
        }
        self.attempt(heard, desk.passage.witness(), journal.finish(), started)
    }

    fn attempt(&self, heard: Heard, witness: Witness, log: Vec<Line>, started: Instant) -> Attempt {
        Attempt { heard, witness, digest: self.digest, log, took: started.elapsed() }
    }

    fn store(&self, sandbox: &Sandbox, passage: Passage) -> Store<State> {
        let limits = &self.limits;
        let mut store = Store::new(&sandbox.engine, State::new(self.inside.clone(), limits, passage));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits.hostcall_bytes());
        store.set_epoch_deadline(1);
        let cpu_ms = limits.cpu_ms;
        let mut ticks_left = u128::from(cpu_ms).div_ceil(TICK.as_millis());
        // A tick that finds the guest running costs it one; time in which it waits is free. Yielding keeps the executor live.
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

/// The name of what ended a call, whose guest left some output.
fn name(error: &wasmtime::Error, output: &str, desk: &Desk) -> CallError {
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
        None => CallError::Resources(plain(&desk.safe(&error.root_cause().to_string())).into_owned()),
    }
}

enum Ended {
    /// There is no instance, or it is not of the contract.
    Start(wasmtime::Error),
    Engine(wasmtime::Error),
    Named(CallError),
}

impl From<CallError> for Ended {
    fn from(error: CallError) -> Self {
        Self::Named(error)
    }
}
