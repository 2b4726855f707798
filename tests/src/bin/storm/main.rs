//! Storms for a night or a release: rounds with a seed each, kept as they end, so that a run that was cut off goes on where it
//! stopped.
//!
//! ```text
//! cargo run -p railhost-tests --bin storm -- push       # one round
//! cargo run -p railhost-tests --bin storm -- nightly    # at least 10,000 faults and 100,000 payments
//! cargo run -p railhost-tests --bin storm -- release    # at least 100,000 faults and 1,000,000 payments
//! ```

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use harness::storm::{Report, Size, round};
use harness::world::Audit;
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Length {
    Push,
    Nightly,
    Release,
}

impl Length {
    /// Faults and payments that have to come together.
    fn goal(self) -> (u64, usize) {
        match self {
            Self::Push => (500, 5_000),
            Self::Nightly => (10_000, 100_000),
            Self::Release => (100_000, 1_000_000),
        }
    }

    fn round(self) -> Size {
        match self {
            Self::Push => Size::PUSH,
            Self::Nightly | Self::Release => Size { payments: 10_000, menus: 1 },
        }
    }
}

#[derive(Debug, Parser)]
struct Arguments {
    length: Length,
    /// The seed of the first round; the others follow it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where finished rounds are kept, one a line. A run goes on after those that it finds there.
    #[arg(long, default_value = "target/evidence/storm.jsonl")]
    rounds: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (faults_goal, payments_goal) = arguments.length.goal();
    let mut done: Vec<Report> = finished(&arguments.rounds);
    if !done.is_empty() {
        println!("{} rounds are done already: {}", done.len(), arguments.rounds.display());
    }
    let began = Instant::now();
    while sum(&done, Report::faults_total) < faults_goal
        || sum(&done, |report| report.payments) < payments_goal
    {
        let seed = arguments.seed + done.len() as u64;
        let progress = ProgressBar::new(0)
            .with_style(
                ProgressStyle::with_template("seed {prefix}  {wide_bar} {pos} of {len}  {msg}")
                    .expect("a template"),
            )
            .with_prefix(seed.to_string());
        let report = round(seed, arguments.length.round(), |step, steps, what| {
            progress.set_length(steps as u64);
            progress.set_position(step as u64);
            progress.set_message(what.to_owned());
        })
        .await;
        progress.finish_and_clear();
        println!(
            "seed {seed}: PostgreSQL {}, {} payments, {} faults in {:.0} s, converged after {:.1} s, {}",
            report.postgres,
            report.payments,
            report.faults_total(),
            report.seconds,
            report.converged_seconds,
            if report.audit.is_clean() { "clean" } else { "NOT CLEAN" }
        );
        keep(&arguments.rounds, &report);
        let clean = report.audit.is_clean();
        if !clean {
            println!("{:#?}", report.audit);
        }
        done.push(report);
        if !clean {
            return ExitCode::FAILURE;
        }
    }
    tell(&done, began.elapsed().as_secs_f64())
}

fn sum<T: std::iter::Sum>(done: &[Report], of: impl Fn(&Report) -> T) -> T {
    done.iter().map(of).sum()
}

fn finished(file: &Path) -> Vec<Report> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a round")).collect()
}

fn keep(file: &Path, report: &Report) {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).expect("a folder");
    }
    let mut file = OpenOptions::new().create(true).append(true).open(file).expect("opened");
    writeln!(file, "{}", serde_json::to_string(report).expect("JSON")).expect("written");
}

/// All rounds together.
fn tell(done: &[Report], seconds: f64) -> ExitCode {
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for report in done {
        for (kind, count) in &report.faults {
            kinds.entry(kind).or_default().0 += count;
        }
        for (what, count) in &report.saw {
            kinds.entry(what).or_default().1 += count;
        }
    }
    println!("\n{:<58}{:>10}", "faults, by kind", "");
    for (kind, (faults, _)) in kinds.iter().filter(|(_, (faults, _))| *faults > 0) {
        println!("{kind:<58}{faults:>10}");
    }
    println!("\n{:<58}{:>10}", "what happened", "");
    for (what, (_, saw)) in kinds.iter().filter(|(_, (faults, saw))| *saw > 0 && *faults == 0) {
        println!("{what:<58}{saw:>10}");
    }
    let total = |of: fn(&Audit) -> usize| sum(done, |report| of(&report.audit));
    println!("\n{:<58}{:>10}", "payments, by three books", "");
    for (what, count) in [
        ("submitted", total(|audit| audit.submitted)),
        ("dispatched", total(|audit| audit.dispatched)),
        ("refused, no money moved", total(|audit| audit.refused)),
        ("left to a person", total(|audit| audit.unresolved)),
        ("lost", total(|audit| audit.lost)),
        ("doubled", total(|audit| audit.doubled)),
        ("disagreed", total(|audit| audit.disagreed)),
        ("orphaned", total(|audit| audit.orphaned)),
        ("written under a lost lease", total(|audit| audit.stale_accepted)),
        ("stuck", total(|audit| audit.stuck)),
    ] {
        println!("{what:<58}{count:>10}");
    }
    let faults = sum(done, Report::faults_total);
    let resumed = done.iter().map(|report| report.resumed_seconds_max).fold(0.0, f64::max);
    println!(
        "\n{} rounds, {faults} faults, {} payments; {seconds:.0} s of it now. Dispatch resumed at most {resumed:.1} s after a killed database was back.",
        done.len(),
        sum(done, |report| report.payments),
    );
    println!(
        "No failure in {faults} faults: with 95 % confidence fewer than {:.4} % of such faults cost a payment.",
        300.0 / faults as f64
    );
    let missed: Vec<_> =
        kinds.iter().filter(|(_, (faults, saw))| *faults == 0 && *saw == 0).map(|(what, _)| *what).collect();
    match missed[..] {
        [] => ExitCode::SUCCESS,
        _ => {
            println!(
                "These did not happen once, so the run proves less than it should: {}",
                missed.join(", ")
            );
            ExitCode::FAILURE
        }
    }
}
