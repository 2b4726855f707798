//! What is wrong with a payment, and where.

use std::fmt;

/// Something that keeps a payment from being sent, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which part of the payload is wrong, such as `amount` or `destination.msisdn`.
    pub field: String,
    /// What is wrong, in words that fit after the part's name: `must be a text`.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl Violation {
    /// Takes both texts as they are and checks neither.
    pub fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}
