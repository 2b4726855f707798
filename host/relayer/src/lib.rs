//! The relayer: from a committed row to a fenced verdict. Any number of hosts run it against one database.
//!
//! In the order in which a payment meets them:
//!
//! - [`run`]: a host from its start to its end · [`host`]: what its parts share · [`options`]: how it works
//! - [`claim`]: wakes and leases · [`lane`]: how much a rail may take ([`breaker`], [`refusals`]) · [`lanes`]: all of them ([`new_rails`])
//! - [`attempt`]: one payment through one call ([`marker`], [`mark`] before it, where the rail needs that)
//! - [`report`]: writes down what came of it, however long that takes ([`persist`])
//! - [`keep`]: repair, heartbeat, parking, signs of life · [`float`]: what is left to pay from
//! - [`callbacks`]: what rails tell us unasked ([`hint`]) · [`health`]: whether this host can do its work · [`metrics`]: what it counts
//! - [`stop`]: a rail that only a person may start again · [`jitter`]: pauses, scattered
//! - [`known_bad`]: what a host without a guard would do

mod attempt;
mod breaker;
pub mod callbacks;
mod claim;
mod float;
mod health;
mod hint;
mod host;
mod jitter;
mod keep;
mod known_bad;
mod lane;
mod lanes;
mod mark;
mod marker;
mod metrics;
mod new_rails;
mod options;
mod persist;
mod refusals;
mod report;
mod run;
mod stop;

pub use health::Health;
pub use hint::Hint;
pub use metrics::Metrics;
pub use options::{Exchanged, Options};
pub use run::run;
