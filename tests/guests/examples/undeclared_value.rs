//! Tries to fill in the amount.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    Ok(vec![("amount".to_owned(), "10500.00".to_owned())])
}

guests::guest!(disburse);
