//! What development needs and a shipped build has not.
//!
//! - [`embedded`]: a private, real PostgreSQL · [`simulate`]: rails on loopback · [`demo`]: payments through all of it
//! - [`rail_files`]: rails that point at simulators
//! - [`mod@bench`]: this host, its rivals and the limit side by side

pub mod bench;
pub mod demo;
pub mod embedded;
pub mod rail_files;
pub mod simulate;

pub use rail_simulators as simulators;

/// What a shipped build cannot do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show payments moving through a private PostgreSQL, and what to try next.
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Demo),
    /// Simulate a rail on loopback, with its faults and a ledger of what it paid.
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::Simulate),
    /// Benchmark this host, its rivals and the PostgreSQL limit side by side on a temporary PostgreSQL.
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::Bench),
}
