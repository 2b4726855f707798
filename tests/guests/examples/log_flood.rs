//! Prints without end, then answers.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    for n in 0..2_000 {
        println!("flood {n}");
    }
    guests::note("done")
}

guests::guest!(disburse);
