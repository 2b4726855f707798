//! What MTN's replies mean, as facts. What follows from a code is for the table in the rail's file to say.

use rail_sdk::http::Response;
use rail_sdk::{Answer, RailCode};

use crate::wire::{Refusal, Status};

/// The reply to `transfer`.
pub(crate) fn transferred(reply: &Response) -> Answer {
    match (reply.status(), code(reply)) {
        (202, _) => Answer::pending(None, None),
        // The reference is taken, which only we can have done: the original is there.
        (409, code) => Answer::pending(None, code),
        (400.., Some(code)) => Answer::declined(Some(code), reply.excerpt()),
        (status @ (400 | 411 | 429), None) => {
            Answer::declined(Some(RailCode::new("http", status.to_string())), reply.excerpt())
        }
        (_, code) => Answer::unclear(code, reply.excerpt()),
    }
}

/// The reply to a question. `status` goes before `reason`, whatever the two say.
pub(crate) fn status(reply: &Response, key: &str) -> Answer {
    if reply.status() == 404 && code(reply).is_some_and(|code| code.value == "RESOURCE_NOT_FOUND") {
        return Answer::NotFound;
    }
    let (200, Ok(said)) = (reply.status(), reply.json::<Status>()) else {
        return Answer::unclear(code(reply), reply.excerpt());
    };
    if said.external_id.as_deref().is_some_and(|id| id != key) {
        return Answer::unclear(None, format!("a reply about something else: {}", reply.excerpt()));
    }
    let status = RailCode::new("status", &said.status);
    match (said.status.as_str(), said.reason()) {
        ("SUCCESSFUL", _) => {
            Answer::settled(said.transaction_id().unwrap_or_else(|| key.to_owned()), Some(status))
        }
        ("FAILED", Some(reason)) => {
            Answer::declined(Some(RailCode::new("reason", reason)), "MTN says FAILED")
        }
        ("FAILED", None) => Answer::declined(Some(status), "MTN says FAILED and not why"),
        // PENDING, CREATED, and whatever else it may say of a payment that it has.
        _ => Answer::pending(said.transaction_id(), Some(status)),
    }
}

fn code(reply: &Response) -> Option<RailCode> {
    reply.json::<Refusal>().ok().map(|refusal| RailCode::new("code", refusal.code))
}
