//! Panics, and says something on the way out.

use rail_sdk::{Facts, Payment};

fn disburse(payment: &Payment) -> Result<Facts, String> {
    panic!("cannot pay {}", payment.amount)
}

guests::guest!(disburse);
