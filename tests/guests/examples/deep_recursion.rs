//! Calls itself without end.

use rail_sdk::{Facts, Payment};

#[inline(never)]
fn deeper(n: u64) -> u64 {
    if std::hint::black_box(n) == u64::MAX { n } else { deeper(n + 1).wrapping_mul(3) }
}

fn disburse(_: &Payment) -> Result<Facts, String> {
    guests::note(deeper(1).to_string())
}

guests::guest!(disburse);
