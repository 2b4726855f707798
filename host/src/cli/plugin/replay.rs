use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use conformance::{self, Case, Expected};
use rail::definition::Definition;
use serde_json::json;

use crate::cli::adapters;
use crate::config::Config;
use terminal::print::{out, out_json};
use terminal::{BadArgument, exit};

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The component.
    component: PathBuf,
    /// The rail file. Its component and digest are ignored.
    #[arg(long, value_name = "FILE")]
    rail: PathBuf,
    /// Recorded exchanges: a folder of JSON files, or a file with one JSON object per line.
    #[arg(long, value_name = "PATH")]
    exchanges: PathBuf,
}

impl ReplayArgs {
    /// Judges recorded exchanges again, and shows those that come to something else than when they were recorded.
    pub(super) async fn run(self, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
        let cases = Case::load_all(&self.exchanges).map_err(BadArgument)?;
        if cases.is_empty() {
            return Err(
                BadArgument(format!("{} contains no recorded exchanges", self.exchanges.display())).into()
            );
        }
        let (sandbox, definition) = (adapters::small_sandbox(config)?, Definition::load(&self.rail)?);
        let judged = conformance::replay(sandbox, &self.component, definition, cases).await?;
        let changed: Vec<&(Case, Expected)> =
            judged.iter().filter(|(case, found)| !case.expect.is_met_by(found)).collect();
        if json {
            let changes: Vec<_> = changed
                .iter()
                .map(|(case, found)| json!({ "exchange": case.name, "was": case.expect, "is": found }))
                .collect();
            out_json(&json!({ "judged": judged.len(), "changed": changes }))?;
        } else {
            for (case, found) in &changed {
                out(&format!("{}: {} (was {})\n", case.name, told(found), told(&case.expect)))?;
            }
            out(&format!("{} judged, {} changed\n", judged.len(), changed.len()))?;
        }
        Ok(if changed.is_empty() { ExitCode::SUCCESS } else { exit::disproved() })
    }
}

fn told(expected: &Expected) -> String {
    let differs = expected.differs.then_some("differs");
    let words = [expected.code.as_deref(), expected.reference.as_deref(), differs];
    let class = format!("{:?}", expected.class);
    std::iter::once(class.as_str()).chain(words.into_iter().flatten()).collect::<Vec<_>>().join(" ")
}
