//! One leased payment through one attempt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use form::callback::Callback;
use form::{Meaning, Operation};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::breaker::Sign;
use crate::host::Host;
use crate::jitter::die;
use crate::lane::Lane;
use crate::options::Exchanged;
use crate::persist::{Refused, persist};
use crate::refusals::Refusal;
use crate::stop::stop_rail;
use crate::{known_bad, lane};
use faults::{self, CrashPoint, Guard, crash_point};
use outbox::lease::{Hold, Lease};
use payment::{Instruction, Origin, RailKey, Violation};
use rail::{self, Captures, Keeper, Loaded, Task};
use verdict::answer::Heard;
use verdict::call_error::CallError;
use verdict::decision::{Class, Decision};
use verdict::digest::Digest;
use verdict::error_code::ErrorCode;
use verdict::history::History;
use verdict::outcome::{Outcome, Proof, State};
use verdict::schedule::{self, Step, Written};

/// Until a payment is looked at again that may have left, cannot be asked about, and is stopped by a person.
const HELD_BACK: Duration = Duration::from_secs(5);

/// Until such a payment is looked at again on a rail that is closed.
const CLOSED_SECONDS: u32 = 60;

/// How an attempt ended.
pub(crate) enum End {
    /// With something to write down.
    Outcome(Box<Outcome>),
    /// The rail as a whole cannot pay now.
    Held(Box<Hold>),
    /// Before anything was handed to the rail.
    Unused,
}

/// When a claim left this host, and when its answer came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    pub sent: Instant,
    pub received: Instant,
}

