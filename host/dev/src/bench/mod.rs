//! Us, the rivals, the outbox alone and the limit, side by side on one PostgreSQL in one run.
//!
//! Read in the order in which a run visits the files:
//!
//! 1. `scenario`: what is measured, a file of `config/bench` · `ground`: who is at hand to be measured
//! 2. `bed`: the server, and a fresh database for every run · `meter`, `process`: what a run costs there and elsewhere
//! 3. `contestant`, and each of them: `ours` (with `rails`, `flow` and `history`), `functions`, `floor`, `rival` (with `driver` and `rail`)
//! 4. `turns`: rounds in which everybody has a turn · `burn`, `steady`, `slow`, `dead`, `hosts`, `hot`: the kinds of scenarios
//! 5. `figures`: medians and spread · `targets`: what was to be reached · `report`, `plot`, `machine`: what is written down
//!
//! Nothing here fails because of a figure: the tables say what was met. It fails where a contestant did.

mod bed;
mod burn;
mod contestant;
mod dead;
mod driver;
mod figures;
mod floor;
mod flow;
mod functions;
mod ground;
mod history;
mod hosts;
mod hot;
mod machine;
mod meter;
mod names;
mod ours;
mod plot;
mod process;
mod rail;
mod rails;
mod report;
mod rival;
mod scenario;
mod shapes;
mod slow;
mod steady;
mod targets;
mod turns;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::Args;

use bed::BenchServer;
use figures::FigureRow;
use ground::BenchSetup;
use machine::Machine;
use report::{BenchReport, Measured};
use rival::Rival;
use scenario::{Scenario, ScenarioKind};
use terminal::BadArgument;
use terminal::print::{self, say};

/// Under its help.
pub const EXAMPLES: &str = "Examples:
  railhost bench config/bench/1-burn-down.toml --quick
  bash tests/bench/run --page tests/bench/README.md";

#[derive(Debug, Args)]
pub struct Bench {
    /// Files that say what is measured; without any, those of config/bench.
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// Folder for tables, plots, samples and the temporary PostgreSQL.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
    /// Holds a folder for each rival, with its driver and a file rival.toml.
    #[arg(long, value_name = "FOLDER")]
    rivals: Option<PathBuf>,
    /// Only this scenario or this contestant, by name; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// A smoke test of the benchmark itself: a twentieth of everything, one round. Its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// A page in Markdown with two marks, between which the tables are written; the plots go to `results` beside it.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Number of rounds; overrides the scenarios.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
}

impl Bench {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        tokio::select! {
            answer = self.measure_all() => answer,
            _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted; {} has what was measured", self.out.display())),
        }
    }

    /// Everything that can be wrong with the arguments is found before anything is started.
    async fn measure_all(&self) -> anyhow::Result<ExitCode> {
        let rivals = rival::find(self.rivals.as_deref())?;
        let (scenarios, contestants) = self.wanted(&rivals)?;
        let out = std::path::absolute(&self.out)?;
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let bed = BenchServer::start(&out).await?;
        let machine = Machine::look(&bed, self.quick).await?;
        let ground = BenchSetup::open(bed, rivals, contestants, self.quick, self.rounds).await?;
        let mut report = BenchReport::new(machine.with_rivals(ground.rivals()), &out);
        for scenario in scenarios {
            say(&format!("{}: {}", scenario.name, scenario.about));
            let lines = measure(&ground, &scenario).await?;
            if !lines.is_empty() {
                report.add(Measured::new(scenario, lines))?;
            }
        }
        if let Some(page) = &self.page {
            report.put_into(page)?;
        }
        print::out(&(report.text() + "\n"))?;
        Ok(if report.has_failures() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// The scenarios that were asked for, and the contestants, all of them where none is named.
    fn wanted(&self, rivals: &[Rival]) -> anyhow::Result<(Vec<Scenario>, Vec<String>)> {
        let mut scenarios = match self.scenarios.as_slice() {
            [] => scenario::built_in()?,
            files => files.iter().map(|file| scenario::read(file)).collect::<Result<_, _>>()?,
        };
        let mut contestants = contestant::names(rivals);
        let (of_scenarios, of_contestants): (Vec<_>, Vec<_>) =
            self.only.iter().partition(|name| scenarios.iter().any(|scenario| scenario.name == **name));
        if let Some(stranger) = of_contestants.iter().find(|name| !contestants.contains(name)) {
            let known: Vec<_> = scenarios
                .iter()
                .map(|scenario| &scenario.name)
                .chain(&contestants)
                .map(String::as_str)
                .collect();
            return Err(
                BadArgument(format!("--only is {stranger:?}, expected one of {}", known.join(", "))).into()
            );
        }
        if !of_scenarios.is_empty() {
            scenarios.retain(|scenario| of_scenarios.contains(&&scenario.name));
        }
        if !of_contestants.is_empty() {
            contestants.retain(|name| of_contestants.contains(&name));
        }
        Ok((scenarios, contestants))
    }
}

async fn measure(ground: &BenchSetup, scenario: &Scenario) -> anyhow::Result<Vec<FigureRow>> {
    match &scenario.kind {
        ScenarioKind::BurnDown(asked) => burn::down(ground, scenario, asked).await,
        ScenarioKind::AtOnce(asked) => burn::at_once(ground, scenario, asked).await,
        ScenarioKind::Backlog(asked) => burn::backlog(ground, scenario, asked).await,
        ScenarioKind::Steady(asked) => steady::run(ground, scenario, asked).await,
        ScenarioKind::SlowRail(asked) => slow::run(ground, scenario, asked).await,
        ScenarioKind::DeadRail(asked) => dead::run(ground, scenario, asked).await,
        ScenarioKind::Hosts(asked) => hosts::run(ground, scenario, asked).await,
        ScenarioKind::HotParticipant(asked) => hot::run(ground, scenario, asked).await,
    }
}
