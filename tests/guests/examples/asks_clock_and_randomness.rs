//! Says what time it is, and a random number.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::time::SystemTime;

use rail_sdk::{Facts, Payment};

fn disburse(_: &Payment) -> Result<Facts, String> {
    let seconds =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(|error| error.to_string())?;
    let chance = HashMap::<u8, u8>::new().hasher().hash_one(7);
    guests::note(format!("{} {chance}", seconds.as_nanos()))
}

guests::guest!(disburse);