/// Carries one payment through one attempt.
///
/// The order is the safety argument: the lease is on disk before the rail can hear of it, and nothing after the call may fail
/// in a way that forgets it. A host that dies in here leaves the row leased, to be repaired and asked about.
///
/// `claim` says when it was sent and when its answer came. Counted from the latter, what we take for the database's time is never
/// ahead of it.
pub(crate) async fn run(host: &Arc<Host>, lane: &Lane, lease: &Lease, claim: Claim) -> End {
    let mut history: History = match &lease.past {
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
    history.was_held = lease.holds > 0;
    if let Some(lost) = history.recovered_after(lease.claimed_at) {
        host.metrics.claims.zombie_recovery_seconds.observe(lost.as_seconds_f64());
    }
    let loaded = lane.rail.current();
    let (loaded, task) =
        match schedule::step(lease.unsettled, &history, &lane::policy_of(&loaded), lease.claimed_at) {
            Step::Write(outcome) => {
                heed_late(host, lane, &loaded, &outcome);
                return End::Outcome(Box::new(Outcome {
                    key_prefix: key_prefix(&loaded, lease),
                    ..*outcome
                }));
            }
            Step::Disburse => (loaded, Task::Disburse),
            Step::Ask => {
                let sender = history.sender().and_then(Digest::parse);
                let asked = match sender {
                    Some(digest) => lane.rail.preferring(&digest),
                    None => Some(loaded).filter(|_| !lane.rail.is_revoked()),
                };
                let Some(asked) = asked else { return End::Unused };
                (asked, Task::Query)
            }
        };
    // Such a row is leasable during a pause, to be asked about; given back as it is it would be leased again at once.
    if task == Task::Disburse && lease.unsettled && host.is_held_back(lease, claim.sent) {
        return End::Held(Box::new(Hold {
            held: lease.held(),
            delay_seconds: HELD_BACK.as_secs_f64(),
            error_code: ErrorCode::OnHold.as_str(),
            rail_code: None,
            message: Some("its rail is paused or its participant suspended".to_owned()),
            adapter_digest: None,
        }));
    }
    let done = match read(lease) {
        Err(violations) => Some(Done { decision: invalid(task, &violations), attempt: None }),
        Ok(instruction) => {
            let errand = Errand { host, lane, loaded: &loaded, lease, captured: &history.captured };
            let instruction = Arc::new(instruction);
            match task {
                Task::Query => errand.ask(&instruction).await,
                Task::Disburse | Task::Validate => errand.send(&instruction, claim.sent).await,
            }
        }
    };
    let Some(Done { decision, attempt }) = done else { return End::Unused };
    if decision.stops_rail {
        let said = decision.message.as_deref().filter(|said| !said.trim().is_empty());
        stop_rail(host, &lane.rail.name, said.unwrap_or("its code table says stop"));
    }
    let now = lease.claimed_at + TimeDelta::from_std(claim.received.elapsed()).unwrap_or_default();
    let (attempts, manner) = (lease.attempt_count + 1, lane::policy_of(&loaded));
    let (error_code, rail_code, message) =
        (decision.error_code, decision.rail_code.clone(), decision.message.clone());
    let is_ours = matches!(decision.error_code, Some(ErrorCode::InvalidPayload | ErrorCode::RefusedLocally));
    if is_ours && faults::is_left_out(Guard::RefusalsOfOursAreWeighed) {
        history = History::default();
    }
    let end = match schedule::outcome(decision, attempts, &history, &manner, now, die()) {
        Written::Attempt(outcome) => {
            let mut outcome = known_bad::scheduled(*outcome);
            if let Some(attempt) = &attempt {
                outcome.latency_ms = Some(attempt.took.as_millis() as i32);
                outcome.captured = (!attempt.captured.is_empty()).then(|| json!(attempt.captured));
            }
            outcome.key_prefix = key_prefix(&loaded, lease);
            outcome.proof = proof(&loaded, attempt.as_ref());
            End::Outcome(Box::new(outcome))
        }
        Written::Held { delay } => End::Held(Box::new(Hold {
            held: lease.held(),
            delay_seconds: delay.as_secs_f64(),
            error_code: error_code.unwrap_or(ErrorCode::OnHold).as_str(),
            rail_code,
            message,
            // None: the host held it back, and the rail heard nothing.
            adapter_digest: attempt.as_ref().map(|_| *loaded.digest.as_bytes()),
        })),
    };
    crash_point(CrashPoint::Decided);
    end
}

fn read(lease: &Lease) -> Result<Instruction, Vec<Violation>> {
    let origin = Origin {
        outbox_id: lease.outbox_id,
        instruction_id: lease.instruction_id.clone(),
        participant_id: lease.participant_id.clone(),
        sequence_id: lease.sequence_id.unsigned_abs(),
    };
    // A mock answers by the number of the try.
    let attempt = (lease.attempt_count + lease.holds).unsigned_abs() + 1;
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

/// By which a callback finds the payment also when it has its verdict.
fn key_prefix(loaded: &Loaded, lease: &Lease) -> Option<String> {
    let is_named = loaded.form.callback.as_ref().is_some_and(Callback::is_named_by_body);
    is_named.then(|| RailKey::of(lease.outbox_id).prefix())
}

/// By what, and from what, an attempt was judged.
fn proof(loaded: &Loaded, attempt: Option<&rail::Attempt>) -> Proof {
    let bytes = |digest: &Digest| *digest.as_bytes();
    let reading = match attempt.map(|attempt| &attempt.heard) {
        Some(Heard::Reading(reading) | Heard::Unprepared { reading, .. }) => Some(reading.record()),
        _ => None,
    };
    Proof {
        adapter_digest: Some(bytes(&loaded.digest)),
        rail_digest: Some(bytes(&loaded.file_digest)),
        request_digest: attempt.and_then(|attempt| attempt.request_digest.as_ref().map(bytes)),
        reply_digest: attempt.and_then(|attempt| attempt.reply_digest.as_ref().map(bytes)),
        witness: attempt.map(|attempt| attempt.witness.record()).filter(|told| !told.is_empty()),
        facts: reading,
    }
}

/// What came of a payment's turn. The attempt is there where the rail, or at least its adapter, was called.
struct Done {
    decision: Decision,
    attempt: Option<rail::Attempt>,
}

impl Done {
    fn not_sent(why: &str) -> Self {
        Self { decision: Decision::not_sent(why), attempt: None }
    }
}

/// One payment on its way to one rail. None of its ways out means that the rail was not called after all.
struct Errand<'e> {
    host: &'e Arc<Host>,
    lane: &'e Lane,
    loaded: &'e Loaded,
    lease: &'e Lease,
    captured: &'e BTreeMap<String, String>,
}

impl Keeper for Errand<'_> {
    fn keep<'k>(&'k self, values: &'k BTreeMap<String, String>) -> BoxFuture<'k, bool> {
        Box::pin(async move {
            let captured = [(self.lease.held(), json!(values))];
            let write = || self.host.writer.keep_captured(&captured, false);
            match persist(self.host, "captured values", Refused::Final, write).await {
                Ok(held) => held.contains(&self.lease.outbox_id),
                Err(error) => {
                    tracing::error!(payment = %self.lease.outbox_id, %error, "what was read for its next request was not kept: {error}");
                    false
                }
            }
        })
    }
}

