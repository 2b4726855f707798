use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use railhost::rail::definition::Definition;
use serde_json::json;

use crate::cli::print::{out, out_json};

#[derive(Debug, Args)]
pub(crate) struct Form {
    /// The rail's file.
    rail: PathBuf,
    /// An earlier file of the rail: what differs between the two, a line each.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

impl Form {
    /// What an approver looks at: each request as it would leave, per currency, without secrets; and what changed.
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let form = Definition::load(&self.rail)?.form;
        let mut examples = Vec::new();
        for currency in &form.currencies {
            examples.push((currency, form.example(currency).map_err(anyhow::Error::msg)?));
        }
        let difference = match &self.against {
            Some(before) => Some(form.difference(&Definition::load(before)?.form)),
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
