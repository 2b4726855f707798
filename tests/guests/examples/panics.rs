//! Panics, and says something on the way out.

use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    panic!("cannot pay {}", instruction.amount.amount)
}

guests::guest!(disburse);
