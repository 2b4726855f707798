//! Hands the host more in one call than it takes.

use guests::{base, tell};
use rail_sdk::http::Request;
use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    tell(Request::post(format!("{}/pay", base())).body("text/plain", vec![b'x'; 8 << 20]).send())
}

guests::guest!(disburse);
