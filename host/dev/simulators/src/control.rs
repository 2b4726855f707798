//! The pages under `/_sim/`, for tests and people: scripts, tokens and the ledger.
//!
//! | request | what |
//! |---|---|
//! | `PUT /_sim/script` | other rules, for payments that arrive from now on |
//! | `PUT /_sim/float` | what is left to pay from, as the rail says when it is asked |
//! | `POST /_sim/tokens/expire` | every token is worth nothing from now on |
//! | `GET /_sim/counts` | what arrived, what was paid, which faults were played |
//! | `GET /_sim/ledger` | every payment, one JSON object a line |
//! | `GET /_sim/ledger/KEY` | one payment, by the rail's form of its key |

use http::Method;
use serde::Serialize;

use crate::rail::{RailRequest, SimulatedReply};
use crate::world::World;

const PREFIX: &str = "/_sim/";

pub(crate) fn answer(world: &World, asked: &RailRequest) -> Option<SimulatedReply> {
    let page = asked.path.strip_prefix(PREFIX)?;
    let text =
        |status, text: &str| SimulatedReply::new(status, "text/plain; charset=utf-8", format!("{text}\n"));
    Some(match (&asked.method, page) {
        (&Method::PUT, "script") => match world.follow(&String::from_utf8_lossy(&asked.body)) {
            Ok(()) => text(200, "it counts from now on"),
            Err(problem) => text(400, &problem),
        },
        (&Method::PUT, "float") => {
            world.set_float(String::from_utf8_lossy(&asked.body).trim());
            text(200, "this is the float from now on")
        }
        (&Method::POST, "tokens/expire") => {
            world.tokens.expire();
            text(200, "all tokens are worth nothing")
        }
        (&Method::GET, "counts") => json(&world.ledger().counts()),
        (&Method::GET, "ledger") => {
            let lines = world.ledger().entries().iter().map(line).collect();
            SimulatedReply::new(200, "application/x-ndjson", join(lines))
        }
        (&Method::GET, page) => {
            match page.strip_prefix("ledger/").and_then(|key| world.ledger().entry(key)) {
                Some(entry) => json(&entry),
                None => text(404, "there are script, float, tokens/expire, counts, ledger and ledger/KEY"),
            }
        }
        _ => text(404, "there are script, float, tokens/expire, counts, ledger and ledger/KEY"),
    })
}

fn json(value: &impl Serialize) -> SimulatedReply {
    SimulatedReply::new(200, "application/json", line(value))
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers and texts serialise")
}

fn join(lines: Vec<String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}
