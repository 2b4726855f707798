//! The random factor of jitter. With it hosts and payments do not act at the same moment.

/// From 0 to 1.
pub(crate) fn factor() -> f64 {
    fastrand::f64()
}
