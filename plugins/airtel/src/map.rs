//! What Airtel's replies mean, as facts. What follows from a code is for the table in the rail's file to say.

use rail_sdk::http::Response;
use rail_sdk::{Answer, RailCode};

use crate::wire::{Envelope, Outcome};

const SUCCESS: &str = "DP00900001001";
/// Airtel has a transaction with this id, which only we can have sent.
const DUPLICATE: [&str; 3] = ["DP00900001011", "DP00900001017", "ESB000041"];
const IN_PROCESS: &str = "DP00900001006";
/// Codes that Airtel's documents explain as a no, and that may stand without the status `TF`.
const REFUSALS: [&str; 17] = [
    "DP00900001003",
    "DP00900001004",
    "DP00900001005",
    "DP00900001007",
    "DP00900001009",
    "DP00900001010",
    "DP00900001012",
    "DP00900001013",
    "DP00900001016",
    "DP00900001018",
    "DP00900001019",
    "ESB000011",
    "ESB000033",
    "ESB000034",
    "ESB000035",
    "ESB000036",
    "ESB000039",
];
/// Codes with which the gateway refuses a request before it passes it on.
const GATEWAY_REFUSALS: [&str; 11] = [
    "ROUTER001",
    "ROUTER003",
    "ROUTER005",
    "ROUTER006",
    "ROUTER007",
    "ROUTER110",
    "ROUTER112",
    "ROUTER114",
    "ROUTER115",
    "ROUTER116",
    "ROUTER119",
];
/// Not found means only that: too early, or never arrived.
const NOT_FOUND: [&str; 2] = ["DP00900001015", "ESB000045"];
/// Somebody on the way gave up waiting. Airtel calls these ambiguous for payments, whatever code comes with them.
const GAVE_UP: [u16; 3] = [408, 502, 504];

/// The reply to a disbursement.
pub(crate) fn disbursed(reply: &Response, key: &str) -> Answer {
    heard(reply, key)
}

/// The reply to an enquiry. Only a status of the transaction itself is a word on the payment: a code without one may be about
/// the question.
pub(crate) fn status(reply: &Response, key: &str) -> Answer {
    match heard(reply, key) {
        Answer::Unclear(said) if is_not_found(&said.code) => Answer::NotFound,
        Answer::Declined(said) if !tells_of_a_transaction(reply) => Answer::unclear(said.code, said.message),
        answer => answer,
    }
}

fn tells_of_a_transaction(reply: &Response) -> bool {
    matches!(
        Envelope::read(reply.body()),
        Some(Envelope::Business { transaction: Some(Outcome { status: Some(_), .. }), .. })
    )
}

fn is_not_found(code: &Option<RailCode>) -> bool {
    code.as_ref().is_some_and(|code| NOT_FOUND.contains(&code.value.as_str()))
}

fn heard(reply: &Response, key: &str) -> Answer {
    match said(reply, key) {
        Answer::Declined(said) if GAVE_UP.contains(&reply.status()) => {
            Answer::unclear(said.code, said.message)
        }
        answer => answer,
    }
}

fn said(reply: &Response, key: &str) -> Answer {
    match Envelope::read(reply.body()) {
        Some(Envelope::Business { response_code, result_code, transaction }) => {
            let code = match (response_code, result_code) {
                (Some(code), _) => Some(RailCode::new("response_code", code)),
                (None, Some(code)) => Some(RailCode::new("result_code", code)),
                (None, None) => None,
            };
            business(code, transaction, reply, key)
        }
        Some(Envelope::Gateway { status_code }) => {
            let code = Some(RailCode::new("status_code", &status_code));
            // Any other may be about what is behind the gateway, such as its timeout, ROUTER117: that may have paid.
            match GATEWAY_REFUSALS.contains(&status_code.as_str()) {
                true => Answer::declined(code, reply.excerpt()),
                false => Answer::unclear(code, reply.excerpt()),
            }
        }
        Some(Envelope::Credentials { error }) => {
            Answer::unclear(Some(RailCode::new("error", error)), reply.excerpt())
        }
        None if matches!(reply.status(), 405 | 429) => {
            Answer::declined(Some(RailCode::new("http", reply.status().to_string())), reply.excerpt())
        }
        None => Answer::unclear(None, reply.excerpt()),
    }
}

/// The transaction's own status goes first; without one the code has to be one that the documents explain.
fn business(code: Option<RailCode>, transaction: Option<Outcome>, reply: &Response, key: &str) -> Answer {
    let value = code.as_ref().map_or("", |code| code.value.as_str()).to_owned();
    let status = transaction.as_ref().and_then(|transaction| transaction.status.clone()).unwrap_or_default();
    let reference = transaction.as_ref().and_then(|transaction| transaction.reference.clone());
    if transaction.as_ref().and_then(|transaction| transaction.id.as_deref()).is_some_and(|id| id != key) {
        return Answer::unclear(None, format!("a reply about something else: {}", reply.excerpt()));
    }
    if DUPLICATE.contains(&value.as_str()) {
        return Answer::pending(reference, code);
    }
    match status.as_str() {
        "TS" | "SUCCESS" if value == SUCCESS => {
            Answer::settled(reference.unwrap_or_else(|| key.to_owned()), code)
        }
        "TIP" => Answer::pending(reference, code),
        "TF" | "TE" | "FAILED" => {
            let code = code.or_else(|| Some(RailCode::new("status", &status)));
            Answer::declined(code, reply.excerpt())
        }
        "" if value == IN_PROCESS => Answer::pending(reference, code),
        "" if REFUSALS.contains(&value.as_str()) => Answer::declined(code, reply.excerpt()),
        "" => Answer::unclear(code, reply.excerpt()),
        // A success that its code does not bear out.
        "TS" | "SUCCESS" => Answer::pending(reference, code),
        // TA, TR and whatever else: Airtel has it, and somebody has to find out.
        _ => Answer::pending(reference, Some(RailCode::new("status", &status))),
    }
}
