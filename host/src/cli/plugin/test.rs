use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use conformance::{self, Case};
use rail::definition::Definition;

use crate::cli::adapters;
use crate::config::Config;
use terminal::print::{out, out_json};
use terminal::{BadArgument, exit};

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// The component.
    component: PathBuf,
    /// The rail file. Its component and digest are ignored.
    #[arg(long, value_name = "FILE")]
    rail: Option<PathBuf>,
    /// A folder of recorded exchanges, one JSON file each.
    #[arg(long, value_name = "FOLDER", requires = "rail")]
    exchanges: Option<PathBuf>,
    /// Also write the report as JSON; it names the component by its digest.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Test {
    pub(super) async fn run(self, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
        let definition = self.rail.as_deref().map(Definition::load).transpose()?;
        let cases = match &self.exchanges {
            Some(folder) => Case::load_all(folder).map_err(BadArgument)?,
            None => Vec::new(),
        };
        let sandbox = adapters::small_sandbox(config)?;
        let report = conformance::run(sandbox, &self.component, definition, cases).await?;
        if let Some(path) = &self.report {
            fs::write(path, serde_json::to_string_pretty(&report)?)
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        match json {
            true => out_json(&report)?,
            false => out(&format!("{report}\n"))?,
        };
        Ok(if report.has_failed() { exit::refused_some() } else { ExitCode::SUCCESS })
    }
}
