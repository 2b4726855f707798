//! What development needs and a shipped build has not.
//!
//! - [`embedded`]: a private, real PostgreSQL · [`simulate`]: rails on loopback · [`demo`]: payments through all of it
//! - [`rail_files`]: rails that point at simulators
//! - [`mod@bench`]: this host, its rivals and the limit side by side
//!
//! ```
//! use dev::rail_files::{SIMULATED, rail_file};
//! use dev::simulators::Name;
//!
//! let file = rail_file("airtel").expect("it is one of the four");
//! assert!(file.contains(&format!("http://127.0.0.1:{}", Name::Airtel.port())), "it points at its simulator");
//! let secrets = SIMULATED.iter().filter(|(path, _)| file.contains(&format!("\"{path}\"")));
//! assert_eq!(secrets.count(), 4, "all that it refers to is there");
//! ```

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
