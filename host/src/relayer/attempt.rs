//! One leased payment through one attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::TimeDelta;

use super::breaker::Sign;
use super::history::History;
use super::lane::Lane;
use super::schedule::{self, Manner, Step};
use super::{Host, die};
use crate::faults::{self, CrashPoint, Guard, crash_point};
use crate::outbox::complete::{Outcome, State};
use crate::outbox::lease::Lease;
use crate::outcome::{self, Class, Decision, ErrorCode};
use crate::payment::{Instruction, Origin, RailKey, Violation};
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
///
/// `received` is when the claim's answer came. Counted from there, what we take for the database's time is never ahead of it.
pub(super) async fn run(host: &Host, lane: &Lane, lease: &Lease, received: Instant) -> End {
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
    if let Some(lost) = history.recovered_after(lease.claimed_at) {
        host.metrics.zombie_recovery_seconds.observe(lost.as_seconds_f64());
    }
    let loaded = lane.rail.current();
    let (loaded, task) =
        match schedule::step(lease.unsettled, &history, &Manner::of(&loaded), lease.claimed_at) {
            Step::Write(outcome) => return End::Outcome(outcome),
            Step::Disburse => (loaded, Task::Disburse),
            Step::Ask => {
                let sender = history.sender().and_then(Digest::parse);
                (sender.map_or(loaded, |digest| lane.rail.preferring(&digest)), Task::Query)
            }
        };
    let done = match read(lease) {
        Err(violations) => Some((invalid(task, &violations), None)),
        Ok(instruction) if task == Task::Query => {
            ask(host, lane, &loaded, lease, &Arc::new(instruction)).await
        }
        Ok(instruction) => send(host, lane, &loaded, lease, &Arc::new(instruction)).await,
    };
    let Some((decision, took)) = done else { return End::Unused };
    let now = lease.claimed_at + TimeDelta::from_std(received.elapsed()).unwrap_or_default();
    let (attempts, manner) = (lease.attempt_count + 1, Manner::of(&loaded));
    let mut outcome = faults::scheduled(schedule::outcome(decision, attempts, &history, &manner, now, die()));
    outcome.adapter_digest = Some(*loaded.digest.as_bytes());
    outcome.latency_ms = took.map(|took| took.as_millis() as i32);
    crash_point(CrashPoint::Decided);
    End::Outcome(Box::new(outcome))
}

fn read(lease: &Lease) -> Result<Instruction, Vec<Violation>> {
    let origin = Origin {
        outbox_id: lease.outbox_id,
        instruction_id: lease.instruction_id.clone(),
        participant_id: lease.participant_id.clone(),
        sequence_id: lease.sequence_id.unsigned_abs(),
    };
    let attempt = lease.attempt_count.unsigned_abs() + 1;
    let mut instruction = Instruction::read(origin, lease.payload.get(), attempt)?;
    if faults::is_left_out(Guard::StableKey) {
        instruction.key = RailKey::of(lease.lease_token);
    }
    Ok(instruction)
}

/// A payment that was never sent is refused for good; one that was is only asked about.
fn invalid(task: Task, violations: &[Violation]) -> Decision {
    match task {
        Task::Query => Decision::unasked(violations),
        Task::Disburse | Task::Validate => Decision::invalid(violations),
    }
}

/// What came of a call, and how long it took. None if the rail was not called after all.
type Done = Option<(Decision, Option<Duration>)>;

async fn ask(
    host: &Host,
    lane: &Lane,
    loaded: &Loaded,
    lease: &Lease,
    instruction: &Arc<Instruction>,
) -> Done {
    shape(host, lane, loaded).await;
    let trusted_until = may_start(host, loaded, lease)?;
    let attempt = call(host, lane, loaded, Task::Query, instruction, trusted_until).await?;
    let decision = outcome::query(loaded.kind, &attempt.heard, &attempt.witness, &loaded.codes)
        .without(&instruction.destination);
    // A question that fails says little of the rail, and one that succeeds does not say that it pays.
    if decision.opens_breaker && lane.breaker.trip(&loaded.pace.breaker, Instant::now()) {
        tell_of_breaker(lane, &decision);
    }
    Some((decision, Some(attempt.took)))
}

