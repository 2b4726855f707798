//! Airtel's replies, as types.

use rail_sdk::payment::text;
use rail_sdk::prelude::*;
use serde::Deserialize;
use serde_json::Value;

/// The envelopes of product and gateway in one: each has what the other has not. A code is a text or a number, and what is not there
/// is left out, empty, or an empty list.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope {
    status: Option<Value>,
    data: Option<Value>,
    status_code: Option<Value>,
}

impl Envelope {
    /// The authority, where it is given.
    pub(crate) fn response_code(&self) -> Option<String> {
        text(self.status.as_ref()?.get("response_code")?)
    }

    /// Deprecated, and sometimes the only one.
    pub(crate) fn result_code(&self) -> Option<String> {
        text(self.status.as_ref()?.get("result_code")?)
    }

    pub(crate) fn transaction_status(&self) -> Option<String> {
        text(self.data.as_ref()?.pointer("/transaction/status")?)
    }

    /// The gateway's own.
    pub(crate) fn gateway_code(&self) -> Option<String> {
        text(self.status_code.as_ref()?)
    }
}
