//! One leased payment through one attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use form::callback::Callback;
use serde_json::json;

use crate::host::Host;
use crate::jitter;
use crate::lane::Lane;
use crate::rail_call::{Judged, RailCall};
use crate::rail_signals::heed_late;
use crate::stop::stop_rail;
use crate::unused::Unused;
use crate::{known_bad, lane};
use faults::{self, CrashPoint, Guard, crash_point};
use outbox::lease::{Hold, Lease};
use payment::{Instruction, PaymentIds, RailKey, Violation};
use rail::{self, Loaded, Task};
use verdict::answer::CallResult;
use verdict::decision::Decision;
use verdict::digest::Digest;
use verdict::error_code::ErrorCode;
use verdict::history::History;
use verdict::outcome::{CompletionState, Outcome, Provenance};
use verdict::schedule::{self, Conclusion, NextAction};

/// A payment may have left, cannot be asked about, and is stopped by a person. It is looked at again after this time.
const HELD_BACK: Duration = Duration::from_secs(5);

/// How an attempt ended.
pub(crate) enum End {
    /// With something to write down.
    Outcome(Box<Outcome>),
    /// The rail as a whole cannot pay now.
    Held(Box<Hold>),
    /// Before anything was handed to the rail.
    Unused(Unused),
}

/// When a claim left this host, and when its answer came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimTimes {
    pub sent: Instant,
    pub received: Instant,
}

/// Carries one payment through one attempt.
///
/// The order is the safety argument: the lease is on disk before the rail can hear of it, and nothing after the call may fail
/// in a way that forgets it. A host that dies in here leaves the row leased, to be repaired and asked about.
///
/// `claim` says when it was sent and when its answer came. The time of the database is taken to be `claimed_at` plus what passed
/// since the answer: never later than its clock.
pub(crate) async fn run(host: &Arc<Host>, lane: &Lane, lease: &Lease, claim: ClaimTimes) -> End {
    let history = match parse_history(host, lease) {
        Ok(history) => history,
        Err(end) => return end,
    };
    let (loaded, task) = match next_task(host, lane, lease, &history) {
        Ok(step) => step,
        Err(end) => return end,
    };
    // Such a row may be leased during a pause, to be asked about. If it went back as it is, it would be leased again at once.
    if task == Task::Disburse && lease.unsettled && host.paused_or_suspended(lease, claim.sent).is_some() {
        return End::Held(Box::new(Hold {
            lease: lease.lease_ref(),
            delay_seconds: HELD_BACK.as_secs_f64(),
            error_code: ErrorCode::OnHold,
            rail_code: None,
            message: Some("its rail is paused or its participant suspended".to_owned()),
            adapter_digest: None,
        }));
    }
    let judged = match read(lease) {
        Err(violations) => Ok(Judged { decision: invalid(task, &violations), report: None }),
        Ok(instruction) => {
            let call = RailCall { host, lane, loaded: &loaded, lease, captured: &history.captured };
            let instruction = Arc::new(instruction);
            match task {
                Task::Query => call.ask(&instruction).await,
                Task::Disburse | Task::Validate => call.send(&instruction, claim.sent).await,
            }
        }
    };
    let judged = match judged {
        Ok(judged) => judged,
        Err(reason) => return End::Unused(reason),
    };
    if judged.decision.stops_rail {
        let said = judged.decision.message.as_deref().filter(|said| !said.trim().is_empty());
        stop_rail(host, &lane.rail.name, said.unwrap_or("its code table classes the code as stop"));
    }
    let end = end(lease, &loaded, history, judged, claim.received);
    crash_point(CrashPoint::Decided);
    end
}

/// What was heard of the payment before.
fn parse_history(host: &Host, lease: &Lease) -> Result<History, End> {
    let mut history: History = match &lease.past {
        None => History::default(),
        Some(past) => serde_json::from_value(past.0.clone()).map_err(|error| {
            tracing::error!(payment = %lease.outbox_id, %error, "its past cannot be read: {error}");
            End::Outcome(Box::new(Outcome {
                error_message: Some(format!("its past cannot be read: {error}")),
                retry_delay_seconds: Some(60.0),
                ..Outcome::new(CompletionState::Retryable)
            }))
        })?,
    };
    history.was_held = lease.holds > 0;
    if let Some(lost) = history.recovered_after(lease.claimed_at) {
        host.metrics.claims.zombie_recovery_seconds.observe(lost.as_seconds_f64());
    }
    Ok(history)
}

