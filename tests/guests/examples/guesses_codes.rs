//! Takes every code that it does not know for one that it knows.

use guests::{pay, tell};
use rail_sdk::{Answer, Instruction, RailCode};

fn disburse(instruction: &Instruction) -> Answer {
    match pay(instruction).send() {
        Ok(reply) if reply.status() == 400 => {
            Answer::declined(Some(RailCode::new("code", "NO_FUNDS")), "refused")
        }
        other => tell(other),
    }
}

guests::guest!(disburse);
