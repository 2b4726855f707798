//! The rails of a world: each a simulator behind a wire, and the project's own file for it with pauses that a test can wait for.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use payment::{KeyForm, RailKey};
use rail_simulators::{Entry, Name, Simulator, SimulatorOptions};
use serde_json::{Value, json};
use toml::{Table, Value as Toml};
use uuid::Uuid;

use super::wire::{Far, Wire};
use crate::rail_run::{key, rail_file, rails_folder};

/// Calls and leases that end within a test: hosts die and freeze in the middle of them, rails fall silent, and what a dead host may
/// have sent is sent again only after a call's whole time. A lease of ten seconds at most, or the heartbeat would find nothing to
/// prolong under short calls; questions that go on for longer than a call.
const BRIEF: &str = r#"
timeouts = { call_ms = 2000, first_byte_ms = 1800, idle_ms = 1800, connect_ms = 1800 }
pace = { lease_seconds = 10, concurrency = 64, reconcile_seconds = 0, visibility_seconds = 0, retry = { base_ms = 100, factor = 1, cap_ms = 100 }, query = { base_ms = 150, factor = 1.1, cap_ms = 600 }, breaker = { calls_min = 20, failed_percent = 100, open_ms = 100 } }
"#;

/// A simulated rail, as a host sees it.
#[derive(Debug)]
pub struct SimulatedRail {
    pub name: String,
    pub kind: Name,
    pub simulator: Simulator,
    pub wire: Wire,
}

/// Which rail, under which name, with which faults.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub name: &'static str,
    pub kind: Name,
    pub script: String,
    /// The rail takes a key that it has seen for a new one, and its file says so.
    pub forgetful: bool,
    /// Where not, its file has no question.
    pub can_query: bool,
}

impl Wanted {
    pub fn new(kind: Name, script: &str) -> Self {
        Self { name: kind.as_str(), kind, script: script.to_owned(), forgetful: false, can_query: true }
    }
}

impl SimulatedRail {
    pub(super) async fn start(
        wanted: &Wanted,
        seed: u64,
        folder: &Path,
        change: impl FnOnce(&mut Table),
    ) -> Self {
        let options = SimulatorOptions {
            seed: seed.to_string(),
            forgetful: wanted.forgetful,
            ..SimulatorOptions::new(wanted.kind).script(&wanted.script)
        };
        let simulator = Simulator::start(options).await.expect("a simulator");
        let wire = Wire::to(Far::Tcp(simulator.address)).await;
        let base = format!("http://127.0.0.1:{}", wire.port);
        let file = rail_file(wanted.kind, &base, |file| {
            file.extend(BRIEF.parse::<Table>().expect("TOML"));
            if wanted.forgetful {
                file.insert("idempotent".to_owned(), false.into());
                file.insert("hand_over_marks".to_owned(), true.into());
            }
            if !wanted.can_query {
                leave_out_question(file);
            }
            change(file);
        });
        fs::write(folder.join(format!("{}.toml", wanted.name)), file).expect("written");
        Self { name: wanted.name.to_owned(), kind: wanted.kind, simulator, wire }
    }

    /// What the rail knows of a payment.
    pub fn entry(&self, outbox_id: Uuid) -> Option<Entry> {
        self.simulator.entry(&self.key(outbox_id))
    }

    pub fn key(&self, outbox_id: Uuid) -> String {
        key(self.kind, outbox_id)
    }
}

/// Makes a rail that cannot be asked what became of a payment: without the question, and without what only its replies tell.
pub fn leave_out_question(file: &mut Table) {
    let question = file.remove("query-status").expect("a question");
    let steps = file["steps"].as_table_mut().expect("steps");
    for step in question["steps"].as_array().expect("steps") {
        steps.remove(step.as_str().expect("a name"));
    }
    let replies = steps.values().filter_map(|step| step.get("reply")?.as_table()).flat_map(Table::values);
    let facts = replies.filter_map(|reply| reply.get("facts")?.as_table()).flat_map(Table::keys);
    let told: BTreeSet<String> = facts.cloned().collect();
    let is_told = |field: &Toml| field.as_str().is_some_and(|field| field == "http" || told.contains(field));

    let codes = file["codes"].as_table_mut().expect("codes");
    for list in ["precedence", "reasons"] {
        if let Some(fields) = codes.get_mut(list).and_then(Toml::as_array_mut) {
            fields.retain(is_told);
        }
    }
    codes["rows"].as_array_mut().expect("rows").retain(|row| {
        let is_read = match &row["field"] {
            Toml::Array(fields) => fields.iter().all(is_told),
            field => is_told(field),
        };
        is_read && row.get("operation").and_then(Toml::as_str) != Some("query-status")
    });
    for needs in ["success_needs", "refusal_needs"] {
        if let Some(needs) = codes.get_mut(needs).and_then(Toml::as_table_mut) {
            needs.remove("query-status");
        }
    }
}

/// The secrets that the rail files refer to.
pub(super) fn copy_secrets(folder: &Path) {
    fs::create_dir_all(folder.join("simulated")).expect("a folder");
    for secret in fs::read_dir(rails_folder().join("simulated")).expect("secrets") {
        let secret = secret.expect("a file");
        fs::copy(secret.path(), folder.join("simulated").join(secret.file_name())).expect("copied");
    }
}

/// A payment to a payee of its own, so that a second execution shows whatever key it has. Answers how the rail writes the payee.
pub(super) fn payload(kind: Name, number: usize, amount: &str) -> (Value, String) {
    let (destination, payee) = match kind {
        Name::Mtn => (json!({ "msisdn": format!("26096{number:07}") }), format!("26096{number:07}")),
        Name::Airtel => (json!({ "msisdn": format!("26097{number:07}") }), format!("97{number:07}")),
        Name::Bank => {
            let account = format!("{number:013}");
            (json!({ "account": account, "bank_code": "210003", "name": "Payee" }), account)
        }
    };
    (json!({ "amount": amount, "currency": "ZMW", "destination": destination }), payee)
}

/// The forms of a key, of which a rail may see one.
pub(super) fn is_key_of(entry: &Entry, outbox_id: Uuid) -> bool {
    let key = RailKey::of(outbox_id);
    [KeyForm::Hex, KeyForm::Hex32, KeyForm::Uuid].into_iter().any(|form| key.form(form) == entry.key)
}
