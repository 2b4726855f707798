//! What an attempt means, and what comes next. Pure functions of what the host read in the reply, lowered by the adapter's veto, of
//! what the gate saw, and of the payment's history. No I/O, no clock.
//!
//! In the order in which a payment meets them:
//!
//! - [`witness`]: what the gate saw of each request ([`exchange_result`]: of the one that counts)
//! - [`answer`]: how the call ended · [`call_error`]: why an adapter gave no answer
//! - [`mod@judge_disbursement`]: after a request to pay · [`mod@judge_query`]: after a question about one · [`decision`]: what both come to
//! - [`error_code`]: why an attempt is not a success
//! - [`history`]: what the database knows of the attempts before · [`pace`]: how often a rail is sent to and asked
//! - [`schedule`]: what to do now, and when again · [`outcome`]: what is written
//! - [`digest`]: SHA-256, as a name for bytes
//!
//! ```
//! use std::time::Duration;
//! use verdict::schedule::{Conclusion, RailPolicy, conclude};
//! use verdict::witness::{Exchange, Sent, Witness};
//! use verdict::{answer::CallResult, decision::Class, history::History, judge_disbursement, pace::Pace};
//!
//! let (class, left) = (form::StepClass::Money, Sent::Body);
//! let (step, status, retry_after_seconds, token_is_fresh) = ("pay".to_owned(), None, None, None);
//! let silent = Exchange { step, class, left, status, whole: false, retry_after_seconds, token_is_fresh };
//! let witness = Witness { exchanges: vec![silent], denied: Vec::new() };
//! let decision = judge_disbursement(&CallResult::Unanswered("the connection broke".to_owned()), &witness);
//! assert_eq!(decision.class, Class::Unknown, "the request left, so it may have paid");
//! let deadline = Duration::from_secs(30);
//! let policy = RailPolicy { pace: Pace::default(), idempotent: true, can_query: true, calls_back: false, deadline };
//! let next = conclude(decision, 1, &History::default(), &policy, chrono::DateTime::UNIX_EPOCH, 0.5);
//! assert!(matches!(next, Conclusion::Attempt(outcome) if outcome.unsettled == Some(true)), "ask first");
//! ```

#![warn(missing_docs)]

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
