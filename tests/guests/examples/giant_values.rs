//! Hands the host more in one call than it takes.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    guests::note("x".repeat(8 << 20))
}

guests::guest!(disburse);
