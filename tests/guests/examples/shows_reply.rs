//! Prints what it is shown of a reply.

use rail_sdk::{Facts, Reply};

fn read(reply: &Reply) -> Result<Facts, String> {
    println!("{:?} {}", reply.headers, String::from_utf8_lossy(&reply.body));
    guests::text(reply)
}

guests::guest!(guests::nothing, read);