async fn send(
    host: &Host,
    lane: &Lane,
    loaded: &Loaded,
    lease: &Lease,
    instruction: &Arc<Instruction>,
) -> Done {
    shape(host, lane, loaded).await;
    if host.is_held_back(lease) {
        return None;
    }
    let mut trusted_until = may_start(host, loaded, lease)?;
    let ticket = lane.breaker.admit(Instant::now())?;
    crash_point(CrashPoint::Admitted);
    if loaded.hand_over_marks {
        if !host.marker.mark(lease.held()).await {
            return None;
        }
        // A marked row cannot be handed back: its mark goes with what is written.
        match may_start(host, loaded, lease) {
            Some(until) => trusted_until = until,
            None => return Some((Decision::not_sent("too late to begin"), None)),
        }
    }
    let Some(attempt) = call(host, lane, loaded, Task::Disburse, instruction, trusted_until).await else {
        return loaded.hand_over_marks.then(|| (Decision::not_sent("no place for the call"), None));
    };
    let decision = outcome::disburse(loaded.kind, &attempt.heard, &attempt.witness, &loaded.codes)
        .without(&instruction.destination);
    let decision = faults::judged(decision);
    if sign(&decision).is_some_and(|sign| ticket.saw(sign, &loaded.pace.breaker, Instant::now())) {
        tell_of_breaker(lane, &decision);
    }
    Some((decision, Some(attempt.took)))
}

async fn shape(host: &Host, lane: &Lane, loaded: &Loaded) {
    if lane.shape(loaded).await {
        host.metrics.rate_limited(&lane.rail.name);
    }
}

/// Until when the lease is trusted, if a call that starts now would end by then.
fn may_start(host: &Host, loaded: &Loaded, lease: &Lease) -> Option<Instant> {
    // The row may be leased again by now, under another token.
    let trusted_until =
        host.flights().get(&lease.outbox_id).filter(|flight| flight.held == lease.held())?.trusted_until;
    (!host.is_stopping() && Instant::now() + loaded.timeouts.call() <= trusted_until).then_some(trusted_until)
}

/// None if the sandbox has no place.
async fn call(
    host: &Host,
    lane: &Lane,
    loaded: &Loaded,
    task: Task,
    instruction: &Arc<Instruction>,
    trusted_until: Instant,
) -> Option<rail::Attempt> {
    let attempt = loaded.call(&host.sandbox, task, instruction.clone(), Some(trusted_until)).await;
    crash_point(CrashPoint::AdapterReturned);
    let failed = match &attempt.heard {
        Heard::Failed(error) => Some(error),
        _ => None,
    };
    if matches!(failed, Some(CallError::Busy(_))) {
        return None;
    }
    host.metrics.called(&lane.rail.name, attempt.took, failed);
    for line in &attempt.log {
        let masked = |text: &str| instruction.destination.masked_in(text);
        let fields: Vec<_> =
            line.fields.iter().map(|(name, value)| format!("{name}={}", masked(value))).collect();
        tracing::debug!(
            digest = %attempt.digest,
            fields = fields.join(" "),
            "{}: {}: {}", lane.rail.name, line.level, masked(&line.message)
        );
    }
    Some(attempt)
}

/// What a decision says about the rail, if anything.
fn sign(decision: &Decision) -> Option<Sign> {
    match (decision.class, decision.error_code) {
        _ if decision.opens_breaker => Some(Sign::Hold),
        (_, Some(ErrorCode::InvalidPayload | ErrorCode::RefusedLocally)) => None,
        (Class::Unknown | Class::Retryable, _) => Some(Sign::Bad),
        _ => Some(Sign::Good),
    }
}

fn tell_of_breaker(lane: &Lane, decision: &Decision) {
    let why = decision.message.as_deref().unwrap_or("too many calls failed");
    tracing::warn!(rail = lane.rail.name, "{}: nothing is disbursed for now: {why}", lane.rail.name);
}
