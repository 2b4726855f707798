//! Symphony Rail Host: leases payments from a PostgreSQL outbox and hands each to its rail.
//!
//! In reading order: [`relayer`] carries payments from the outbox to their rails; [`outbox`] keeps the payments and is the only
//! place with SQL; [`payment`] is what a rail is told of one; [`form`] is a rail's file: what is sent and how replies are read;
//! [`rail`] runs the adapters, fills in the form and sends it;
//! [`outcome`] judges what came of it; [`callbacks`] takes hints of rails. [`observe`] tells how a host is doing. [`builtin`]
//! holds the adapters that come with the host, [`conformance`] tests adapters for those who write them, [`embedded`] runs a private
//! PostgreSQL for development and tests, [`faults`] is where tests break a host.

pub use {form, payment};

pub mod builtin;
pub mod callbacks;
pub mod conformance;
pub mod embedded;
pub mod faults;
mod listen;
pub mod observe;
pub mod outbox;
pub mod outcome;
pub mod rail;
pub mod relayer;
