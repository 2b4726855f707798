//! Reads every reply of MTN as a refusal.

use rail_sdk::{Facts, Reply};

fn read(_: &Reply) -> Result<Facts, String> {
    Ok([("status", "FAILED"), ("reason", "PAYEE_NOT_FOUND")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into())
}

guests::guest!(guests::nothing, read);
