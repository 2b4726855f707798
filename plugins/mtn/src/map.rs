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
    if reply.status() == 404 && is_not_found(reply.body()) {
        return Answer::NotFound;
    }
    let (200, Ok(said)) = (reply.status(), reply.json::<Status>()) else {
        return Answer::unclear(code(reply), reply.excerpt());
    };
    if said.external_id.as_deref().is_some_and(|id| !id.eq_ignore_ascii_case(key)) {
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

/// A 404 of MTN's own: it names the code of its documents, in the spelling of one or the other of them, or says nothing. A page
/// of a gateway, or an error about the route, is no word on the payment.
fn is_not_found(body: &[u8]) -> bool {
    match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => matches!(refusal.code.as_str(), "RESOURCE_NOT_FOUND" | "RESOURCE NOT FOUND"),
        Err(_) => body.trim_ascii().is_empty(),
    }
}

fn code(reply: &Response) -> Option<RailCode> {
    reply.json::<Refusal>().ok().map(|refusal| RailCode::new("code", refusal.code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_404_is_a_not_found_by_its_code_or_where_it_says_nothing() {
        for body in [
            "",
            "\r\n",
            r#"{"code":"RESOURCE_NOT_FOUND","message":"Requested resource was not found."}"#,
            r#"{"code":"RESOURCE_NOT_FOUND","message":"another text"}"#,
            r#"{"code":"RESOURCE NOT FOUND"}"#,
        ] {
            assert!(is_not_found(body.as_bytes()), "{body}");
        }
        for body in [
            "<html><body>404 RESOURCE_NOT_FOUND</body></html>",
            "RESOURCE_NOT_FOUND",
            r#"{"statusCode":404,"message":"Resource not found"}"#,
            r#"{"code":"NOT_ALLOWED"}"#,
            r#"{"code":["RESOURCE_NOT_FOUND"]}"#,
        ] {
            assert!(!is_not_found(body.as_bytes()), "{body}");
        }
    }
}
