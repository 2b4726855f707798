//! The outbox in PostgreSQL: the only room with the product's SQL. Of a rail it knows the name, the switches and digests.
//!
//! In the order a payment meets them: [`enqueue`] accepts it, [`wake`] says that something is due, [`lease`] makes it ours
//! until a time and under a token, [`complete`] ends the lease with its outcome. Beside them: [`operate`] for a person's
//! acts, [`read`] for what people look at, [`retain`] for old history, [`migrate`] for the schema itself, [`ready`] for
//! whether a host may work on it.
//!
//! Every wrapper belongs to one database role and holds a pool of that role's login, so that a mistake in one place
//! cannot use the rights of another. The rules live in the functions of `migrations/`; what comes back are plain structs
//! and one [`Error`], told apart by SQLSTATE.
//!
//! ```
//! use outbox::SchemaName;
//!
//! let sql = "select outbox_id from symphony.payment_outbox_pending; notify outbox_pending";
//! let schema: SchemaName = "payouts".parse()?;
//! let placed = "select outbox_id from payouts.payment_outbox_pending; notify outbox_pending_payouts";
//! assert_eq!(schema.rewrite(sql), placed);
//! assert_eq!(SchemaName::default().rewrite(sql), sql, "SQL is written for the default schema");
//! assert!("public".parse::<SchemaName>().is_err(), "that one belongs to PostgreSQL");
//! # Ok::<(), String>(())
//! ```

mod database;
mod error;
mod functions;
mod notices;
mod pool;
mod schema;
mod text;

pub mod complete;
pub mod enqueue;
pub mod lease;
pub mod migrate;
pub mod operate;
pub mod read;
pub mod ready;
pub mod retain;
pub mod wake;

pub use database::{Database, Role};
pub use error::Error;
pub use functions::Changed;
pub use notices::{Notices, unconfirmed_commits};
pub use schema::SchemaName;

/// At most this many rows travel in one call; the functions refuse more.
pub const BATCH_ROWS_MAX: usize = 10_000;

const PARKING_ROWS_PER_CALL: i32 = 10_000;
