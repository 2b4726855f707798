//! Which build this is.

/// Version, commit, and whether what only development needs is in it.
pub(crate) const TEXT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("RAILHOST_COMMIT"),
    ", ",
    env!("RAILHOST_KIND"),
    ")"
);
/// Of what it is built.
pub(crate) const COMMIT: &str = env!("RAILHOST_COMMIT");
