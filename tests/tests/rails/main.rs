//! The real rails' adapters against their simulators, through a real host and PostgreSQL, by the project's own rail files. After
//! every play the simulator's ledger and our books agree, payment by payment, and no key was paid twice.

mod airtel;
mod bank;
mod control;
mod every;
mod examples;
mod habits;
mod held;
mod mtn;
mod straight;
mod tables;
mod xsd;
