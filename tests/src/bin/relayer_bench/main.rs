//! The figures of the relayer: `cargo run --profile dist -p railhost-tests --bin relayer_bench`.
//!
//! Ratios of two things measured in turns in one run, on a PostgreSQL of its own with `fsync` and `synchronous_commit` on.
//! Nothing here fails because of a figure: the table says what was met.
//!
//! - `wake`: from commit to rail on an idle host, against a notification and a claim by hand · `slow`: thousands of calls in flight beside a
//!   rail that is well · `open`: what an open call takes · `loops`: an adapter that never ends beside an honest one · `idle`: what a host costs that has nothing to do, and how fast it starts
//! - `rails`: a real rail's adapter and its simulator, against the mock
//!
//! How fast a full queue is emptied, and by how many hosts, is measured by `railhost bench`.

mod bed;
mod idle;
mod loops;
mod open;
mod rails;
mod slow;
mod wake;

use anyhow::Result;
use bed::Bed;
use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "relayer_bench", about = "Measures the relayer against its targets")]
struct Arguments {
    /// A smoke test of the benchmark itself: everything scaled down.
    #[arg(long)]
    quick: bool,
    /// Only these: wake, slow, open, loops, idle, rails; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let bed = Bed::start(arguments.quick).await?;
    println!("| what | ours | against | ratio | target |\n|---|---|---|---|---|");
    if wanted("wake") {
        wake::run(&bed).await?;
    }
    if wanted("slow") {
        slow::run(&bed).await?;
    }
    if wanted("open") {
        open::run(&bed).await?;
    }
    if wanted("loops") {
        loops::run(&bed).await?;
    }
    if wanted("idle") {
        idle::run(&bed).await?;
    }
    if wanted("rails") {
        rails::run(&bed).await?;
    }
    Ok(())
}

fn row(what: &str, ours: &str, against: &str, ratio: &str, target: &str) {
    println!("| {what} | {ours} | {against} | {ratio} | {target} |");
}

/// Of samples in any order.
fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn list(samples: &[f64], digits: usize) -> String {
    let all: Vec<_> = samples.iter().map(|sample| format!("{sample:.digits$}")).collect();
    format!("{:.digits$} ({})", median(samples), all.join(", "))
}
