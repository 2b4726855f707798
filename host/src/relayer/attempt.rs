//! One leased payment through one attempt.

use std::sync::Arc;
use std::time::Instant;

use chrono::TimeDelta;

use super::Host;
use super::breaker::Sign;
use super::claim::rand_share;
use super::history::History;
use super::lane::Lane;
use super::schedule::{self, Manner, Step};
use crate::outbox::complete::{Outcome, State};
use crate::outbox::lease::Lease;
use crate::outcome::{self, Class, Decision};
use crate::payment::{Instruction, Origin, Violation};
use crate::rail::artifact::Digest;
use crate::rail::{self, CallError, Heard, Loaded, Task};

/// How an attempt ended.
pub(super) enum End {
    /// With something to write down.
    Outcome(Box<Outcome>),
    /// Before anything was handed to the rail.
    Unused,
}

/// Carries one payment through one attempt.
///
/// The order is the safety argument: the lease is on disk before the rail can hear of it, and nothing after the call may fail
/// in a way that forgets it. A host that dies in here leaves the row leased, to be repaired and asked about.
pub(super) async fn run(host: &Host, lane: &Lane, lease: &Lease, sent: Instant) -> End {
    let history: History = match &lease.past {
        None => History::default(),
        Some(past) => match serde_json::from_value(past.0.clone()) {
            Ok(history) => history,
            Err(error) => {
                tracing::error!(payment = %lease.outbox_id, %error, "its past cannot be read: {error}");
                return End::Outcome(Box::new(Outcome {
                    error_message: Some(format!("its past cannot be read: {error}")),
                    retry_delay_seconds: Some(60.0),
                    ..Outcome::new(State::Retryable)
                }));
            }
        },
    };
    let loaded = lane.rail.current();
    let (loaded, task) = match schedule::step(lease.unsettled, &history, &Manner::of(&loaded)) {
        Step::Write(outcome) => return End::Outcome(outcome),
        Step::Disburse => (loaded, Task::Disburse),
        Step::Ask => {
            let sender = history.sender().and_then(Digest::parse);
            (sender.map_or(loaded, |digest| lane.rail.preferring(&digest)), Task::Query)
        }
    };
    let manner = Manner::of(&loaded);
    let decided = match read(lease) {
        Err(violations) => Some((invalid(task, &violations), None)),
        Ok(instruction) => call(host, lane, &loaded, lease, task, Arc::new(instruction)).await,
    };
    let Some((decision, attempt)) = decided else { return End::Unused };
    if lane.breaker.saw(sign(task, &decision), Instant::now()) {
        tracing::warn!(rail = lane.rail.name, "{}: breaker open: {:?}", lane.rail.name, decision.message);
    }
    let now = lease.claimed_at + TimeDelta::from_std(sent.elapsed()).unwrap_or_default();
    let mut outcome =
        schedule::outcome(decision, lease.attempt_count + 1, &history, &manner, now, rand_share());
    outcome.adapter_digest = Some(*loaded.digest.as_bytes());
    outcome.latency_ms = attempt.map(|attempt| attempt.took.as_millis() as i32);
    End::Outcome(Box::new(outcome))
}

fn read(lease: &Lease) -> Result<Instruction, Vec<Violation>> {
    let origin = Origin {
        outbox_id: lease.outbox_id,
        instruction_id: lease.instruction_id.clone(),
        participant_id: lease.participant_id.clone(),
        sequence_id: lease.sequence_id.unsigned_abs(),
    };
    Instruction::read(origin, lease.payload.clone(), lease.attempt_count.unsigned_abs() + 1)
}

/// A payment that was never sent is refused for good; one that was is never judged by new rules.
fn invalid(task: Task, violations: &[Violation]) -> Decision {
    match task {
        Task::Query => Decision::unasked(violations),
        Task::Disburse | Task::Validate => Decision::invalid(violations),
    }
}

/// None if the rail was not called after all.
async fn call(
    host: &Host,
    lane: &Lane,
    loaded: &Loaded,
    lease: &Lease,
    task: Task,
    instruction: Arc<Instruction>,
) -> Option<(Decision, Option<rail::Attempt>)> {
    let trusted_until = host.flights().get(&lease.outbox_id)?.trusted_until;
    if host.is_stopping() || Instant::now() + loaded.timeouts.call() > trusted_until {
        return None;
    }
    if task == Task::Disburse {
        if !lane.breaker.admit(Instant::now()) {
            return None;
        }
        if loaded.hand_over_marks {
            let marked = host.executor.mark_handed_over(&[lease.held()]).await;
            if !marked.is_ok_and(|marked| marked.contains(&lease.outbox_id)) {
                lane.breaker.unused(Instant::now());
                return None;
            }
        }
    }
    let attempt = loaded.call(&host.sandbox, task, instruction, Some(trusted_until)).await;
    let failed = match &attempt.heard {
        Heard::Failed(error) => Some(error),
        _ => None,
    };
    host.metrics.called(&lane.rail.name, attempt.took, failed);
    if matches!(failed, Some(CallError::Busy(_))) {
        lane.breaker.unused(Instant::now());
        return None;
    }
    for line in &attempt.log {
        tracing::debug!(
            rail = lane.rail.name,
            payment = %lease.outbox_id,
            digest = %attempt.digest,
            fields = ?line.fields,
            "{}: {}: {}", lane.rail.name, line.level, line.message
        );
    }
    let decision = match task {
        Task::Query => outcome::query(loaded.kind, &attempt.heard, &attempt.witness, &loaded.codes),
        Task::Disburse | Task::Validate => {
            outcome::disburse(loaded.kind, &attempt.heard, &attempt.witness, &loaded.codes)
        }
    };
    Some((decision, Some(attempt)))
}

/// What a decision says about the rail, not about the payment.
fn sign(task: Task, decision: &Decision) -> Sign {
    match decision.class {
        _ if decision.opens_breaker => Sign::Hold,
        // Questions go on while the breaker is open; they do not close it.
        Class::Unknown | Class::Retryable if task == Task::Disburse => Sign::Bad,
        _ => Sign::Good,
    }
}
