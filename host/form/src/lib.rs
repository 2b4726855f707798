//! A rail file as a form: what a request looks like, who fills in which value, how replies are read and what they mean. No I/O.
//!
//! In the order in which a payment meets them:
//!
//! - [`mod@file`], [`reply_file`], [`callback_file`]: the form as it is written · `load`: checked, with every template parsed
//! - `form`: all of it · [`step`], [`request`]: its parts
//! - `slot_rules`: where a value may stand ([`encoding`]) · `computed`: what signatures are made of · `operations`: which step stands in which operation
//! - `way`: which requests pay, and that the host writes the money in them
//! - [`field`]: which texts may stand in it · [`slot`]: what stands in the place of a value · [`template`]: bodies with slots
//! - `fit`: whether a payment fits it · `input`: what it is filled in with · `filling`: what stands in each place
//! - [`fill`]: a payment in, a request or a named `fill_error` out
//! - [`reply`]: how a reply is read · `read`: a reply in, facts out · `doc`: what stands where in it · [`json`]: a strict reader
//! - `profile`: signatures over a whole request · [`callback`]: what a rail tells unasked
//! - [`hours`]: when a rail pays · [`float`]: what is left to pay from
//! - [`codes`]: what facts mean · [`judge`]: the host's reading, and the adapter's veto
//! - [`match_request`]: a request in, its step and values out, for whoever plays the rail
//! - [`show`], `shown`: the form as an approver sees it: worked examples, and what changed
//!
//! ```
//! use form::{Form, FormFile, Meaning, Operation, Reply};
//!
//! let pay = "pay.request = 'PUT {base}/pay/{key:uuid}?to={destination.msisdn}&amount={amount:decimal}'";
//! let form = Form::load(&FormFile {
//!     base: Some("https://rail.example".to_owned()), currencies: vec!["ZMW".to_owned()],
//!     destination: toml::from_str("parts.msisdn = { kind = 'msisdn', country = '260' }")?,
//!     steps: toml::from_str(&format!("pay.class = 'money'\npay.reply.any.facts.code.one = '/code'\n{pay}"))?,
//!     disburse: toml::from_str("steps = ['pay']")?,
//!     codes: toml::from_str("version = 1\nrows = [{ field = 'code', code = 'PAID', class = 'success' }]")?,
//!     ..FormFile::default()
//! })?;
//! assert!(form.example("ZMW")?.contains("?to=260961234567&amount=125.00"), "the host writes payee and amount");
//! let (step, payment) = (form.step("pay").expect("it is there"), form.example_payment("ZMW")?);
//! let reply = Reply { status: 200, headers: &[], body: br#"{ "code": "PAID" }"# };
//! assert_eq!(form.read(step, Operation::Disburse, &reply, &payment).meaning, Some(Meaning::Success));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

pub mod callback;
pub mod callback_file;
pub mod codes;
mod computed;
mod doc;
pub mod encoding;
pub mod field;
pub mod file;
pub mod fill;
mod fill_error;
mod filling;
mod fit;
pub mod float;
mod form;
pub mod hours;
mod input;
pub mod json;
pub mod judge;
mod load;
pub mod match_request;
mod operations;
mod profile;
mod read;
pub mod reply;
pub mod reply_file;
pub mod request;
pub mod show;
mod shown;
pub mod slot;
mod slot_rules;
pub mod step;
pub mod template;
mod way;

pub use codes::{Code, CodeTable, HTTP, Meaning, Operation, Row, Side};
pub use file::{FormFile, StepClass};
pub use fill::FilledRequest;
pub use fill_error::FillError;
pub use form::Form;
pub use input::{Input, Secrets};
pub use judge::{Reading, Veto};
pub use reply::Reply;
pub use request::{RequestTarget, RequestTemplate};
pub use shown::Shown;
pub use step::Step;
