use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use payment::plain;
use rail::artifact::{self, Outline};
use rail::definition::{Definition, Profile};
use rail::{Description, Loaded, Need, RailStub, Scripted};
use serde_json::json;
use verdict::digest::Digest;

use crate::cli::adapters;
use crate::config::Config;
use terminal::print::{out, out_json};

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The component.
    component: PathBuf,
}

/// Plays no rail: what a component is asked here sends nothing.
#[derive(Debug)]
struct Nobody;

impl RailStub for Nobody {
    fn play(&self, _: &str, _: &http::Request<bytes::Bytes>) -> Scripted {
        Scripted::Unreachable
    }
}

impl Inspect {
    pub(super) async fn run(self, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
        let bytes = artifact::read(&self.component)?;
        let digest = Digest::of(&bytes);
        let outline = Outline::read(&bytes)?;
        let strict = outline.check(Profile::Strict);
        let profile = if strict.is_ok() { Profile::Strict } else { Profile::Inert };
        outline.check(profile)?;
        let said = self.describe(config, &digest, profile).await;

        if json {
            let description = said.as_ref().ok();
            let problem = said.as_ref().err().map(ToString::to_string);
            out_json(
                &json!({ "sha256": digest.to_string(), "bytes": bytes.len(), "contract": outline.contract,
                         "imports": outline.imports, "exports": outline.exports, "needs_inert_profile": strict.is_err(),
                         "description": description, "problem": problem }),
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut lines = vec![
            format!("sha256    {digest}"),
            format!("size      {} bytes", bytes.len()),
            format!("contract  {}", outline.contract.as_deref().unwrap_or("none")),
        ];
        if strict.is_err() {
            let hint = "imports files or sockets: its rail file must say profile = \"inert\"";
            lines.push(format!("profile   {hint}"));
        }
        lines.push("imports".to_owned());
        lines.extend(outline.imports.iter().map(|import| format!("  {import}")));
        match said {
            Ok(said) => lines.extend(shown(&said)),
            Err(problem) => lines.push(format!("describe  {problem}")),
        }
        // Most of it are a stranger's words.
        let lines: Vec<_> = lines.iter().map(|line| plain(line)).collect();
        out(&(lines.join("\n") + "\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    /// What it says of itself; what it requires is not at hand, and is only listed.
    async fn describe(
        &self,
        config: &Config,
        digest: &Digest,
        profile: Profile,
    ) -> anyhow::Result<Description> {
        let sandbox = adapters::small_sandbox(config)?;
        let text = "kind = \"mock\"\ncomponent = \"\"\nsha256 = \"00\"\nidempotent = true\nhand_over_marks = false\n"
            .replace("\"00\"", &format!("\"{digest}\""));
        let mut definition =
            Definition::parse("inspected", "".as_ref(), &text).map_err(anyhow::Error::msg)?;
        definition.file.profile = profile;
        // Language runtimes need more than the default to come up.
        definition.file.limits.memory_mib = 256;
        definition.file.limits.cpu_ms = 2_000;
        let definition = definition.with_component(&std::path::absolute(&self.component)?, digest);
        Ok(Loaded::describe_only(&sandbox, &definition, Arc::new(Nobody)).await?)
    }
}

fn shown(said: &Description) -> Vec<String> {
    let currencies = if said.currencies.is_empty() { "any".to_owned() } else { said.currencies.join(", ") };
    let facts = if said.facts.is_empty() { "nothing".to_owned() } else { said.facts.join(", ") };
    let mut lines = vec![
        format!("adapter   {} {}", said.name, said.version),
        format!("pays in   {currencies}"),
        format!("reads     {facts}"),
    ];
    for (kind, needs) in [("settings", &said.settings), ("variables", &said.variables)] {
        if !needs.is_empty() {
            lines.push(kind.to_owned());
        }
        let need = |Need { name, required, purpose }: &Need| {
            format!("  {name}{}: {purpose}", if *required { "" } else { " (optional)" })
        };
        lines.extend(needs.iter().map(need));
    }
    lines
}
