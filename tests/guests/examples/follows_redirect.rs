//! Goes wherever a reply points it.

use guests::{base, tell};
use rail_sdk::http::Request;
use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    match Request::get(format!("{}/moved", base())).send() {
        Ok(reply) => match reply.header("location") {
            Some(location) => tell(Request::get(location).send()),
            None => Answer::unclear(None, format!("{} without a location", reply.status())),
        },
        Err(failure) => Answer::of_failed_disburse(failure),
    }
}

guests::guest!(disburse);
