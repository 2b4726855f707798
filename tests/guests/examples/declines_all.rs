//! Takes everything that is not a yes for a no.

use guests::{pay, tell};
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    match tell(pay(instruction).send()) {
        settled @ Answer::Settled(_) => settled,
        _ => Answer::declined(None, "no"),
    }
}

guests::guest!(disburse);
