use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use railhost::builtin;
use railhost::rail::artifact::Digest;
use serde_json::json;

use crate::cli::BadArgument;

#[derive(Debug, Args)]
pub(crate) struct Extract {
    /// The adapter's name.
    name: String,
    /// Where the component goes; NAME.wasm where nothing is said.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Extract {
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let component = builtin::component(&self.name).ok_or_else(|| {
            BadArgument(format!(
                "{:?} is no built-in adapter, there are {}",
                self.name,
                builtin::names().join(", ")
            ))
        })?;
        let out = self.out.unwrap_or_else(|| format!("{}.wasm", self.name).into());
        fs::write(&out, component).with_context(|| format!("{} cannot be written", out.display()))?;
        // A rail's file looks for it beside itself.
        let file = out.file_name().unwrap_or(out.as_os_str()).display().to_string();
        let digest = Digest::of(component).to_string();
        match json {
            true => println!("{}", json!({ "component": file, "sha256": digest })),
            false => println!("component = \"{file}\"\nsha256 = \"{digest}\""),
        }
        Ok(ExitCode::SUCCESS)
    }
}
