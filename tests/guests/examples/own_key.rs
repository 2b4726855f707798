//! Pays under a key of its own.

use guests::{pay, tell};
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    let mut other = instruction.clone();
    other.key.uuid = "00000000-0000-4000-8000-000000000000".to_owned();
    tell(pay(&other).send())
}

guests::guest!(disburse);
