//! Takes all memory that it can get.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    let mut hoard = Vec::new();
    loop {
        hoard.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

guests::guest!(disburse);
