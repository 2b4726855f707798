//! The rail's messages, as types.

use rail_sdk::prelude::*;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Status {
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
}
