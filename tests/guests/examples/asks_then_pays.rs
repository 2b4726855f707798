//! Asks its rail something first, and pays when it has the answer.

use guests::{base, pay, tell};
use rail_sdk::http::Request;
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    match Request::get(format!("{}/moved", base())).send() {
        Ok(_) => tell(pay(instruction).send()),
        Err(failure) => Answer::of_failed_disburse(failure),
    }
}

guests::guest!(disburse);
