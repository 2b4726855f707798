//! The figures of the outbox, measured on a PostgreSQL of our own: `cargo run --release -p railhost-tests --bin bench`.
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
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;

use bed::{Bed, say};
use report::{Figure, Report};

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
    /// Where results.json, table.md and, while it runs, the database go.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

const SCENARIOS: [&str; 11] = [
    "single", "looped", "bare", "pinned", "wal", "wake", "bloat", "hot", "backlog", "ahead", "history",
];

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    for name in &arguments.only {
        ensure!(SCENARIOS.contains(&name.as_str()), "there is no scenario {name}; there are {}", SCENARIOS.join(", "));
    }
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);

    let started = Instant::now();
    let bed = Bed::start(&arguments).await?;
    let mut report = Report::new(bed.facts().await?);
    say(&report.heading());

    let mut figures: Vec<Figure> = Vec::new();
    if wanted("single") {
        figures.push(lifecycle::against_single_rows(&bed).await?);
    }
    if wanted("looped") {
        figures.push(lifecycle::against_loops(&bed).await?);
    }
    if wanted("bare") {
        figures.push(bare::run(&bed).await?);
    }
    if wanted("pinned") {
        figures.push(pinned::run(&bed).await?);
    }
    if wanted("wal") {
        figures.push(wal::run(&bed).await?);
    }
    if wanted("wake") {
        figures.push(wake::run(&bed).await?);
    }
    if wanted("bloat") || wanted("hot") {
        figures.extend(bloat::run(&bed).await?);
    }
    if wanted("backlog") || wanted("ahead") || wanted("history") {
        let large = large::Large::seed(&bed).await?;
        if wanted("history") {
            figures.push(history::run(&bed, &large).await?);
        }
        if wanted("backlog") {
            figures.extend(backlog::run(&bed, &large).await?);
        }
        if wanted("ahead") {
            figures.extend(ahead::run(&bed, &large).await?);
        }
    }

    report.finish(figures, started.elapsed());
    report.write(&arguments.out)?;
    println!("{}", report.table());
    Ok(())
}
