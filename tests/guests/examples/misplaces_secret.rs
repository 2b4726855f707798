//! Sends a secret where it does not belong.

use guests::{pay, tell};
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    let handle = rail_sdk::vault::handle("api-key").expect("it is configured");
    tell(pay(instruction).header("x-note", handle).send())
}

guests::guest!(disburse);
