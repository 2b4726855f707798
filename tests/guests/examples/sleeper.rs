//! Sleeps for an hour, by its own clock.

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    std::thread::sleep(std::time::Duration::from_secs(3600));
    guests::note("awake")
}

guests::guest!(disburse);
