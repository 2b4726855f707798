//! The gate: every request to a rail passes here, and what was seen of it.
//!
//! - [`exchange`]: one request on its way out and its reply on its way in · [`carrier`]: the wire, or a script in its place
//! - [`wire`]: an exchange, and connections kept for the next · [`dial`], [`tls`]: new ones
//! - [`address`]: which addresses may be dialled, as a pure function · [`secret_filter`]: secrets found again in what comes back
//! - [`send_progress`]: how much of one request left · [`failure`]: why an exchange ended

pub(crate) mod address;
mod carrier;
pub(crate) mod dial;
mod exchange;
mod failure;
pub(crate) mod secret_filter;
mod send_progress;
pub(crate) mod tls;
pub(crate) mod wire;

pub(crate) use carrier::Carrier;
pub use carrier::{RailStub, Scripted};
pub use dial::{Resolve, Resolver};
pub(crate) use exchange::{CallLog, Gate, HttpReply};
pub(crate) use wire::SendPermit;
