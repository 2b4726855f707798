use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use rail::definition::Definition;
use serde_json::json;
use toml::{Table, Value as Toml};

use terminal::print::{out, out_json};

#[derive(Debug, Args)]
pub(crate) struct FormArgs {
    /// The rail file.
    rail: PathBuf,
    /// An earlier rail file. Prints the differences, one per line.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

/// The keys that are no part of the form and decide all the same: what runs, with which secrets, and where it may reach.
const AROUND: [&str; 17] = [
    "component",
    "sha256",
    "signature",
    "profile",
    "kind",
    "idempotent",
    "hand_over_marks",
    "status_query",
    "sla_seconds",
    "rate",
    "limits",
    "timeouts",
    "pace",
    "secrets",
    "keys",
    "tokens",
    "network",
];

/// What differs in them, a line each.
fn around(now: &Path, before: &Path) -> anyhow::Result<Vec<String>> {
    let lines = |path: &Path| -> anyhow::Result<BTreeMap<String, String>> {
        let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let table: Table = toml::from_str(&text)?;
        let mut lines = BTreeMap::new();
        for key in AROUND {
            flatten(key, table.get(key), &mut lines);
        }
        flatten("codes.version", table.get("codes").and_then(|codes| codes.get("version")), &mut lines);
        Ok(lines)
    };
    let (now, before) = (lines(now)?, lines(before)?);
    let keys: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let line = |key: &String| match (before.get(key), now.get(key)) {
        (Some(old), Some(new)) if old != new => Some(format!("~ {key} = {new} (was {old})")),
        (None, Some(new)) => Some(format!("+ {key} = {new}")),
        (Some(old), None) => Some(format!("- {key} = {old}")),
        _ => None,
    };
    Ok(keys.into_iter().filter_map(line).collect())
}

fn flatten(key: &str, value: Option<&Toml>, into: &mut BTreeMap<String, String>) {
    match value {
        None => {}
        Some(Toml::Table(entries)) => {
            for (name, entry) in entries {
                flatten(&format!("{key}.{name}"), Some(entry), into);
            }
        }
        Some(value) => {
            into.insert(key.to_owned(), value.to_string());
        }
    }
}

impl FormArgs {
    /// What an approver looks at: each request as it would leave, per currency, without secrets; and what changed.
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let form = Definition::load(&self.rail)?.form;
        let mut examples = Vec::new();
        for currency in &form.currencies {
            examples.push((currency, form.example(currency).map_err(anyhow::Error::msg)?));
        }
        let difference = match &self.against {
            Some(before) => {
                let mut lines = form.difference(&Definition::load(before)?.form);
                lines.extend(around(&self.rail, before)?);
                Some(lines)
            }
            None => None,
        };
        let free = form.free_texts();
        if json {
            let examples: Vec<_> = examples
                .iter()
                .map(|(currency, requests)| json!({ "currency": currency, "requests": requests }))
                .collect();
            out_json(&json!({ "examples": examples, "free_texts": free, "difference": difference }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut shown = String::new();
        for (currency, requests) in examples {
            shown.push_str(&format!("A payment in {currency}\n\n{requests}"));
        }
        if !free.is_empty() {
            shown.push_str(&format!("FREE TEXT of the adapter: {}\n", free.join(", ")));
        }
        match difference {
            Some(lines) if lines.is_empty() => shown.push_str("Nothing differs.\n"),
            Some(lines) => shown.push_str(&(lines.join("\n") + "\n")),
            None => {}
        }
        out(&shown)?;
        Ok(ExitCode::SUCCESS)
    }
}
