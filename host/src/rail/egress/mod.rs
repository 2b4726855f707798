//! The gate: every request of every adapter passes here, or does not leave.
//!
//! - [`rules`]: which requests may leave, as pure functions · [`places`]: what stands where in a request
//! - [`fill`]: secrets in place of their handles · [`address`]: which addresses may be dialled, as a pure function
//! - [`gate`]: one request on its way out and its reply on its way in · [`carrier`]: the wire, or a script in its place
//! - [`wire`]: an exchange, and connections kept for the next · [`dial`], [`tls`]: new ones
//! - [`trail`]: what happened to one request · [`witness`]: what was seen in a whole call

pub(crate) mod address;
mod carrier;
pub(crate) mod dial;
pub(crate) mod fill;
mod gate;
pub(crate) mod places;
pub(crate) mod rules;
pub(crate) mod tls;
mod trail;
pub(crate) mod wire;
mod witness;

pub(crate) use carrier::Carrier;
pub use carrier::{Script, Scripted};
pub use dial::{Resolve, Resolver};
pub(crate) use gate::{Failure, Gate, Outgoing, Passage, Reply, scrubbed};
pub use rules::Class;
pub(crate) use wire::Departure;
pub use witness::{Denied, Exchange, Left, Rule, Witness};
