//! Sends more bytes than the rail allows.

use guests::{base, tell};
use rail_sdk::http::Request;
use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    tell(Request::post(format!("{}/pay", base())).body("text/plain", vec![b'x'; 140 * 1024]).send())
}

guests::guest!(disburse);
