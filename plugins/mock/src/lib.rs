//! A rail without a network, for demonstrations, tests and QA: it plays the timeline that a script gives to a payment.
//! The language of scripts is told in [`script`].

#![cfg_attr(target_family = "wasm", no_std)]

mod play;
mod script;

use rail_sdk::prelude::*;
use rail_sdk::{Adapter, Description, Facts, Need, Operation, Payment, Reply, Violation};

use script::Script;

struct Mock;

impl Adapter for Mock {
    fn describe() -> Description {
        Description::new("mock", env!("CARGO_PKG_VERSION"))
            .setting(Need::optional("script", "rules, one a line: WHO: STEP, STEP, …"))
            .setting(Need::optional("seed", "decides what `either` picks; any text"))
            .variable(Need::optional("status", "what the rail says of the payment"))
            .variable(Need::optional("code", "the rail's code"))
            .variable(Need::optional("read", "what this adapter reads instead"))
            .variable(Need::optional("http", "the status of the reply"))
            .variable(Need::optional("wait_ms", "how long the reply takes"))
            .variable(Need::optional("fault", "what happens instead of a reply"))
            .facts(&["status", "code"])
    }

    fn validate(payment: &Payment) -> Result<(), Vec<Violation>> {
        let refused = |problem| vec![Violation::new("settings.script", problem)];
        let script = Script::of(payment).map_err(refused)?;
        play::validate(&script.steps_for(payment))
    }

    fn disburse(payment: &Payment) -> Result<Facts, String> {
        play::step(&Script::of(payment)?.steps_for(payment), payment, Operation::Disburse)
    }

    fn query_status(payment: &Payment) -> Result<Facts, String> {
        play::step(&Script::of(payment)?.steps_for(payment), payment, Operation::QueryStatus)
    }

    /// What it had said, unless the script has it read something else.
    fn read(_: Operation, _: &str, reply: &Reply) -> Result<Facts, String> {
        let instead = reply.facts(&[("status", "/read")])?;
        match instead.first().map(|(_, value)| value.as_str()) {
            Some("nothing") => Err("nothing, by the script".to_owned()),
            Some(_) => Ok(instead),
            None => reply.facts(&[("status", "/status"), ("code", "/code")]),
        }
    }
}

rail_sdk::export!(Mock);
