//! What an answer says about the rail as a whole: to its breaker, to a person, and to the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use form::{Meaning, Operation};

use crate::breaker_state::RailSignal;
use crate::host::Host;
use crate::lane::Lane;
use crate::refusals::RailRefusal;
use crate::stop::stop_rail;
use faults::{self, Guard};
use payment::Instruction;
use rail::{self, Loaded};
use verdict::decision::{Class, Decision};
use verdict::error_code::ErrorCode;
use verdict::outcome::{CompletionState, Outcome};

/// What a decision says about the rail, if anything.
pub(crate) fn sign(decision: &Decision, instruction: &Instruction) -> Option<RailSignal> {
    let asked_for = decision.retry_after_seconds.filter(|_| decision.rail_waits);
    match (decision.class, decision.error_code) {
        _ if decision.opens_breaker || decision.rail_waits => {
            Some(RailSignal::Hold(asked_for.map(|seconds| Duration::from_secs(seconds.into()))))
        }
        // What an adapter refuses by itself costs a payment, like the rail's no. A run of such refusals opens the breaker, a
        // single one says nothing.
        (
            Class::Terminal | Class::TerminalReview,
            Some(code @ (ErrorCode::RailDeclined | ErrorCode::InvalidPayload | ErrorCode::RefusedLocally)),
        ) if !faults::is_left_out(Guard::RefusalsTrip) => {
            let code = decision.rail_code.as_deref().unwrap_or(code.as_str());
            let (destination, participant) = (&instruction.destination, &instruction.ids.participant_id);
            Some(RailSignal::Refused(RailRefusal::new(code, destination, participant)))
        }
        // A veto costs its payment a question and the rail nothing.
        (_, Some(ErrorCode::InvalidPayload | ErrorCode::RefusedLocally | ErrorCode::AdapterVeto)) => None,
        (Class::Unknown | Class::Retryable, _) => Some(RailSignal::Bad),
        (Class::Pending | Class::NotFound, _) if decision.of_a_question => None,
        (Class::Pending, _) => Some(RailSignal::Accepted),
        _ => Some(RailSignal::Good),
    }
}

/// What a late refusal says of the rail. A code that we have to mend holds the rail, or stops it, as if a question had brought it.
pub(crate) fn heed_late(host: &Arc<Host>, lane: &Lane, loaded: &Loaded, outcome: &Outcome) {
    let Some(code) = outcome.rail_code.as_deref().filter(|_| outcome.state == CompletionState::Failed) else {
        return;
    };
    let of_code = |class: Meaning| {
        let rows = &loaded.form.codes.rows;
        rows.iter()
            .any(|row| row.operation == Operation::QueryStatus && row.code == code && row.class == class)
    };
    if of_code(Meaning::Stop) {
        stop_rail(host, &lane.rail.name, &format!("the rail says {code}"));
    }
    if of_code(Meaning::Hold) || of_code(Meaning::Stop) {
        lane.breaker.heard(RailSignal::Hold(None), &loaded.pace.breaker, Instant::now());
    }
}

/// What was kept from leaving or not believed is counted and logged. An adapter that does so to several participants is stopped for
/// a person.
pub(crate) fn heed_denials(
    host: &Arc<Host>,
    lane: &Lane,
    report: &rail::CallReport,
    instruction: &Instruction,
) {
    for denied in &report.witness.denied {
        let why = instruction.destination.masked_in(&denied.why);
        host.metrics.calls.denied(&lane.rail.name, denied.rule.as_str());
        tracing::warn!(
            rail = lane.rail.name,
            rule = denied.rule.as_str(),
            digest = %report.digest,
            "{}: {}: {why}", lane.rail.name, denied.rule.as_str()
        );
        if lane.stops_for(denied.rule, report.digest, &instruction.ids.participant_id) {
            let why = format!("its adapter {} did what it must not: {why}", report.digest);
            stop_rail(host, &lane.rail.name, &why);
        }
    }
}

pub(crate) fn tell_of_breaker(lane: &Lane, decision: &Decision) {
    let why = decision.message.as_deref().unwrap_or("too many calls failed");
    tracing::warn!(rail = lane.rail.name, "{}: nothing is disbursed for now: {why}", lane.rail.name);
}
