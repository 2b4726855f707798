//! Pays without TLS, and then asks at the same port with it.

use guests::{pay, tell};
use rail_sdk::http::Request;
use rail_sdk::{Answer, Instruction, settings};

fn disburse(instruction: &Instruction) -> Answer {
    match pay(instruction).send() {
        Ok(_) => tell(Request::get(format!("{}/moved", settings::required("secure"))).send()),
        Err(failure) => Answer::of_failed_disburse(failure),
    }
}

guests::guest!(disburse);
