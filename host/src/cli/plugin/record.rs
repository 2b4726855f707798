use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use conformance::{Case, CaseOperation};
use payment::{Instruction, PaymentIds};
use rail::definition::Definition;
use rail::{Captures, Loaded, Sandbox, Task};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::adapters;
use crate::config::Config;
use terminal::BadArgument;
use terminal::print::{out, out_json};

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The rail file, with the sandbox of the rail or a simulator in `base`: one payment is really made.
    #[arg(long, value_name = "FILE")]
    rail: PathBuf,
    /// The payment: its payload as JSON.
    #[arg(long, value_name = "JSON")]
    payment: String,
    /// Folder for the exchanges: one JSON file each, without secrets.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// How many times to query the rail about it afterwards.
    #[arg(long, default_value_t = 1)]
    ask: u32,
    /// Seconds before each question.
    #[arg(long, default_value_t = 2)]
    pause: u64,
}

impl RecordArgs {
    pub(super) async fn run(self, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
        let is_used =
            |folder: &PathBuf| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        if is_used(&self.out) {
            let place = self.out.display();
            return Err(BadArgument(format!("{place} is not empty, expected an empty folder")).into());
        }
        let payload: Value = serde_json::from_str(&self.payment)
            .map_err(|error| BadArgument(format!("--payment is not valid JSON: {error}")))?;
        let ids = PaymentIds {
            outbox_id: Uuid::new_v4(),
            instruction_id: "record".to_owned(),
            participant_id: "record".to_owned(),
            sequence_id: 1,
        };
        let outbox_id = ids.outbox_id;
        let payment = Instruction::read(ids, &payload.to_string(), 1).map_err(|violations| {
            let said: Vec<String> = violations.iter().map(ToString::to_string).collect();
            BadArgument(format!("--payment: {}", said.join("; ")))
        })?;
        let sandbox = adapters::small_sandbox(config)?;
        let loaded = Loaded::load(&sandbox, &Definition::load(&self.rail)?).await?.recorded();
        fs::create_dir_all(&self.out).with_context(|| format!("{} cannot be made", self.out.display()))?;
        let payment = Arc::new(payment);
        let mut errand = RecordedPayment { sandbox, loaded, payment, payload, captured: BTreeMap::new() };
        let mut files = Vec::new();
        for n in 0..=self.ask {
            let (operation, name) = match n {
                0 => (CaseOperation::Disburse, "disburse".to_owned()),
                n => (CaseOperation::QueryStatus, format!("asked_{n}")),
            };
            if n > 0 {
                tokio::time::sleep(Duration::from_secs(self.pause)).await;
            }
            let case = errand.call(operation).await?;
            let path = self.out.join(format!("{name}.json"));
            fs::write(&path, serde_json::to_string_pretty(&case)? + "\n")
                .with_context(|| format!("{} cannot be written", path.display()))?;
            if !json {
                out(&format!("{}  {:?}\n", path.display(), case.expect.class))?;
            }
            files.push(path);
        }
        if json {
            out_json(&json!({ "outbox_id": outbox_id, "files": files }))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One payment on its way to a rail, without a host.
struct RecordedPayment {
    sandbox: Sandbox,
    loaded: Loaded,
    payment: Arc<Instruction>,
    payload: Value,
    captured: BTreeMap<String, String>,
}

impl RecordedPayment {
    async fn call(&mut self, operation: CaseOperation) -> anyhow::Result<Case> {
        let known = self.captured.clone();
        let task = if operation == CaseOperation::Disburse { Task::Disburse } else { Task::Query };
        let captures = Captures::knowing(&known);
        let attempt = self.loaded.call_with(&self.sandbox, task, self.payment.clone(), None, captures).await;
        self.captured.extend(attempt.captured.clone());
        let outbox_id = self.payment.ids.outbox_id;
        Case::of(operation, outbox_id, self.payload.clone(), known, &attempt)
            .ok_or_else(|| anyhow!("nothing was sent: {:?}", attempt.heard))
    }
}
