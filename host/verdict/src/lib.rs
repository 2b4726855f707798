//! What an attempt means, and what comes next. Pure functions of what the host read in the reply, lowered by the adapter's veto, of
//! what the gate saw, and of the payment's history. No I/O, no clock.
//!
//! In the order in which a payment meets them:
//!
//! - [`witness`]: what the gate saw of each request · [`answer`]: how the call ended · [`call_error`]: why an adapter gave no answer
//! - [`disburse`]: after a request to pay · [`query`]: after a question about one · [`decision`]: what both come to
//! - [`error_code`]: why an attempt is not a success
//! - [`history`]: what the database knows of the attempts before · [`pace`]: how often a rail is sent to and asked
//! - [`schedule`]: what to do now, and when again · [`outcome`]: what is written
//! - [`digest`]: SHA-256, as a name for bytes

pub mod answer;
pub mod call_error;
pub mod decision;
pub mod digest;
mod disburse;
pub mod error_code;
pub mod history;
pub mod outcome;
pub mod pace;
mod query;
pub mod schedule;
mod seen;
pub mod witness;

pub use disburse::disburse;
pub use query::query;
