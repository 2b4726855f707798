//! Logs whatever it hears, also a secret that the rail sent back.

use guests::pay;
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    let handle = rail_sdk::vault::handle("api-key").expect("it is configured");
    match pay(instruction).header("x-api-key", handle).send() {
        Ok(reply) => {
            let heard = String::from_utf8_lossy(reply.body()).into_owned();
            rail_sdk::log::info(&heard, &[("header", reply.header("x-echo").unwrap_or_default())]);
            println!("{heard}");
            Answer::unclear(None, heard)
        }
        Err(failure) => Answer::of_failed_disburse(failure),
    }
}

guests::guest!(disburse);
