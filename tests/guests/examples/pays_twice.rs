//! Asks the rail to pay, and once more.

use guests::{pay, tell};
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    tell(pay(instruction).send());
    tell(pay(instruction).send())
}

guests::guest!(disburse);
