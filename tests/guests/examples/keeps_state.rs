//! Counts its calls in a static.

use std::sync::atomic::{AtomicU32, Ordering};

use rail_sdk::{Facts, Payment};

static CALLS: AtomicU32 = AtomicU32::new(0);

fn disburse(_: &Payment) -> Result<Facts, String> {
    guests::note((CALLS.fetch_add(1, Ordering::Relaxed) + 1).to_string())
}

guests::guest!(disburse);
