//! Pauses are scattered, so that hosts and payments do not march in step.

/// From 0 to 1.
pub(crate) fn die() -> f64 {
    fastrand::f64()
}