impl Errand<'_> {
    async fn ask(&self, instruction: &Arc<Instruction>) -> Option<Done> {
        let Self { host, lane, loaded, lease, .. } = self;
        shape(host, lane, loaded).await;
        let trusted_until = may_start(host, loaded, lease)?;
        let attempt = self.call(Task::Query, instruction, trusted_until).await?;
        let decision = verdict::query(&attempt.heard, &attempt.witness).without(&instruction.destination);
        if sign(&decision, instruction)
            .is_some_and(|sign| lane.breaker.heard(sign, &loaded.pace.breaker, Instant::now()))
        {
            tell_of_breaker(lane, &decision);
        }
        Some(Done { decision, attempt: Some(attempt) })
    }

    /// The rail is closed, or too little is left to pay from. What is not leased for that again goes back as it is.
    fn held_back(&self, instruction: &Instruction) -> Option<Option<Done>> {
        let currency = instruction.money.currency();
        let (why, wait_seconds) = if self.lane.is_dry_of(currency) {
            let every = self.loaded.form.float.get(currency).map_or(60, |float| float.every_seconds);
            (format!("what is left in {currency} is below its floor"), every)
        } else if !self.lane.is_open() {
            ("the rail is closed".to_owned(), CLOSED_SECONDS)
        } else {
            return None;
        };
        let is_leased_again = self.lease.unsettled || self.lane.is_open() && !self.lane.is_dry();
        let held = || Done { decision: Decision::on_hold(&why, wait_seconds), attempt: None };
        Some(is_leased_again.then(held))
    }

    async fn send(&self, instruction: &Arc<Instruction>, claim_sent: Instant) -> Option<Done> {
        let Self { host, lane, loaded, lease, .. } = self;
        if let Some(held) = self.held_back(instruction) {
            return held;
        }
        shape(host, lane, loaded).await;
        let mut trusted_until = may_start(host, loaded, lease)?;
        // It may have closed while this one waited for its turn.
        if !lane.is_open() {
            return None;
        }
        let ticket = lane.breaker.admit(Instant::now())?;
        // After the breaker, which lets payments through again when a pause is known here.
        if lane.rail.is_revoked() || host.is_held_back(lease, claim_sent) {
            return None;
        }
        crash_point(CrashPoint::Admitted);
        if loaded.hand_over_marks {
            if !host.marker.mark(lease.held()).await {
                return None;
            }
            // A marked row cannot be handed back: its mark goes with what is written.
            match may_start(host, loaded, lease) {
                Some(until) => trusted_until = until,
                None => return Some(Done::not_sent("too late to begin")),
            }
        }
        let Some(attempt) = self.call(Task::Disburse, instruction, trusted_until).await else {
            return loaded.hand_over_marks.then(|| Done::not_sent("no place for the call"));
        };
        let decision = verdict::disburse(&attempt.heard, &attempt.witness).without(&instruction.destination);
        let decision = known_bad::judged(decision);
        if sign(&decision, instruction)
            .is_some_and(|sign| ticket.saw(sign, &loaded.pace.breaker, Instant::now()))
        {
            tell_of_breaker(lane, &decision);
        }
        Some(Done { decision, attempt: Some(attempt) })
    }

    /// None if the sandbox has no place.
    async fn call(
        &self,
        task: Task,
        instruction: &Arc<Instruction>,
        trusted_until: Instant,
    ) -> Option<rail::Attempt> {
        let Self { host, lane, loaded, .. } = self;
        let captures = Captures { known: self.captured, keeper: self };
        let attempt =
            loaded.carry(&host.sandbox, task, instruction.clone(), Some(trusted_until), captures).await;
        crash_point(CrashPoint::AdapterReturned);
        let failed = match &attempt.heard {
            Heard::Failed(error) => Some(error),
            _ => None,
        };
        if matches!(failed, Some(CallError::Busy(_))) {
            return None;
        }
        host.metrics.calls.called(&lane.rail.name, attempt.took, failed);
        if let Some(recorder) = &host.options.recorder {
            // Whoever kept them may be gone; the payment goes on.
            recorder
                .send(Exchanged {
                    rail: lane.rail.name.clone(),
                    task,
                    payment: instruction.clone(),
                    captured: self.captured.clone(),
                    attempt: attempt.clone(),
                })
                .ok();
        }
        tell_of_denials(host, lane, &attempt, instruction);
        if let Heard::Reading(reading) = &attempt.heard
            && reading.veto.is_some()
        {
            host.metrics.calls.vetoed(&lane.rail.name);
        }
        for line in &attempt.log {
            let said = instruction.destination.masked_in(line);
            tracing::debug!(digest = %attempt.digest, "{}: adapter says: {said}", lane.rail.name);
        }
        Some(attempt)
    }
}

