//! MTN MoMo Open API, product Disbursement. The replies are in [`wire`], what they say in [`map`]; what is sent is in the rail file.
//!
//! `transfer` is answered with an empty 202 even where it is doomed, so the truth is in the status.

#![cfg_attr(target_family = "wasm", no_std)]

mod map;
mod wire;

use rail_sdk::prelude::*;
use rail_sdk::{Adapter, Description, Facts, Operation, Reply};

struct Mtn;

impl Adapter for Mtn {
    fn describe() -> Description {
        Description::new("mtn", env!("CARGO_PKG_VERSION")).facts(&[
            "status",
            "reason",
            "code",
            "body",
            "is_active",
            "payee_code",
        ])
    }

    fn read(operation: Operation, step: &str, reply: &Reply) -> Result<Facts, String> {
        match operation {
            _ if step == "payee" => reply.facts(&[("is_active", "/result"), ("payee_code", "/code")]),
            Operation::Disburse => map::transferred(reply),
            Operation::QueryStatus => map::status(reply),
        }
    }
}

rail_sdk::export!(Mtn);
