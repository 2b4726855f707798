//! A rail file and adapter straight against their simulator: no host, no database, and keys that a test knows beforehand.

use std::sync::Arc;

use form::{HTTP, Meaning, Side};
use harness::rail_run::{rail_file, rails_folder};
use harness::railhost_path;
use payment::{Instruction, PaymentIds};
use rail::definition::Definition;
use rail::{self, CallReport, Loaded, Sandbox, Task};
use rail_simulators::{Name, Simulator, SimulatorOptions};
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;
use verdict::answer::CallResult;
use verdict::decision::Decision;

pub(crate) struct Straight {
    pub(crate) simulator: Simulator,
    sandbox: Sandbox,
    loaded: Loaded,
    _folder: TempDir,
}

impl Straight {
    pub(crate) async fn start(rail: Name) -> Self {
        Self::with(SimulatorOptions::new(rail), |_| {}).await
    }

    /// With a simulator of its own kind and changes to the rail file.
    pub(crate) async fn with(options: SimulatorOptions, change: impl FnOnce(&mut toml::Table)) -> Self {
        let rail = options.rail;
        let simulator = Simulator::start(options).await.expect("a simulator");
        let folder = tempfile::tempdir().expect("a folder");
        let few = rail::SandboxOptions { calls_max: 4, ..rail::SandboxOptions::default() };
        let sandbox = Sandbox::new(&folder.path().join("compiled"), railhost_path(), few).expect("a sandbox");
        let file = rail_file(rail, &simulator.base(), change);
        let definition = Definition::parse(rail.as_str(), &rails_folder(), &file).expect("a sound file");
        let loaded = Loaded::load(&sandbox, &definition).await.expect("it loads");
        Self { simulator, sandbox, loaded, _folder: folder }
    }

    pub(crate) async fn pay(&self, outbox_id: Uuid, payment: &Value) -> String {
        told(&self.call(Task::Disburse, outbox_id, payment).await)
    }

    pub(crate) async fn ask(&self, outbox_id: Uuid, payment: &Value) -> String {
        told(&self.call(Task::Query, outbox_id, payment).await)
    }

    /// What a host makes of a new payment.
    pub(crate) async fn judge(&self, payment: &Value) -> Decision {
        let attempt = self.call(Task::Disburse, Uuid::new_v4(), payment).await;
        verdict::judge_disbursement(&attempt.heard, &attempt.witness)
    }

    async fn call(&self, task: Task, outbox_id: Uuid, payment: &Value) -> CallReport {
        let ids = PaymentIds {
            outbox_id,
            instruction_id: "i".to_owned(),
            participant_id: "p".to_owned(),
            sequence_id: 1,
        };
        let instruction = Instruction::read(ids, &payment.to_string(), 1).expect("a good payment");
        self.loaded.call(&self.sandbox, task, Arc::new(instruction), None).await
    }
}

/// What was read in a word, and the rail's code for it. A status of HTTP is no code.
fn told(attempt: &CallReport) -> String {
    let reading = match &attempt.heard {
        CallResult::Reading(reading) => reading,
        CallResult::Unanswered(_) => return "unclear".to_owned(),
        other => panic!("{other:?}"),
    };
    let word = match (reading.veto, reading.side(), reading.meaning) {
        (Some(_), ..) => "vetoed",
        (_, Side::Paid, _) => "settled",
        (_, Side::NotPaid, _) => "declined",
        (_, Side::NotFound, _) => "not-found",
        (_, Side::Open, Some(Meaning::Pending | Meaning::Received)) => "pending",
        (_, Side::Open, _) => "unclear",
    };
    let code = reading.code.as_ref().filter(|code| code.field != HTTP);
    code.map_or_else(|| word.to_owned(), |code| format!("{word} {}", code.value))
}
