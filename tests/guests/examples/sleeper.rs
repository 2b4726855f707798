//! Sleeps for an hour.

use rail_sdk::{Answer, Instruction};

fn disburse(_: &Instruction) -> Answer {
    std::thread::sleep(std::time::Duration::from_secs(3600));
    Answer::NotFound
}

guests::guest!(disburse);
