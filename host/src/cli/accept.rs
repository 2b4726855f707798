//! What is checked before a payment goes to the database, so that a wrong one uses up no key: the names, the money, and the
//! rail's own rules as its adapter knows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::Context;
use bytes::Bytes;
use http::Request;
use outbox::enqueue::NewPayment;
use payment::{Instruction, Money, PaymentIds, Violation};
use rail::{CallReport, Loaded, RailStub, Sandbox, Scripted, Task};
use uuid::Uuid;
use verdict::answer::CallResult;

use super::adapters;
use super::session::CommandContext;

/// The checks, with the adapters that were needed so far.
#[derive(Debug)]
pub(super) struct Acceptance<'a> {
    session: &'a CommandContext,
    /// Adapters are not asked.
    unchecked: bool,
    adapters: Option<Adapters>,
}

#[derive(Debug)]
struct Adapters {
    sandbox: Arc<Sandbox>,
    by_rail: BTreeMap<String, Arc<Loaded>>,
}

/// What came of some checks.
#[derive(Debug, Default)]
struct RefusedRows {
    /// By the payment's place.
    refused: Vec<(usize, String)>,
}

/// A payment that may be accepted, and its money.
#[derive(Debug)]
pub(super) struct Sound {
    pub payment: NewPayment,
    pub money: Money,
}

impl<'a> Acceptance<'a> {
    pub(super) fn new(session: &'a CommandContext, unchecked: bool) -> Self {
        Self { session, unchecked, adapters: None }
    }

    /// Checks one payment; a refusal names all that is wrong.
    pub(super) async fn check(&mut self, payment: NewPayment) -> anyhow::Result<Result<Sound, String>> {
        let mut checked = self.check_all(vec![payment]).await?;
        checked.pop().context("a payment was lost while it was checked")
    }

    /// Checks payments side by side, answering in their order. An error means that nothing could be checked.
    pub(super) async fn check_all(
        &mut self,
        payments: Vec<NewPayment>,
    ) -> anyhow::Result<Vec<Result<Sound, String>>> {
        let mut checked = Vec::with_capacity(payments.len());
        let mut asked = Vec::new();
        for (place, payment) in payments.into_iter().enumerate() {
            checked.push(match self.guard(&payment) {
                Ok(instruction) => {
                    let money = instruction.money.clone();
                    asked.push((place, payment.rail_type.clone(), Arc::new(instruction)));
                    Ok(Sound { payment, money })
                }
                Err(refusal) => Err(refusal),
            });
        }
        if !self.unchecked {
            for (place, refusal) in self.ask_adapters(asked).await? {
                checked[place] = Err(refusal);
            }
        }
        Ok(checked)
    }

    /// What needs no adapter.
    fn guard(&self, payment: &NewPayment) -> Result<Instruction, String> {
        let violations = payment.violations();
        if !violations.is_empty() {
            return Err(told(&violations));
        }
        self.session.know_rail(&payment.rail_type).map_err(|error| error.to_string())?;
        if !payment.payload.is_object() {
            return Err("payload: must be a JSON object".to_owned());
        }
        // The numbers that only the database gives out: no rule depends on them.
        let ids = PaymentIds {
            outbox_id: Uuid::nil(),
            instruction_id: payment.instruction_id.clone(),
            participant_id: payment.participant_id.clone(),
            sequence_id: 1,
        };
        Instruction::read(ids, &payment.payload.to_string(), 1).map_err(|violations| told(&violations))
    }

    async fn ask_adapters(
        &mut self,
        asked: Vec<(usize, String, Arc<Instruction>)>,
    ) -> anyhow::Result<Vec<(usize, String)>> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let tasks = at_a_time().min(self.session.config.adapters.calls_max);
        let adapters = match &mut self.adapters {
            Some(adapters) => adapters,
            none => {
                let sandbox = Arc::new(adapters::sandbox(&self.session.config)?);
                none.insert(Adapters { sandbox, by_rail: BTreeMap::new() })
            }
        };
        let mut work = Vec::with_capacity(asked.len());
        for (place, rail, instruction) in asked {
            let adapter = adapters.of(self.session, &rail).await?;
            work.push((place, adapter, instruction));
        }
        // A task per processor: a check waits for nothing.
        let share = work.len().div_ceil(tasks);
        let mut running = tokio::task::JoinSet::new();
        while !work.is_empty() {
            let part = work.split_off(work.len().saturating_sub(share));
            let sandbox = adapters.sandbox.clone();
            running.spawn(async move {
                let mut checked = RefusedRows::default();
                for (place, adapter, instruction) in part {
                    let report = adapter.call(&sandbox, Task::Validate, instruction.clone(), None).await;
                    checked.note(place, &instruction, report);
                }
                checked
            });
        }
        let mut refused = Vec::new();
        while let Some(part) = running.join_next().await {
            let part = part.context("a check ended early")?;
            refused.extend(part.refused);
        }
        Ok(refused)
    }
}

impl Adapters {
    /// Loaded once, without the rail's secrets and without a network.
    async fn of(&mut self, session: &CommandContext, rail: &str) -> anyhow::Result<Arc<Loaded>> {
        if let Some(loaded) = self.by_rail.get(rail) {
            return Ok(loaded.clone());
        }
        let definition = session.config.rails.get(rail).context("a rail is known by its file")?;
        let loaded = Loaded::offline(&self.sandbox, definition, Arc::new(NoNetwork)).await.with_context(|| {
            format!("payments of rail {rail} cannot be checked; --unchecked accepts them without the checks of its adapter")
        })?;
        let loaded = Arc::new(loaded);
        self.by_rail.insert(rail.to_owned(), loaded.clone());
        Ok(loaded)
    }
}

impl RefusedRows {
    fn note(&mut self, place: usize, instruction: &Instruction, report: CallReport) {
        let destination = &instruction.destination;
        let refusal = match report.heard {
            CallResult::Valid => return,
            CallResult::Invalid(violations) => destination.masked_in(&told(&violations)),
            CallResult::Failed(error) => format!("the rail's adapter failed while checking it: it {error}"),
            CallResult::Reading(_)
            | CallResult::Refused(_)
            | CallResult::Unanswered(_)
            | CallResult::Unready(_)
            | CallResult::Unprepared { .. } => {
                "the rail's adapter gave an answer of the wrong kind".to_owned()
            }
        };
        self.refused.push((place, refusal));
    }
}

fn told(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn at_a_time() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// A check of an adapter reaches nobody.
#[derive(Debug)]
struct NoNetwork;

impl RailStub for NoNetwork {
    fn play(&self, _: &str, _: &Request<Bytes>) -> Scripted {
        Scripted::Unreachable
    }
}
