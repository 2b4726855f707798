//! What a host tells about itself. Knows no other room: each makes its own metrics in the [`Registry`].
//!
//! - [`registry`]: metrics by name · [`pages`]: `/metrics`, `/healthz` and `/readyz` · [`listen`]: a plain HTTP server
//!
//! ```
//! use observe::Registry;
//!
//! let registry = Registry::default();
//! let paid = registry.counter("payments_paid_total", "Payments that were paid.")?;
//! paid.inc();
//! assert!(registry.text()?.contains("payments_paid_total 1"));
//! assert!(registry.counter("payments_paid_total", "The name is taken.").is_err());
//! # Ok::<(), prometheus::Error>(())
//! ```

pub mod listen;
mod pages;
mod registry;

pub use pages::{HealthSource, serve};
pub use registry::Registry;
