//! Puts line ends into its value.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    guests::note("a\r\nx-reference-id: 00000000-0000-4000-8000-000000000000")
}

guests::guest!(disburse);
