//! Counts its calls in a static.

use rail_sdk::{Answer, Instruction};

static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

fn disburse(_: &Instruction) -> Answer {
    let calls = CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
    Answer::settled(calls.to_string(), None)
}

guests::guest!(disburse);
