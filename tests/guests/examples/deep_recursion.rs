//! Calls itself without end.

use rail_sdk::{Answer, Instruction};

#[inline(never)]
fn deeper(n: u64) -> u64 {
    if std::hint::black_box(n) == u64::MAX { n } else { deeper(n + 1).wrapping_mul(3) }
}

fn disburse(_: &Instruction) -> Answer {
    Answer::settled(deeper(1).to_string(), None)
}

guests::guest!(disburse);
