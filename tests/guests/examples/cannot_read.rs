//! Understands no reply.

use rail_sdk::{Facts, Reply};

fn read(_: &Reply) -> Result<Facts, String> {
    Err("what?".to_owned())
}

guests::guest!(guests::nothing, read);
