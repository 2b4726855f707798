//! The relayer: from a committed row to a fenced verdict. Any number of hosts run it against one database.
//!
//! In the order in which a payment meets them:
//!
//! - [`mod@run`]: a host from its start to its end ([`run_error`]) · [`host`]: what its parts share · [`options`]: how it works
//! - [`claim`]: leases what is due, when [`rhythm`] says so ([`presence`], [`notifications`], [`database_clock`], [`unanswered`])
//! - [`lane`]: how much a rail may take ([`queue_view`], [`breaker`], [`breaker_state`], [`refusals`])
//! - [`lanes`]: all of them ([`new_rails`])
//! - [`dispatch`]: a task for each payment · [`attempt`]: one payment through one call ([`rail_call`], [`rail_signals`], and before it
//!   [`mark_requests`] and [`mark_writer`], where the rail needs that)
//! - [`report`]: writes down what came of it, however long that takes ([`persist`]) · [`unused`]: why a lease goes back
//! - [`housekeeping`]: repair, heartbeat, parking, stops · [`float`]: what is left to pay from
//! - [`callbacks`]: what rails tell us unasked ([`callback_result`]) · [`health`]: whether this host can do its work · [`metrics`]: what it counts
//! - [`stop`]: a rail that only a person may start again · [`jitter`]: scattered pauses
//! - [`known_bad`]: what a host without a guard would do
//!
//! ```
//! use relayer::{CallbackResult, RelayerOptions};
//!
//! let options = RelayerOptions { connections: 16, ..RelayerOptions::default() };
//! assert!(options.listen && options.poll.as_secs() == 1, "it looks at the queue also without a notification");
//! assert_ne!(options.worker_id, RelayerOptions::default().worker_id, "each start is a worker of its own");
//! assert_eq!(CallbackResult::Forged.as_str(), "forged");
//! ```

mod attempt;
mod breaker;
mod breaker_state;
mod callback_result;
pub mod callbacks;
mod claim;
mod database_clock;
mod dispatch;
mod float;
mod health;
mod host;
mod housekeeping;
mod jitter;
mod known_bad;
mod lane;
mod lanes;
mod mark_requests;
mod mark_writer;
mod metrics;
mod new_rails;
mod notifications;
mod options;
mod persist;
mod presence;
mod queue_view;
mod rail_call;
mod rail_signals;
mod refusals;
mod report;
mod rhythm;
mod run;
mod run_error;
mod stop;
mod unanswered;
mod unused;

pub use callback_result::CallbackResult;
pub use health::Health;
pub use metrics::Metrics;
pub use options::{Exchanged, RelayerOptions};
pub use run::run;
pub use run_error::RunError;
