//! Wants nothing sent.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    Err("not today\u{1b}[2J".to_owned())
}

guests::guest!(disburse);
