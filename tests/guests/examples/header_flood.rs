//! Sends more headers than anyone should.

use guests::{pay, tell};
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    let mut request = pay(instruction);
    for n in 0..500 {
        request = request.header(&format!("x-{n}"), "flood");
    }
    tell(request.send())
}

guests::guest!(disburse);
