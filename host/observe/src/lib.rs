//! What a host tells about itself. Knows no other room: each makes its own metrics in the [`Registry`].
//!
//! - [`registry`]: metrics by name · [`pages`]: `/metrics`, `/healthz` and `/readyz` · [`listen`]: a plain HTTP server

pub mod listen;
mod pages;
mod registry;

pub use pages::{Health, serve};
pub use registry::Registry;
