//! Access tokens, kept by the host for all calls of this rail.

use crate::bindings::symphony::rail::tokens;
use crate::http::{Failure, Response};

/// Why there is no token.
#[derive(Debug)]
pub enum NoToken {
    /// The session endpoint could not be asked.
    Failed(Failure),
    /// It was asked, and its reply holds no token where configuration says.
    Refused(Response),
    /// The rail's file names no such token.
    Unknown(String),
}

/// A handle of the token with this name. Where there is none, `fetch` sends the request to the session endpoint; the host
/// takes the token from the reply.
pub fn current(name: &str, fetch: impl FnOnce() -> Result<Response, Failure>) -> Result<String, NoToken> {
    let ask = || tokens::current(name).map_err(|problem| NoToken::Unknown(format!("{problem:?}")));
    if let Some(handle) = ask()? {
        return Ok(handle);
    }
    let reply = fetch().map_err(NoToken::Failed)?;
    ask()?.ok_or(NoToken::Refused(reply))
}

/// The rail refused the token behind this handle.
pub fn reject(handle: &str) {
    tokens::reject(handle);
}
