//! Airtel Africa Money, disbursements v2 and v3. The replies are in [`wire`], what they say in [`map`]; what is sent is in the rail's
//! file.
//!
//! Airtel answers business failures with HTTP 200 and uses three envelopes.

#![cfg_attr(target_family = "wasm", no_std)]

mod map;
mod wire;

use rail_sdk::prelude::*;
use rail_sdk::{Adapter, Description, Facts, Operation, Reply};

struct Airtel;

impl Adapter for Airtel {
    fn describe() -> Description {
        Description::new("airtel", env!("CARGO_PKG_VERSION")).facts(&[
            "response_code",
            "result_code",
            "status",
            "status_code",
            "payee_code",
            "is_barred",
        ])
    }

    fn read(_: Operation, step: &str, reply: &Reply) -> Result<Facts, String> {
        match step {
            "payee" => {
                reply.facts(&[("payee_code", "/status/response_code"), ("is_barred", "/data/is_barred")])
            }
            _ => map::facts(reply),
        }
    }
}

rail_sdk::export!(Airtel);
