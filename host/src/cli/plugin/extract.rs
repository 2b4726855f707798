use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use rail::builtin;
use serde_json::json;
use verdict::digest::Digest;

use terminal::BadArgument;
use terminal::print::{out, out_json};

#[derive(Debug, Args)]
pub(crate) struct Extract {
    /// The adapter's name.
    name: String,
    /// Output file. Default: NAME.wasm.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Extract {
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let component = builtin::component(&self.name).ok_or_else(|| {
            BadArgument(format!(
                "{:?} is not a built-in adapter, expected one of {}",
                self.name,
                builtin::names().join(", ")
            ))
        })?;
        let path = self.out.unwrap_or_else(|| format!("{}.wasm", self.name).into());
        fs::write(&path, component).with_context(|| format!("{} cannot be written", path.display()))?;
        // A rail file looks for it beside itself.
        let file = path.file_name().unwrap_or(path.as_os_str()).display().to_string();
        let digest = Digest::of(component).to_string();
        match json {
            true => out_json(&json!({ "component": file, "sha256": digest }))?,
            false => out(&format!("component = \"{file}\"\nsha256 = \"{digest}\"\n"))?,
        };
        Ok(ExitCode::SUCCESS)
    }
}
