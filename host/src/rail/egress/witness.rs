//! What the host itself saw. "Nothing was sent" is its knowledge, never the adapter's claim.

use super::rules::Class;

/// How much of a request was handed to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    Nothing,
    /// At least a byte, perhaps all.
    Headers,
    /// The body too.
    Body,
}

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The name of the endpoint in the rail's file.
    pub endpoint: String,
    pub class: Class,
    pub left: Left,
    /// Set when the head of a reply was read, whether or not its body followed.
    pub status: Option<u16>,
    /// The whole reply was read.
    pub whole: bool,
    /// Seconds from `Retry-After`, where the reply had it as a number.
    pub retry_after_seconds: Option<u32>,
    /// Whether the token that it carried was fetched within the same call.
    pub token_is_fresh: Option<bool>,
}

/// All requests of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Witness {
    pub exchanges: Vec<Exchange>,
    /// The gate refused something; what, and why.
    pub denied: Vec<String>,
}

impl Witness {
    /// The one request that could have moved money, if it was made.
    pub fn money(&self) -> Option<&Exchange> {
        self.exchanges.iter().find(|exchange| exchange.class == Class::Money)
    }

    /// How much of it left.
    pub fn money_left(&self) -> Left {
        self.money().map_or(Left::Nothing, |exchange| exchange.left)
    }
}
