//! Never comes back from `disburse`.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    loop {
        std::hint::black_box(());
    }
}

guests::guest!(disburse);
