use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use crate::cli::BadArgument;
use crate::cli::print::{out, out_json};

#[derive(Debug, Args)]
pub(crate) struct New {
    /// The adapter's name: letters, digits and dashes.
    name: String,
    /// Where to put its folder.
    #[arg(long, default_value = ".")]
    into: PathBuf,
}

macro_rules! files {
    ($($path:literal from $source:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../../../", $source)))),*]
    };
}

/// The adapter itself, and beside it the contract and the SDK, so that it needs nothing else.
const FILES: [(&str, &str); 23] = files![
    ".gitignore" from "plugins/template/gitignore",
    "Cargo.toml" from "plugins/template/Cargo.toml.template",
    "README.md" from "plugins/template/README.md.template",
    "rail.toml" from "plugins/template/rail.toml",
    "src/lib.rs" from "plugins/template/src/lib.rs",
    "src/wire.rs" from "plugins/template/src/wire.rs",
    "src/map.rs" from "plugins/template/src/map.rs",
    "exchanges/accepted.json" from "plugins/template/exchanges/accepted.json",
    "exchanges/bad_number.json" from "plugins/template/exchanges/bad_number.json",
    "exchanges/found.json" from "plugins/template/exchanges/found.json",
    "exchanges/no_such_payee.json" from "plugins/template/exchanges/no_such_payee.json",
    "exchanges/not_found.json" from "plugins/template/exchanges/not_found.json",
    "exchanges/paid.json" from "plugins/template/exchanges/paid.json",
    "exchanges/refused.json" from "plugins/template/exchanges/refused.json",
    "exchanges/refused_later.json" from "plugins/template/exchanges/refused_later.json",
    "exchanges/refused_for_a_reason_of_its_own.json" from "plugins/template/exchanges/refused_for_a_reason_of_its_own.json",
    "exchanges/still_open.json" from "plugins/template/exchanges/still_open.json",
    "wit/1.0.0/adapter.wit" from "wit/1.0.0/adapter.wit",
    "vendor/sdk/Cargo.toml" from "plugins/sdk/Cargo.toml",
    "vendor/sdk/src/lib.rs" from "plugins/sdk/src/lib.rs",
    "vendor/sdk/src/arena.rs" from "plugins/sdk/src/arena.rs",
    "vendor/sdk/src/describe.rs" from "plugins/sdk/src/describe.rs",
    "vendor/sdk/src/payment.rs" from "plugins/sdk/src/payment.rs",
];

impl New {
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let sound = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
        if !self.name.starts_with(|char: char| char.is_ascii_lowercase()) || !self.name.chars().all(sound) {
            let problem = format!(
                "{:?} is not a name for an adapter, expected lower-case letters, digits and dashes",
                self.name
            );
            return Err(BadArgument(problem).into());
        }
        let folder = self.into.join(&self.name);
        if folder.exists() {
            return Err(
                BadArgument(format!("{} is there already, nothing was written", folder.display())).into()
            );
        }
        let file = self.name.replace('-', "_");
        for (path, text) in FILES {
            let ours = !path.starts_with("vendor") && !path.starts_with("wit") && !path.ends_with(".rs");
            let text = if ours {
                text.replace("{name}", &self.name).replace("{file}", &file)
            } else {
                text.to_owned()
            };
            write(&folder.join(path), &text)?;
        }
        let folder = folder.display();
        match json {
            true => out_json(&json!({ "folder": folder.to_string() }))?,
            false => out(&format!(
                "{folder} is a new adapter. To build and test it:\n
  cd {folder}
  rustup target add wasm32-wasip2
  cargo build --release --target wasm32-wasip2
  railhost plugin test target/wasm32-wasip2/release/{file}.wasm --rail rail.toml --exchanges exchanges\n"
            ))?,
        };
        Ok(ExitCode::SUCCESS)
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let failed = || format!("{} cannot be written", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(failed)?;
    }
    fs::write(path, text).with_context(failed)
}
