//! What the rail's replies mean, as facts. What follows from them is for the host to decide, by the codes in rail.toml.

use rail_sdk::http::Response;
use rail_sdk::{Answer, RailCode};

use crate::wire::Status;

pub(crate) fn disbursed(reply: &Response) -> Answer {
    known(reply)
}

pub(crate) fn status(reply: &Response) -> Answer {
    match reply.status() {
        404 => Answer::NotFound,
        _ => known(reply),
    }
}

/// Anything that is not said in so many words is unclear.
fn known(reply: &Response) -> Answer {
    let Ok(said) = reply.json::<Status>() else {
        return Answer::unclear(None, format!("HTTP {} without a status", reply.status()));
    };
    let code = |field, value: &str| Some(RailCode::new(field, value));
    match (said.status.as_str(), said.reference) {
        ("PAID", Some(reference)) => Answer::settled(reference, code("status", "PAID")),
        ("ACCEPTED", reference) => Answer::pending(reference, code("status", "ACCEPTED")),
        ("REFUSED", _) => {
            let reason = said.reason.unwrap_or_default();
            match reason.is_empty() {
                true => Answer::unclear(code("status", "REFUSED"), "refused without a reason"),
                false => Answer::declined(code("reason", &reason), "refused by the rail"),
            }
        }
        (other, _) => {
            Answer::unclear(code("status", other), "a status that the rail's documents do not explain")
        }
    }
}
