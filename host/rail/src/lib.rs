//! Rails: their forms, filled in and sent by the host, with third parties' adapters in a sandbox. Knows nothing of databases.
//!
//! In the order in which an adapter meets them:
//!
//! - [`definition`]: the rail file, checked · [`production`]: what is refused where money is real · [`mod@file`]: reading files
//! - [`artifact`]: the component's bytes, digest, signature, contract
//! - [`sandbox`]: the engine and what it is told · [`compile`]: a process that compiles · [`cache`]: compiled code on disk
//! - [`loaded`]: an adapter that can be called · [`registry`]: all of them, and hot swap · [`watch`]: on a changed file
//! - [`event`]: what is told of a load · [`revoked`]: components that may not speak any more
//! - [`call_report`]: what is asked of a call, and what came of it · [`instance`]: one guest from its start to its end
//! - [`call`]: one payment through its form · [`contract`]: the WIT types, and what they are here · [`guest`]: what an adapter finds
//!   around it, and what limits its memory · [`mock`]: a rail without a network
//! - [`redacted`]: what may be seen of a call · [`session`]: what a request needs first, and what is left to pay from
//!   ([`tokens`], [`published`] keys of the rail's, [`cached_value`]: values that end)
//! - [`gate`]: what leaves and what comes back · [`vault`]: secrets · [`key`], [`key_file`], [`small_rsa`]: keys
//! - [`builtin`]: adapters that are compiled in · [`engine`], [`limits`]: what a guest may use · [`source`], [`fetch`]: where components and
//!   secrets come from · [`description`]: what an adapter says of itself · [`error`]: why a load fails
//! - [`known_bad`]: what a host without a guard would do
//!
//! ```
//! use rail::artifact::{CONTRACT, Outline, Pair};
//! use rail::definition::Profile;
//! use verdict::digest::Digest;
//!
//! let component = rail::builtin::component("mtn").expect("it is compiled in");
//! let outline = Outline::read(component)?;
//! assert_eq!(outline.contract.as_deref(), Some(CONTRACT));
//! outline.check(Profile::Strict)?; // it imports nothing that the contract does not grant
//! let pair = Pair { component: Digest::of(component), file: Digest::of(b"base = \"https://rail.example\"") };
//! assert!(pair.signed_text().starts_with(b"symphony rail\ncomponent "), "this is what approvers sign");
//! # Ok::<(), rail::LoadError>(())
//! ```

pub mod artifact;
pub mod builtin;
mod cache;
mod cached_value;
mod call;
mod call_report;
pub mod compile;
mod contract;
pub mod definition;
mod description;
mod engine;
mod error;
mod event;
mod fetch;
mod file;
pub mod gate;
mod guest;
mod instance;
mod key;
pub mod key_file;
mod known_bad;
mod limits;
mod loaded;
mod mock;
mod production;
mod published;
mod redacted;
mod registry;
mod revoked;
pub mod sandbox;
mod session;
mod small_rsa;
mod source;
mod tokens;
mod vault;
mod watch;

pub use call_report::{CallReport, CaptureStore, Captures, RecordedExchange, RecordedReply, Task};
pub use compile::CompileLimits;
pub use description::{Description, Need};
pub use error::LoadError;
pub use event::{LoadEvent, LoadOutcome};
pub use gate::{RailStub, Scripted};
pub use limits::{Limits, Timeouts};
pub use loaded::Loaded;
pub use production::{Examine, Rules};
pub use registry::{Rail, Rails, Reloaded};
pub use sandbox::{Allocation, Sandbox, SandboxOptions};
