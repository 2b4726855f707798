//! The outbox in PostgreSQL, by its functions: what they do, what they refuse, and whom.

mod claim;
mod complete;
mod enqueue;
mod enqueue_refused;
mod fencing;
mod functions;
mod lease;
mod operator;
mod parking;
mod retention;
mod roles;
mod schema;
mod wrappers;
