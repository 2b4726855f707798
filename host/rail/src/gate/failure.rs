//! Why an exchange did not end with a whole reply.

use verdict::witness::Denial;

/// Why a request brought no whole reply.
#[derive(Debug)]
pub(crate) enum NoWholeReply {
    /// No connection: nothing left.
    Unreachable(String),
    /// Refused by a rule about addresses or time: nothing left.
    Denied(Denial),
    Broken(String),
    TooLarge(String),
}
