//! The figures of the outbox, measured on a PostgreSQL of our own: `cargo run --profile dist -p railhost-tests --bin bench`.
//!
//! Every figure is a ratio of two things measured in turns in one run, so that a slow machine slows both. Nothing here
//! fails because of a figure: the table says what was met and what was missed.
//!
//! - `bed`: the server and its databases · `report`: samples, ratios, the table
//! - `payments`, `ways`, `cost`: what the scenarios share: work to do, ways to do it, what one claim costs
//! - `lifecycle`, `bare`, `pinned`, `wal`, `wake`, `bloat`: scenarios on small databases
//! - `large`: one database with years of history, for `backlog`, `ahead` and `history`

mod ahead;
mod backlog;
mod bare;
mod bed;
mod bloat;
mod cost;
mod history;
mod large;
mod lifecycle;
mod payments;
mod pinned;
mod report;
mod wake;
mod wal;
mod ways;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;

use bed::{BenchServer, say};
use report::Report;

#[derive(Debug, Parser)]
#[command(name = "bench", about = "Measures the outbox against its targets, on a throwaway PostgreSQL")]
pub(crate) struct Arguments {
    /// A smoke test of the benchmark itself: everything scaled down, its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// The major version of PostgreSQL.
    #[arg(long, default_value_t = 18, value_parser = clap::value_parser!(u32).range(15..))]
    major: u32,
    /// Only these scenarios; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Divides the large database by this, for a machine with less than 25 GB to spare; the table says the sizes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    shrink: u32,
    /// Where results.json, table.md and, while it runs, the database go.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

const SCENARIOS: [&str; 11] =
    ["single", "looped", "bare", "pinned", "wal", "wake", "bloat", "hot", "backlog", "ahead", "history"];

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    for name in &arguments.only {
        ensure!(
            SCENARIOS.contains(&name.as_str()),
            "there is no scenario {name}; there are {}",
            SCENARIOS.join(", ")
        );
    }
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);

    let bed = BenchServer::start(&arguments).await?;
    let mut report = Report::new(bed.facts().await?, &arguments.out);
    say(&report.heading());

    if wanted("single") {
        report.add([lifecycle::against_single_rows(&bed).await?])?;
    }
    if wanted("looped") {
        report.add([lifecycle::against_loops(&bed).await?])?;
    }
    if wanted("bare") {
        report.add([bare::run(&bed).await?])?;
    }
    if wanted("pinned") {
        report.add([pinned::run(&bed).await?])?;
    }
    if wanted("wal") {
        report.add([wal::run(&bed).await?])?;
    }
    if wanted("wake") {
        report.add([wake::run(&bed).await?])?;
    }
    if wanted("bloat") || wanted("hot") {
        report.add(bloat::run(&bed).await?)?;
    }
    if wanted("backlog") || wanted("ahead") || wanted("history") {
        let large = large::Large::seed(&bed).await?;
        if wanted("history") {
            report.add([history::run(&bed, &large).await?])?;
        }
        if wanted("backlog") {
            report.add(backlog::run(&large).await?)?;
        }
        if wanted("ahead") {
            ahead::run(&large, &mut report).await?;
        }
    }
    println!("{}", report.table());
    Ok(())
}
