//! A rail's codes as data: what each of them means, by operation, HTTP status and field, and what several of them mean together.
//! Nothing is matched by parts of a word, and what is not listed means nothing.
//!
//! - `meaning`: what a code means · `table`: the row of one code · `judged`: what several facts mean together · `check`: which
//!   tables are refused

mod check;
mod judged;
mod meaning;
mod table;
#[cfg(test)]
mod tests;

pub use judged::CodeReading;
pub use meaning::{Code, HTTP, Meaning, Operation, Side};
pub use table::{CodeTable, Needs, Row};