/// What to do with the payment, and the component that does it; or the end, where nothing is left to do.
fn next_task(
    host: &Arc<Host>,
    lane: &Lane,
    lease: &Lease,
    history: &History,
) -> Result<(Arc<Loaded>, Task), End> {
    let loaded = lane.rail.current();
    match schedule::next_action(lease.unsettled, history, &lane::policy_of(&loaded), lease.claimed_at) {
        NextAction::Write(outcome) => {
            heed_late(host, lane, &loaded, &outcome);
            Err(End::Outcome(Box::new(Outcome { key_prefix: key_prefix(&loaded, lease), ..*outcome })))
        }
        NextAction::Disburse => Ok((loaded, Task::Disburse)),
        NextAction::Ask => {
            let asked = match history.sender().and_then(Digest::parse) {
                Some(digest) => lane.rail.preferring(&digest),
                None => Some(loaded).filter(|_| !lane.rail.is_revoked()),
            };
            asked.map(|asked| (asked, Task::Query)).ok_or(End::Unused(Unused::Revoked))
        }
    }
}

fn read(lease: &Lease) -> Result<Instruction, Vec<Violation>> {
    let ids = PaymentIds {
        outbox_id: lease.outbox_id,
        instruction_id: lease.instruction_id.clone(),
        participant_id: lease.participant_id.clone(),
        sequence_id: lease.sequence_id.unsigned_abs(),
    };
    // A mock answers by how often the payment was taken up: attempts and holds.
    let attempt = (lease.attempt_count + lease.holds).unsigned_abs() + 1;
    let mut instruction = Instruction::read(ids, lease.payload.get(), attempt)?;
    if faults::is_left_out(Guard::StableKey) {
        instruction.key = RailKey::of(lease.lease_token);
    }
    Ok(instruction)
}

/// A payment that was never sent is refused for good. One that was sent is only asked about.
fn invalid(task: Task, violations: &[Violation]) -> Decision {
    match task {
        Task::Query => Decision::unasked(violations),
        Task::Disburse | Task::Validate => Decision::invalid(violations),
    }
}

/// What is written of a decision.
fn end(lease: &Lease, loaded: &Loaded, mut history: History, judged: Judged, received: Instant) -> End {
    let Judged { decision, report } = judged;
    let now = lease.claimed_at + TimeDelta::from_std(received.elapsed()).unwrap_or_default();
    let (attempts, policy) = (lease.attempt_count + 1, lane::policy_of(loaded));
    let (error_code, rail_code, message) =
        (decision.error_code, decision.rail_code.clone(), decision.message.clone());
    let is_ours = matches!(decision.error_code, Some(ErrorCode::InvalidPayload | ErrorCode::RefusedLocally));
    if is_ours && faults::is_left_out(Guard::RefusalsOfOursAreWeighed) {
        history = History::default();
    }
    match schedule::conclude(decision, attempts, &history, &policy, now, jitter::factor()) {
        Conclusion::Attempt(outcome) => {
            let mut outcome = known_bad::scheduled(*outcome);
            if let Some(report) = &report {
                outcome.latency_ms = Some(report.took.as_millis() as i32);
                outcome.captured = (!report.captured.is_empty()).then(|| json!(report.captured));
            }
            outcome.key_prefix = key_prefix(loaded, lease);
            outcome.proof = proof(loaded, report.as_ref());
            End::Outcome(Box::new(outcome))
        }
        Conclusion::Held { delay } => End::Held(Box::new(Hold {
            lease: lease.lease_ref(),
            delay_seconds: delay.as_secs_f64(),
            error_code: error_code.unwrap_or(ErrorCode::OnHold),
            rail_code,
            message,
            // None: the host held it back, and the rail heard nothing.
            adapter_digest: report.as_ref().map(|_| *loaded.digest.as_bytes()),
        })),
    }
}

/// By this a callback finds the payment also when it has its verdict.
fn key_prefix(loaded: &Loaded, lease: &Lease) -> Option<String> {
    let is_named = loaded.form.callback.as_ref().is_some_and(Callback::is_named_by_body);
    is_named.then(|| RailKey::of(lease.outbox_id).prefix())
}

/// What an attempt was judged by, and from.
fn proof(loaded: &Loaded, report: Option<&rail::CallReport>) -> Provenance {
    let bytes = |digest: &Digest| *digest.as_bytes();
    let reading = match report.map(|report| &report.heard) {
        Some(CallResult::Reading(reading) | CallResult::Unprepared { reading, .. }) => Some(reading.record()),
        _ => None,
    };
    Provenance {
        adapter_digest: Some(bytes(&loaded.digest)),
        rail_digest: Some(bytes(&loaded.file_digest)),
        request_digest: report.and_then(|report| report.request_digest.as_ref().map(bytes)),
        reply_digest: report.and_then(|report| report.reply_digest.as_ref().map(bytes)),
        witness: report.map(|report| report.witness.record()).filter(|told| !told.is_empty()),
        facts: reading,
    }
}
