//! The integrator's kit: a new adapter builds and passes, a bad one is told which rule it breaks.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::railhost;
use harness::yard::{Yard, guest};
use railhost::conformance::{self, Case, Report, Verdict};
use railhost::rail::definition::Definition;
use railhost::rail::{Options, Sandbox};
use serde_json::Value;

const PAID: &str = r#"{
  "operation": "disburse",
  "payment": { "amount": "10.50", "currency": "ZMW", "destination": { "msisdn": "260961234567" } },
  "replies": [{ "endpoint": "pay", "status": 200, "body": "paid" }],
  "expect": { "answer": "settled", "reference": "paid" }
}"#;

const REFUSED: &str = r#"{
  "operation": "disburse",
  "payment": { "amount": "10.50", "currency": "ZMW", "destination": { "msisdn": "260961234567" } },
  "replies": [{ "endpoint": "pay", "status": 400, "body": { "code": "NO_FUNDS" } }],
  "expect": { "answer": "declined", "code": { "field": "code", "value": "NO_FUNDS" } }
}"#;

async fn report(name: &str) -> Report {
    let yard = Yard::new().await;
    fs::write(yard.path("guest.wasm"), guest(name)).expect("written");
    fs::create_dir(yard.path("exchanges")).expect("a folder");
    fs::write(yard.path("exchanges/paid.json"), PAID).expect("written");
    fs::write(yard.path("exchanges/refused.json"), REFUSED).expect("written");
    let definition =
        Definition::parse("test", &yard.path(""), &yard.file(&guest(name), "")).expect("a sound file");
    let cases = Case::load_all(&yard.path("exchanges")).expect("sound cases");
    let sandbox = Sandbox::new(&yard.path("compiled"), Options { calls_max: 4, ..Options::default() })
        .expect("a sandbox");
    conformance::run(sandbox, &yard.path("guest.wasm"), Some(definition), cases).await.expect("it loads")
}

fn failed(report: &Report) -> Vec<&str> {
    report
        .findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Failed)
        .map(|finding| finding.rule)
        .collect()
}

#[tokio::test]
async fn a_broken_rule_is_named_with_the_exchange_that_broke_it() {
    for (name, rule) in [
        ("pays_twice", "key-unchanged-once"),
        ("own_key", "key-unchanged-once"),
        ("alters_amount", "amounts-exact"),
        ("pays_from_validate", "money-only-in-disburse"),
        ("undeclared_host", "declared-hosts-only"),
        ("declines_all", "silence-is-unclear"),
        ("declines_all", "unreachable-is-not-sent"),
        ("declines_all", "garbage-is-unclear"),
        ("declines_all", "recorded-answers"),
        ("guesses_codes", "unlisted-code-as-given"),
        ("bad_answer", "within-its-limits"),
        ("panics", "within-its-limits"),
        ("endless_loop", "within-its-limits"),
    ] {
        let report = report(name).await;
        assert!(failed(&report).contains(&rule), "{name} breaks {rule}:\n{report}");
    }
    let twice = report("pays_twice").await;
    let finding =
        twice.findings.iter().find(|finding| finding.rule == "key-unchanged-once").expect("it is there");
    assert!(finding.exchange[0].contains("POST /pay"), "{finding:?}");
}

/// What the README tells an integrator to do, done.
#[tokio::test]
async fn a_new_adapter_builds_and_passes_and_can_be_signed() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let output =
            railhost().current_dir(folder.path()).args(["--json"]).args(arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, _, problem) = run(&["plugin", "new", "my-rail"]);
    assert_eq!(code, Some(0), "{problem}");
    assert_eq!(run(&["plugin", "new", "my-rail"]).0, Some(64), "nothing is overwritten");

    // The folder of the guests has the SDK's dependencies compiled already.
    let target = Path::new(env!("GUESTS")).ancestors().nth(3).expect("inside a target folder");
    let built = Command::new(env!("CARGO"))
        .current_dir(folder.path().join("my-rail"))
        .args(["build", "--release", "--target", "wasm32-wasip2", "--target-dir"])
        .arg(target)
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let component = target.join("wasm32-wasip2/release/my_rail.wasm");
    let component = component.to_str().expect("text");

    let (code, text, problem) = run(&[
        "plugin",
        "test",
        component,
        "--rail",
        "my-rail/rail.toml",
        "--exchanges",
        "my-rail/exchanges",
        "--report",
        "report.json",
    ]);
    assert_eq!(code, Some(0), "{text}{problem}");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("report.json")).expect("written"))
            .expect("JSON");
    assert!(
        report["findings"].as_array().expect("a list").iter().all(|finding| finding["verdict"] == "passed"),
        "{report}"
    );

    let (_, bare, _) = run(&["plugin", "test", component]);
    let bare: Value = serde_json::from_str(&bare).expect("JSON");
    let untested = bare["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|finding| finding["verdict"] == "not-tested")
        .count();
    assert_eq!(untested, 11, "without the rail's file it says what it did not test");

    let (_, inspected, _) = run(&["plugin", "inspect", component]);
    let inspected: Value = serde_json::from_str(&inspected).expect("JSON");
    assert_eq!(inspected["sha256"], report["sha256"]);
    assert_eq!((&inspected["contract"], &inspected["needs_inert_profile"]), (&"1.0.0".into(), &false.into()));

    let (_, key, _) = run(&["plugin", "key", "--out", "key.pem"]);
    let key: Value = serde_json::from_str(&key).expect("JSON");
    let public = key["public_key"].as_str().expect("a key");
    assert_eq!(run(&["plugin", "sign", component, "--key", "key.pem", "--out", "sig"]).0, Some(0));
    assert_eq!(run(&["plugin", "verify", component, "--signature", "sig", "--trusted", public]).0, Some(0));
    assert_eq!(
        run(&["plugin", "verify", component, "--signature", "sig", "--trusted", &"ab".repeat(32)]).0,
        Some(65)
    );
    assert_eq!(run(&["plugin", "key", "--out", "key.pem"]).0, Some(1), "a key is never overwritten");
}

/// By the project's own rail files and recorded exchanges.
#[tokio::test]
async fn the_adapters_that_come_with_the_host_keep_the_contract_and_are_small() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["mtn", "airtel", "bank"] {
        let folder = tempfile::tempdir().expect("a folder");
        let component = folder.path().join(format!("{name}.wasm"));
        let bytes = railhost::builtin::component(name).expect("it is built in");
        assert!(bytes.len() <= 300_000, "{name} has {} bytes", bytes.len());
        fs::write(&component, bytes).expect("written");
        let definition =
            Definition::load(&root.join(format!("config/rails/{name}.toml"))).expect("a sound file");
        let cases = Case::load_all(&root.join(format!("plugins/{name}/exchanges"))).expect("sound cases");
        assert!(cases.len() >= 10);
        let sandbox =
            Sandbox::new(&folder.path().join("compiled"), Options { calls_max: 4, ..Options::default() })
                .expect("a sandbox");
        let report = conformance::run(sandbox, &component, Some(definition), cases).await.expect("it loads");
        assert_eq!(failed(&report), [""; 0], "{name}:\n{report}");
        assert!(
            report.findings.iter().all(|finding| finding.verdict == Verdict::Passed),
            "{name}:\n{report}"
        );
    }
}
