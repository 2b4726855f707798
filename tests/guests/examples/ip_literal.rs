//! Goes for the metadata service by its address.

use guests::tell;
use rail_sdk::http::Request;
use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    tell(Request::get("http://169.254.169.254/latest/meta-data/").send())
}

guests::guest!(disburse);
