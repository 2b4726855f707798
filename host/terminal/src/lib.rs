//! How a command answers: [`print`] has text for people and JSON for scripts, [`exit`] the exit codes, [`refusal`] why a command was
//! not done.

pub mod exit;
pub mod print;
mod refusal;

pub use refusal::{BadArgument, Missing, Refused};
