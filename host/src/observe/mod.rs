//! What a host tells about itself: [`metrics`] counts, [`server`] answers `/metrics`, `/healthz` and `/readyz`.

mod metrics;
mod server;

pub use metrics::Metrics;
pub use server::{Health, serve};
