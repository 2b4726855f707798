//! Symphony Rail Host: leases payments from a PostgreSQL outbox and hands each to its rail.
//!
//! In reading order: [`outbox`] keeps the payments and is the only place with SQL; [`embedded`] runs a private
//! PostgreSQL for development and tests.

pub mod embedded;
pub mod outbox;
