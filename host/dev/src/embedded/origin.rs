//! Where binaries come from.

use std::fmt;

/// Where binaries were found, in the order in which we look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BinaryOrigin {
    /// Named by this environment variable.
    Variable(String),
    /// On the `PATH`.
    Path,
    /// In one of the usual places of distributions.
    Distribution,
    /// This package, fetched earlier.
    Cached(String),
    /// This package, fetched just now.
    Fetched(String),
}

impl fmt::Display for BinaryOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "{name}"),
            Self::Path => write!(f, "the PATH"),
            Self::Distribution => write!(f, "the distribution"),
            Self::Cached(package) => write!(f, "the package {package}, fetched earlier"),
            Self::Fetched(package) => write!(f, "the package {package}, fetched now"),
        }
    }
}
