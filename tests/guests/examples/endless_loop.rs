//! Never comes back from `disburse`.

use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    loop {
        std::hint::black_box(());
    }
}

guests::guest!(disburse);
