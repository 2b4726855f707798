//! Logs and prints without end, then answers.

use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    for n in 0..20_000 {
        rail_sdk::log::info("flood", &[("n", &n.to_string())]);
        if n % 100 == 0 {
            println!("flood {n}");
        }
    }
    Answer::settled("done", None)
}

guests::guest!(disburse);
