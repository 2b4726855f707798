//! MTN's replies, as types.

use rail_sdk::prelude::*;
use serde::Deserialize;

/// What `GET /disbursement/v1_0/transfer/{referenceId}` says, as far as it decides anything.
#[derive(Debug, Deserialize)]
pub(crate) struct Status<R> {
    pub status: String,
    pub reason: Option<R>,
}

impl Status<String> {
    /// The reason is an object by the documents, a text on the wire.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let text = serde_json::from_slice::<Self>(body);
        text.or_else(|_| serde_json::from_slice::<Status<Reason>>(body).map(Into::into))
            .map_err(|error| error.to_string())
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Reason {
    code: Option<String>,
}

impl From<Status<Reason>> for Status<String> {
    fn from(said: Status<Reason>) -> Self {
        Self { status: said.status, reason: said.reason.and_then(|reason| reason.code) }
    }
}

/// An error of MTN's own.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    pub code: String,
}
