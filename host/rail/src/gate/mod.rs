//! The gate: every request to a rail passes here, and what was seen of it.
//!
//! - [`exchange`]: one request on its way out and its reply on its way in · [`carrier`]: the wire, or a script in its place
//! - [`wire`]: an exchange, and connections kept for the next · [`dial`], [`tls`]: new ones
//! - [`address`]: which addresses may be dialled, as a pure function · [`veil`]: secrets found again in what comes back
//! - [`trail`]: what happened to one request

pub(crate) mod address;
mod carrier;
pub(crate) mod dial;
mod exchange;
mod failure;
pub(crate) mod tls;
mod trail;
pub(crate) mod veil;
pub(crate) mod wire;

pub(crate) use carrier::Carrier;
pub use carrier::{Script, Scripted};
pub use dial::{Resolve, Resolver};
pub(crate) use exchange::{Gate, Passage, Reply};
pub(crate) use wire::Departure;
