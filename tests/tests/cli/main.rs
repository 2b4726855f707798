//! The binary as a person or a script meets it. One server version is enough here: what differs between versions is
//! tested below the command line.

mod bench;
mod bulk;
mod check;
mod checked;
mod configuration;
mod file;
mod find;
mod killed;
mod payments;
mod shell;
mod tls;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use harness::{Db, railhost, scratch_folder};
use outbox::complete::Completion;
use outbox::lease::Executor;
use serde_json::Value;
use verdict::error_code::ErrorCode;
use verdict::outcome::{CompletionState, MoneyMoved, Outcome};

const UNREACHABLE: &str = "postgres://nobody@127.0.0.1:1/none";
const PAYLOAD: &str = r#"{"amount":"1.00","currency":"ZMW","destination":"260971234567"}"#;
const MOCK: &str =
    "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n";

/// A folder with a configuration in it, gone at the end of the test.
struct ConfigFolder {
    folder: tempfile::TempDir,
    url: String,
}

impl ConfigFolder {
    fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("config/rails")).expect("a folder");
        let place = Self { folder, url: url.to_owned() };
        place.write("config/rails/mock.toml", MOCK);
        // The adapters are compiled once for all tests of this process.
        static CACHE: OnceLock<PathBuf> = OnceLock::new();
        let cache = CACHE.get_or_init(|| scratch_folder("cli-compiled"));
        place.write("config/development.toml", &format!("[adapters]\ncache = {cache:?}\n"));
        place
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = railhost();
        command
            .current_dir(self.folder.path())
            .env("DATABASE_URL", &self.url)
            .env("USER", "tester")
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("railhost runs")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("no JSON ({error}): {}{}", text(&output.stdout), text(&output.stderr))
        })
    }

    /// Accepts a payment of `acme` over `mock`; its outbox id.
    fn enqueue(&self, instruction: &str, payload: &str) -> String {
        let arguments = [
            "enqueue",
            "--participant",
            "acme",
            "--rail",
            "mock",
            "--payload",
            payload,
            "--instruction",
            instruction,
        ];
        let accepted = self.json(&arguments);
        accepted["outbox_id"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every payment that is due ends so.
async fn end_all(db: &Db, money_moved: MoneyMoved, error_code: ErrorCode) {
    let executor = Executor::new(&db.database(), "worker", 1);
    loop {
        let leases = executor.claim_any(10, 45.0).await.expect("claimed");
        if leases.is_empty() {
            return;
        }
        for lease in leases {
            let outcome = Outcome {
                money_moved: Some(money_moved),
                error_code: Some(error_code),
                ..Outcome::new(CompletionState::Failed)
            };
            executor.complete(&Completion { lease: lease.lease_ref(), outcome }).await.expect("completed");
        }
    }
}

async fn count(db: &Db, from: &str) -> i64 {
    let mut owner = db.connect(harness::DbUser::Superuser).await;
    sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select count(*) from symphony.{from}")))
        .fetch_one(&mut owner)
        .await
        .expect("counted")
}
