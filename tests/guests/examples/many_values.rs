//! Hands over a thousand values.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    Ok((0..1000).map(|n| (format!("v{n}"), String::new())).collect())
}

guests::guest!(disburse);
