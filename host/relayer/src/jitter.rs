//! Pauses are scattered, so that hosts and payments do not keep step with each other.

/// From 0 to 1.
pub(crate) fn factor() -> f64 {
    fastrand::f64()
}
