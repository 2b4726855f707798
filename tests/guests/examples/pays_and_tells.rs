//! Asks the rail to pay and tells what it heard: what an adapter should do.

use guests::{pay, tell};
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    tell(pay(instruction).send())
}

guests::guest!(disburse);
