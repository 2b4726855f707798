//! What an attempt means, and what comes next. Pure functions of what the host read in the reply, lowered by the adapter's veto, of
//! what the gate saw, and of the payment's history. No I/O, no clock.
//!
//! In the order in which a payment meets them:
//!
//! - [`witness`]: what the gate saw of each request ([`exchange_result`]: of the one that counts)
//! - [`answer`]: how the call ended · [`call_error`]: why an adapter gave no answer
//! - [`judge_disbursement`]: after a request to pay · [`judge_query`]: after a question about one · [`decision`]: what both come to
//! - [`error_code`]: why an attempt is not a success
//! - [`history`]: what the database knows of the attempts before · [`pace`]: how often a rail is sent to and asked
//! - [`schedule`]: what to do now, and when again · [`outcome`]: what is written
//! - [`digest`]: SHA-256, as a name for bytes

pub mod answer;
pub mod call_error;
pub mod decision;
pub mod digest;
pub mod error_code;
mod exchange_result;
pub mod history;
mod judge_disbursement;
mod judge_query;
pub mod outcome;
pub mod pace;
pub mod schedule;
pub mod witness;

pub use judge_disbursement::judge_disbursement;
pub use judge_query::judge_query;
