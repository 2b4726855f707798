//! Rails: third parties' adapters, each in a sandbox that it cannot leave. Knows nothing of databases.
//!
//! In the order in which an adapter meets them:
//!
//! - [`definition`]: the rail's file, checked · [`production`]: what is refused where money is real · [`file`]: reading files
//! - [`artifact`]: the component's bytes, digest, signature, contract
//! - [`sandbox`]: the engine and what it is told · [`compile`]: a process that compiles · [`cache`]: compiled code on disk
//! - [`loaded`]: an adapter that can be called · [`registry`]: all of them, and hot swap · [`watch`]: on a changed file
//! - [`event`]: what is told of a load · [`revoked`]: components that may not speak any more
//! - [`call`]: one attempt in a fresh instance · [`contract`]: the WIT types, and what they are here
//! - [`host`]: what its imports do · [`desk`]: what a call has in hand · [`aside`]: work that a guest waits for
//! - [`codes`]: what a rail's codes mean · [`pace`]: how often it is sent to and asked
//! - [`egress`]: the gate that every request passes · [`vault`]: secrets · [`tokens`]: access tokens · [`journal`]: log lines

pub mod artifact;
mod aside;
mod cache;
mod call;
pub mod codes;
pub mod compile;
mod contract;
pub mod definition;
mod desk;
pub mod egress;
mod error;
mod event;
mod file;
mod host;
mod journal;
mod limits;
mod loaded;
pub mod pace;
mod production;
mod registry;
mod revoked;
pub mod sandbox;
mod tokens;
mod vault;
mod watch;

pub use call::{Answer, Attempt, Code, Description, Heard, Need, Task};
pub use compile::CompileLimits;
pub use egress::{Denied, Exchange, Left, Rule, Script, Scripted, Witness};
pub use error::{CallError, LoadError};
pub use event::{LoadEvent, LoadOutcome};
pub use journal::Line;
pub use limits::{Limits, Timeouts};
pub use loaded::Loaded;
pub use production::Rules;
pub use registry::{Rail, Rails, Reloaded};
pub use sandbox::{Allocation, Options, Sandbox};
