//! Gives its variable twice.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    Ok([guests::note("one")?, guests::note("two")?].concat())
}

guests::guest!(disburse);
