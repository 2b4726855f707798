//! Takes all memory that it can get.

use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    let mut hoard = Vec::new();
    loop {
        hoard.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

guests::guest!(disburse);
