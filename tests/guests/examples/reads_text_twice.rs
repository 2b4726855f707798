//! Another honest adapter, of other bytes.

use rail_sdk::{Facts, Reply};

fn read(reply: &Reply) -> Result<Facts, String> {
    let mut facts = guests::text(reply)?;
    facts.extend(guests::text(reply)?);
    Ok(facts)
}

guests::guest!(guests::nothing, read);
