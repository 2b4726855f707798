//! What the bank's reports mean, as facts. What follows from a code is for the table in the rail's file to say.

use rail_sdk::http::Response;
use rail_sdk::{Answer, RailCode, RailKey};

use crate::report::{Reason, Report};

/// The bank has seen this message or payment before, which only we can have sent.
const DUPLICATE: [&str; 8] = ["AM05", "DUPL", "DU01", "DU02", "DU03", "DU04", "DU05", "RF01"];
/// A rejection that says: nobody knows.
const UNCERTAIN: [&str; 2] = ["AG09", "NOAS"];
/// The bank will not pay.
const NO: [&str; 2] = ["RJCT", "CANC"];
/// What a group or an instruction may be called while the transaction in it is refused: received, well-formed, in part.
const ACKNOWLEDGED: [&str; 5] = ["RCVD", "ACTC", "PATC", "PDNG", "PART"];

/// The reply to a payment.
pub(crate) fn initiated(reply: &Response, key: &RailKey, settled_by: &str) -> Answer {
    match (reply.status(), Report::read(reply.body(), key)) {
        (200 | 202, Some(report)) => reported(report, &reply.excerpt(), key, settled_by),
        (202, None) if reply.body().is_empty() => Answer::pending(None, None),
        (status @ 429, None) => {
            Answer::declined(Some(RailCode::new("http", status.to_string())), reply.excerpt())
        }
        _ => Answer::unclear(None, reply.excerpt()),
    }
}

/// The reply to a question. A bank that calls the payment a duplicate of itself has not said what became of it.
pub(crate) fn status(reply: &Response, key: &RailKey, settled_by: &str, not_found: &str) -> Answer {
    match (reply.status(), Report::read(reply.body(), key)) {
        (404, None) if is_not_found(reply.body(), not_found) => Answer::NotFound,
        (200, Some(report)) => reported(report, &reply.excerpt(), key, settled_by),
        _ => Answer::unclear(None, reply.excerpt()),
    }
}

/// Also a gateway says 404, and may have the bank's words on its page. Where no words are agreed none of them counts.
fn is_not_found(body: &[u8], not_found: &str) -> bool {
    let not_found = not_found.trim();
    !not_found.is_empty() && String::from_utf8_lossy(body).trim() == not_found
}

fn reported(report: Result<Report, String>, excerpt: &str, key: &RailKey, settled_by: &str) -> Answer {
    let report = match report {
        Ok(report) => report,
        Err(why) => return Answer::unclear(None, format!("a report on something else ({why}): {excerpt}")),
    };
    let Some(status) = report.statuses.first() else {
        return Answer::unclear(None, format!("a report without a status: {excerpt}"));
    };
    if contradicted(&report.statuses) {
        let said = report.statuses.join(", ");
        return Answer::unclear(None, format!("statuses that contradict each other ({said}): {excerpt}"));
    }
    let code = Some(RailCode::new("status", status));
    let settled = settled_by.split([' ', ',']).any(|settled| settled == status);
    match (settled, open_reason(&report.reasons)) {
        (true, Some(reason)) => {
            let why = format!("{status} for the reason {}: {excerpt}", reason.value());
            Answer::unclear(code, why)
        }
        (true, None) => Answer::settled(report.bank_reference.unwrap_or_else(|| key.hex32.clone()), code),
        (false, reason) if NO.contains(&status.as_str()) => refused(status, reason, &report),
        // Accepted in some way, blocked, or a word that nobody knows: the bank has it.
        (false, _) => Answer::pending(report.bank_reference, code),
    }
}

/// The most specific status counts where the others leave room for it.
fn contradicted(statuses: &[String]) -> bool {
    let is_no = |status: &String| NO.contains(&status.as_str());
    let is_acknowledged = |status: &String| ACKNOWLEDGED.contains(&status.as_str());
    let Some((status, others)) = statuses.split_first() else { return false };
    match is_no(status) {
        true => others.iter().any(|other| !is_no(other) && !is_acknowledged(other)),
        false => others.iter().any(is_no),
    }
}

/// A reason that leaves it open whether money moved, at whatever level and in whichever field it stands.
fn open_reason(reasons: &[Reason]) -> Option<&Reason> {
    let one_of = |codes: &[&str]| reasons.iter().find(|reason| codes.contains(&reason.value()));
    one_of(&DUPLICATE).or_else(|| one_of(&UNCERTAIN))
}

fn refused(status: &str, open: Option<&Reason>, report: &Report) -> Answer {
    if let Some(reason) = open {
        return match DUPLICATE.contains(&reason.value()) {
            true => Answer::pending(report.bank_reference.clone(), Some(code(reason))),
            false => Answer::unclear(Some(code(reason)), "rejected, and nobody knows"),
        };
    }
    // What the bank means by a reason of its own is known from its rows in the table alone, so that it goes before a listed one.
    let own = report.reasons.iter().find(|reason| matches!(reason, Reason::Proprietary(_)));
    match own.or(report.reasons.first()) {
        Some(reason) => Answer::declined(Some(code(reason)), format!("{status} for a reason")),
        None => Answer::declined(Some(RailCode::new("status", status)), format!("{status} without a reason")),
    }
}

fn code(reason: &Reason) -> RailCode {
    match reason {
        Reason::Code(code) => RailCode::new("reason", code),
        Reason::Proprietary(code) => RailCode::new("proprietary", code),
    }
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
