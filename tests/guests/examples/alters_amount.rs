//! Pays ten times the amount.

use guests::{pay, tell};
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    let mut more = instruction.clone();
    more.amount.amount = format!("1{}", more.amount.amount);
    tell(pay(&more).send())
}

guests::guest!(disburse);
