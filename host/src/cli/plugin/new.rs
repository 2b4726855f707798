use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::json;

use terminal::BadArgument;
use terminal::print::{out, out_json};

#[derive(Debug, Args)]
pub(crate) struct New {
    /// The adapter's name: letters, digits and dashes.
    name: String,
    /// The language that it is written in.
    #[arg(long, value_enum, default_value = "rust")]
    lang: Language,
    /// Where to put its folder.
    #[arg(long, default_value = ".")]
    into: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Language {
    Rust,
    Python,
    Js,
}

macro_rules! files {
    ($($path:literal from $source:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../", $source)))),*]
    };
}

type Files = &'static [(&'static str, &'static str)];

/// The same in every language: the form, recorded exchanges, the contract.
const SHARED: Files = files![
    "rail.toml" from "plugins/template/rail.toml",
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
];

/// With the SDK beside it, so that it needs nothing else.
const RUST: Files = files![
    ".gitignore" from "plugins/template/gitignore",
    "Cargo.toml" from "plugins/template/Cargo.toml.template",
    "README.md" from "plugins/template/README.md.template",
    "src/lib.rs" from "plugins/template/src/lib.rs",
    "src/wire.rs" from "plugins/template/src/wire.rs",
    "src/map.rs" from "plugins/template/src/map.rs",
    "vendor/sdk/Cargo.toml" from "plugins/sdk/Cargo.toml",
    "vendor/sdk/src/lib.rs" from "plugins/sdk/src/lib.rs",
    "vendor/sdk/src/arena.rs" from "plugins/sdk/src/arena.rs",
    "vendor/sdk/src/describe.rs" from "plugins/sdk/src/describe.rs",
    "vendor/sdk/src/payment.rs" from "plugins/sdk/src/payment.rs",
];

const PYTHON: Files = files![
    ".gitignore" from "plugins/template-python/gitignore",
    "README.md" from "plugins/template-python/README.md.template",
    "adapter.py" from "plugins/template-python/adapter.py",
    "build" from "plugins/template-python/build",
    "requirements.txt" from "plugins/template-python/requirements.txt",
];

const JS: Files = files![
    ".gitignore" from "plugins/template-js/gitignore",
    "README.md" from "plugins/template-js/README.md.template",
    "adapter.js" from "plugins/template-js/adapter.js",
    "build" from "plugins/template-js/build",
    "package.json" from "plugins/template-js/package.json",
    "package-lock.json" from "plugins/template-js/package-lock.json",
];

impl Language {
    fn files(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let own = match self {
            Self::Rust => RUST,
            Self::Python => PYTHON,
            Self::Js => JS,
        };
        SHARED.iter().chain(own)
    }

    /// What a runtime needs besides, in the rail file.
    fn limits(self) -> (&'static str, &'static str) {
        match self {
            Self::Rust => ("", ""),
            Self::Python => ("profile = \"inert\"\n", "[limits]\ncpu_ms = 1000\n\n"),
            Self::Js => ("", "[limits]\nmemory_mib = 128\ncpu_ms = 2000\n\n"),
        }
    }

    /// How it is built, and where the component is then.
    fn built(self, file: &str) -> (&'static str, String) {
        match self {
            Self::Rust => (
                "rustup target add wasm32-wasip2\n  cargo build --release --target wasm32-wasip2",
                format!("target/wasm32-wasip2/release/{file}.wasm"),
            ),
            Self::Python | Self::Js => ("sh build", format!("{file}.wasm")),
        }
    }
}

/// These hold braces of their own.
fn is_code(path: &str) -> bool {
    let code = [".rs", ".py", ".js", ".json"].iter().any(|end| path.ends_with(end));
    path.starts_with("vendor") || path.starts_with("wit") || code
}

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
                BadArgument(format!("{} already exists; nothing was written", folder.display())).into()
            );
        }
        let file = self.name.replace('-', "_");
        let (profile, limits) = self.lang.limits();
        for (path, text) in self.lang.files() {
            let mut text = match is_code(path) {
                true => (*text).to_owned(),
                false => text.replace("{name}", &self.name).replace("{file}", &file),
            };
            if *path == "rail.toml" {
                text = text.replacen("idempotent =", &format!("{profile}idempotent ="), 1).replacen(
                    "[secrets]",
                    &format!("{limits}[secrets]"),
                    1,
                );
            }
            write(&folder.join(path), &text)?;
        }
        let (build, component) = self.lang.built(&file);
        let folder = folder.display();
        match json {
            true => out_json(&json!({ "folder": folder.to_string(), "component": component }))?,
            false => out(&format!(
                "{folder} is a new adapter. To build and test it:\n
  cd {folder}
  {build}
  railhost plugin test {component} --rail rail.toml --exchanges exchanges\n"
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
