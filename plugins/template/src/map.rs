//! What the rail's replies say, by the names of rail.toml. What follows from a fact is for its code table to say.

use rail_sdk::prelude::*;
use rail_sdk::{Facts, Reply};

use crate::wire::Status;

pub(crate) fn facts(reply: &Reply) -> Result<Facts, String> {
    // An empty 404 is all that the rail says of a payment that it does not know.
    if reply.status == 404 && reply.is_blank() {
        return Ok(vec![("body".to_owned(), "blank".to_owned())]);
    }
    let said: Status = serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
    let reason = said.reason.map(|reason| ("reason".to_owned(), reason));
    Ok(core::iter::once(("status".to_owned(), said.status)).chain(reason).collect())
}
