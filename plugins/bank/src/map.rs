//! What the bank's reports mean, as facts. What follows from a code is for the table in the rail's file to say.

use rail_sdk::http::Response;
use rail_sdk::{Answer, RailCode};

use crate::wire::{Reason, Report};

/// The bank has seen this message or payment before, which only we can have sent.
const DUPLICATE: [&str; 8] = ["AM05", "DUPL", "DU01", "DU02", "DU03", "DU04", "DU05", "RF01"];
/// A rejection that says: nobody knows.
const UNCERTAIN: [&str; 2] = ["AG09", "NOAS"];

/// The reply to a payment.
pub(crate) fn initiated(reply: &Response, key: &str, settled_by: &str) -> Answer {
    match (reply.status(), Report::read(reply.body())) {
        (200 | 202, Some(report)) => reported(&report, reply, key, settled_by),
        (202, None) if reply.body().is_empty() => Answer::pending(None, None),
        (status @ 429, None) => {
            Answer::declined(Some(RailCode::new("http", status.to_string())), reply.excerpt())
        }
        _ => Answer::unclear(None, reply.excerpt()),
    }
}

/// The reply to a question. A bank that calls the payment a duplicate of itself has not said what became of it.
pub(crate) fn status(reply: &Response, key: &str, settled_by: &str, not_found: &str) -> Answer {
    match (reply.status(), Report::read(reply.body())) {
        (404, None) if is_not_found(reply.body(), not_found) => Answer::NotFound,
        (200, Some(report)) => reported(&report, reply, key, settled_by),
        _ => Answer::unclear(None, reply.excerpt()),
    }
}

/// Also a gateway says 404, and may have the bank's words on its page. Where no words are agreed none of them counts.
fn is_not_found(body: &[u8], not_found: &str) -> bool {
    let not_found = not_found.trim();
    !not_found.is_empty() && String::from_utf8_lossy(body).trim() == not_found
}

fn reported(report: &Report, reply: &Response, key: &str, settled_by: &str) -> Answer {
    if report.message != key || report.end_to_end.as_deref().is_some_and(|named| named != key) || report.many
    {
        return Answer::unclear(None, format!("a report on something else: {}", reply.excerpt()));
    }
    let Some(status) = report.status.as_deref() else {
        return Answer::unclear(None, format!("a report without a status: {}", reply.excerpt()));
    };
    let bank_reference = report.bank_reference.clone();
    let code = Some(RailCode::new("status", status));
    match status {
        _ if settled_by.split([' ', ',']).any(|settled| settled == status) => {
            Answer::settled(bank_reference.unwrap_or_else(|| key.to_owned()), code)
        }
        "CANC" => Answer::declined(code, "cancelled"),
        "RJCT" => rejected(&report.reasons, bank_reference),
        // Accepted in some way, blocked, or a word that nobody knows: the bank has it.
        _ => Answer::pending(bank_reference, code),
    }
}

/// Several reasons may stand there. One that leaves it open whether money moved goes before those that do not.
fn rejected(reasons: &[Reason], bank_reference: Option<String>) -> Answer {
    let one_of = |codes: &[&str]| {
        reasons.iter().find_map(|reason| match reason {
            Reason::Code(code) if codes.contains(&code.as_str()) => Some(RailCode::new("reason", code)),
            _ => None,
        })
    };
    if let Some(code) = one_of(&DUPLICATE) {
        return Answer::pending(bank_reference, Some(code));
    }
    if let Some(code) = one_of(&UNCERTAIN) {
        return Answer::unclear(Some(code), "rejected, and nobody knows");
    }
    match reasons.first() {
        Some(Reason::Code(code)) => Answer::declined(Some(RailCode::new("reason", code)), "rejected"),
        Some(Reason::Proprietary(code)) => Answer::declined(
            Some(RailCode::new("proprietary", code)),
            "rejected for a reason of the bank's own",
        ),
        None => Answer::declined(Some(RailCode::new("status", "RJCT")), "rejected without a reason"),
    }
}