async fn shape(host: &Host, lane: &Lane, loaded: &Loaded) {
    if lane.shape(loaded).await {
        host.metrics.calls.rate_limited(&lane.rail.name);
    }
}

/// Until when the lease is trusted, if a call that starts now would end by then.
fn may_start(host: &Host, loaded: &Loaded, lease: &Lease) -> Option<Instant> {
    // The row may be leased again by now, under another token.
    let trusted_until =
        host.flights().get(&lease.outbox_id).filter(|flight| flight.held == lease.held())?.trusted_until;
    (!host.is_stopping() && Instant::now() + loaded.timeouts.call() <= trusted_until).then_some(trusted_until)
}

/// What a decision says about the rail, if anything.
fn sign(decision: &Decision, instruction: &Instruction) -> Option<Sign> {
    let asked_for = decision.retry_after_seconds.filter(|_| decision.rail_waits);
    match (decision.class, decision.error_code) {
        _ if decision.opens_breaker || decision.rail_waits => {
            Some(Sign::Hold(asked_for.map(|seconds| Duration::from_secs(seconds.into()))))
        }
        // What an adapter refuses by itself costs a payment like the rail's no: a run of it stops the rail, one of it says nothing.
        (
            Class::Terminal | Class::TerminalReview,
            Some(code @ (ErrorCode::RailDeclined | ErrorCode::InvalidPayload | ErrorCode::RefusedLocally)),
        ) if !faults::is_left_out(Guard::RefusalsTrip) => {
            let code = decision.rail_code.as_deref().unwrap_or(code.as_str());
            let (destination, participant) = (&instruction.destination, &instruction.origin.participant_id);
            Some(Sign::Refused(Refusal::new(code, destination, participant)))
        }
        // A brake costs its payment a question and the rail nothing.
        (_, Some(ErrorCode::InvalidPayload | ErrorCode::RefusedLocally | ErrorCode::AdapterVeto)) => None,
        (Class::Unknown | Class::Retryable, _) => Some(Sign::Bad),
        (Class::Pending | Class::NotFound, _) if decision.of_a_question => None,
        (Class::Pending, _) => Some(Sign::Accepted),
        _ => Some(Sign::Good),
    }
}

/// What a late refusal says of the rail: what is ours to mend holds it, or stops it, as if a question had brought it.
fn heed_late(host: &Arc<Host>, lane: &Lane, loaded: &Loaded, outcome: &Outcome) {
    let Some(code) = outcome.rail_code.as_deref().filter(|_| outcome.state == State::Failed) else { return };
    let of_code = |class: Meaning| {
        let rows = &loaded.form.codes.rows;
        rows.iter()
            .any(|row| row.operation == Operation::QueryStatus && row.code == code && row.class == class)
    };
    if of_code(Meaning::Stop) {
        stop_rail(host, &lane.rail.name, &format!("the rail says {code}"));
    }
    if of_code(Meaning::Hold) || of_code(Meaning::Stop) {
        lane.breaker.heard(Sign::Hold(None), &loaded.pace.breaker, Instant::now());
    }
}

/// What was kept from leaving or not believed is counted and told; an adapter that does so to several is stopped for a person.
fn tell_of_denials(host: &Arc<Host>, lane: &Lane, attempt: &rail::Attempt, instruction: &Instruction) {
    for denied in &attempt.witness.denied {
        let why = instruction.destination.masked_in(&denied.why);
        host.metrics.calls.denied(&lane.rail.name, denied.rule.as_str());
        tracing::warn!(
            rail = lane.rail.name,
            rule = denied.rule.as_str(),
            digest = %attempt.digest,
            "{}: {}: {why}", lane.rail.name, denied.rule.as_str()
        );
        if lane.stops_for(denied.rule, attempt.digest, &instruction.origin.participant_id) {
            let why = format!("its adapter {} did what it must not: {why}", attempt.digest);
            stop_rail(host, &lane.rail.name, &why);
        }
    }
}

fn tell_of_breaker(lane: &Lane, decision: &Decision) {
    let why = decision.message.as_deref().unwrap_or("too many calls failed");
    tracing::warn!(rail = lane.rail.name, "{}: nothing is disbursed for now: {why}", lane.rail.name);
}
