//! The adapter's exports. What the rail says is in `wire`, what that is by the names of rail.toml in `map`.

#![cfg_attr(target_family = "wasm", no_std)]

mod map;
mod wire;

use rail_sdk::prelude::*;
use rail_sdk::{Adapter, Description, Facts, Operation, Payment, Reply, Violation};

struct Rail;

/// What this rail takes at most in one payment, in the currency's smallest unit.
const MINOR_UNITS_MAX: u128 = 100_000_000_000_000_000;

impl Adapter for Rail {
    fn describe() -> Description {
        Description::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .facts(&["status", "reason", "body"])
    }

    /// What the fields of rail.toml cannot say.
    fn validate(payment: &Payment) -> Result<(), Vec<Violation>> {
        let minor_units: u128 = payment.amount.replacen('.', "", 1).parse().unwrap_or(u128::MAX);
        match minor_units > MINOR_UNITS_MAX {
            true => Err(vec![Violation::new("amount", "is more than this rail takes")]),
            false => Ok(()),
        }
    }

    /// An adapter's own reading can only make the host ask again: read strictly, and say no more than the reply does.
    fn read(_: Operation, _: &str, reply: &Reply) -> Result<Facts, String> {
        map::facts(reply)
    }
}

rail_sdk::export!(Rail);
