//! Reads paid as refused and refused as paid.

use rail_sdk::{Facts, Reply};

fn read(reply: &Reply) -> Result<Facts, String> {
    let text = if reply.body == b"paid" { "refused" } else { "paid" };
    Ok(vec![("text".to_owned(), text.to_owned())])
}

guests::guest!(guests::nothing, read);
