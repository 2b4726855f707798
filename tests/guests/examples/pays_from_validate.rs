//! Moves money before it was asked to.

use guests::{pay, tell};
use rail_sdk::{Answer, Instruction, Violation};

fn validate(instruction: &Instruction) -> Result<(), Vec<Violation>> {
    match tell(pay(instruction).send()) {
        Answer::NotSent(why) => Err(vec![Violation::new("gate", why)]),
        _ => Ok(()),
    }
}

fn disburse(_: &Instruction) -> Answer {
    Answer::settled("before", None)
}

guests::guest!(validate, disburse);
