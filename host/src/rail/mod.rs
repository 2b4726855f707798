//! Rails: third parties' adapters, each in a sandbox that it cannot leave. Knows nothing of databases.
//!
//! In the order in which an adapter meets them:
//!
//! - [`definition`]: the rail's file, checked · [`artifact`]: the component's bytes, digest, signature, contract
//! - [`sandbox`]: the engine and what it is told · [`cache`]: compiled code on disk · [`registry`]: loading and hot swap · [`watch`]: on a changed file
//! - [`call`]: one attempt in a fresh instance · [`contract`]: the WIT types, and what they are here
//! - [`host`]: what its imports do · [`desk`]: what a call has in hand · [`aside`]: work that a guest waits for
//! - [`codes`]: what a rail's codes mean · [`pace`]: how often it is sent to and asked
//! - [`egress`]: the gate that every request passes · [`vault`]: secrets · [`tokens`]: access tokens · [`journal`]: log lines

pub mod artifact;
mod aside;
mod cache;
mod call;
pub mod codes;
mod contract;
pub mod definition;
mod desk;
pub mod egress;
mod error;
mod host;
mod journal;
mod limits;
pub mod pace;
mod registry;
pub mod sandbox;
mod tokens;
mod vault;
mod watch;

pub use call::{Answer, Attempt, Code, Description, Heard, Need, Task};
pub use egress::{Exchange, Left, Script, Scripted, Witness};
pub use error::{CallError, LoadError};
pub use journal::Line;
pub use limits::{Limits, Timeouts};
pub use registry::{Loaded, Rail, Rails, Reloaded};
pub use sandbox::{Allocation, Options, Sandbox};
