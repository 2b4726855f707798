//! A rail's file as a form: what a request looks like, who fills in which value, how replies are read and what they mean. No I/O.
//!
//! In the order in which a payment meets them:
//!
//! - [`file`], [`reply_file`], [`callback_file`]: the form as it is written · `load`: checked, with every template parsed
//! - `form`: all of it · [`step`], [`request`]: its parts
//! - `place`: where a value may stand · `way`: which requests pay, and that the host writes the money in them
//! - [`field`]: which texts may stand in it · [`slot`]: what stands in the place of a value · [`template`]: bodies with slots
//! - `fit`: whether a payment fits it · `input`: what it is filled in with · [`fill`]: a payment in, a request or a named `refusal` out
//! - [`reply`]: how a reply is read · `read`: a reply in, facts out · `doc`: what stands where in it · [`json`]: a strict reader
//! - `profile`: signatures over a whole request · [`callback`]: what a rail tells unasked
//! - [`hours`]: when a rail pays · [`float`]: what is left to pay from
//! - [`codes`]: what facts mean · [`judge`]: the host's reading, and the adapter's brake
//! - [`unfill`]: a request in, its step and values out, for whoever plays the rail
//! - [`show`], `shown`: the form as an approver sees it: worked examples, and what changed

pub mod callback;
pub mod callback_file;
pub mod codes;
mod doc;
pub mod encoding;
pub mod field;
pub mod file;
pub mod fill;
mod fit;
pub mod float;
mod form;
pub mod hours;
mod input;
pub mod json;
pub mod judge;
mod load;
mod place;
mod profile;
mod read;
mod refusal;
pub mod reply;
pub mod reply_file;
pub mod request;
pub mod show;
mod shown;
pub mod slot;
pub mod step;
pub mod template;
pub mod unfill;
mod way;

pub use codes::{Code, CodeTable, HTTP, Meaning, Operation, Row, Side};
pub use file::{FormFile, StepClass};
pub use fill::Request;
pub use form::Form;
pub use input::{Input, Secrets};
pub use judge::{Reading, Veto};
pub use refusal::Refusal;
pub use reply::Reply;
pub use request::{RequestTemplate, Target};
pub use shown::Shown;
pub use step::Step;
