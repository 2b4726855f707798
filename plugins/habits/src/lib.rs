//! Three made-up rails with the habits of many: an agency that wants a quote and a recipient first, a gateway that is paid through by
//! GET, and a switch that tells by itself what became of a payment. All that is sent is in their files; the adapter only reads.

#![cfg_attr(target_family = "wasm", no_std)]

use rail_sdk::prelude::*;
use rail_sdk::{Adapter, Description, Facts, Operation, Reply};
use serde_json::Value as Json;

struct Habits;

impl Adapter for Habits {
    fn describe() -> Description {
        let facts = ["state", "error", "picked", "word"];
        Description::new("habits", env!("CARGO_PKG_VERSION")).facts(&facts)
    }

    fn read(_: Operation, step: &str, reply: &Reply) -> Result<Facts, String> {
        match step {
            "pay" | "status" => word(reply),
            "by_reference" => listed(reply),
            _ => reply.facts(&[("state", "/state"), ("error", "/error")]),
        }
    }
}

/// The gateway answers with one word.
fn word(reply: &Reply) -> Result<Facts, String> {
    let text = core::str::from_utf8(&reply.body).map_err(|error| error.to_string())?;
    Ok(vec![("word".to_owned(), text.trim().to_owned())])
}

/// The agency lists what it has under a reference: nothing, or one transfer.
fn listed(reply: &Reply) -> Result<Facts, String> {
    match reply.json()?.get("transfers").and_then(Json::as_array).map(Vec::as_slice) {
        Some([]) => Ok(vec![("picked".to_owned(), "none".to_owned())]),
        Some([transfer]) => {
            let fact = |name: &str| {
                let text = rail_sdk::payment::text(transfer.get(name)?)?;
                Some((name.to_owned(), text))
            };
            Ok(["state", "error"].into_iter().filter_map(fact).collect())
        }
        _ => Err("expected a list of at most one transfer".to_owned()),
    }
}

rail_sdk::export!(Habits);
