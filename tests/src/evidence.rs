//! What tests proved, for machines: `target/evidence/NAME.json`, and the matrix by its ids in `target/evidence/matrix.json`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Instant;

use chrono::Utc;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::server::scratch;

/// One row of the robustness matrix.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    scenario: String,
    result: String,
    at: String,
    seconds: f64,
    /// What was counted.
    facts: Value,
}

/// A row that is being tried. It says `failed` until [`Proof::holds`], whatever becomes of the test.
#[derive(Debug)]
pub struct Proof {
    id: &'static str,
    scenario: &'static str,
    began: Instant,
}

impl Proof {
    pub fn of(id: &'static str, scenario: &'static str) -> Self {
        let proof = Self { id, scenario, began: Instant::now() };
        proof.write("failed", Value::Null);
        proof
    }

    pub fn holds(self, facts: Value) {
        self.write("passed", facts);
    }

    /// What it takes is not to be had on this machine.
    pub fn not_tried(self, why: &str) {
        println!("{} was not tried: {why}", self.id);
        self.write("not tried", why.into());
    }

    fn write(&self, result: &str, facts: Value) {
        let folder = folder();
        // Tests of several processes write to one file.
        let lock = File::create(folder.join("matrix.lock")).expect("a lock");
        lock.lock().expect("locked");
        let file = folder.join("matrix.json");
        let known = fs::read_to_string(&file).unwrap_or_default();
        let mut rows: BTreeMap<String, Row> = serde_json::from_str(&known).unwrap_or_default();
        let row = Row {
            scenario: self.scenario.to_owned(),
            result: result.to_owned(),
            at: Utc::now().to_rfc3339(),
            seconds: self.began.elapsed().as_secs_f64(),
            facts,
        };
        rows.insert(self.id.to_owned(), row);
        keep("matrix", &rows);
    }
}

/// Replaces the file as a whole.
pub fn keep(name: &str, what: &impl Serialize) {
    let file = folder().join(format!("{name}.json"));
    let new = file.with_extension("new");
    fs::write(&new, serde_json::to_string_pretty(what).expect("JSON")).expect("written");
    fs::rename(new, file).expect("in place");
}

fn folder() -> PathBuf {
    let folder = scratch().with_file_name("evidence");
    fs::create_dir_all(&folder).expect("a folder");
    folder
}
