//! Bytes that strangers send: replies of rails, rail files, payloads, components. A seeded mutator takes recorded ones apart; no
//! panic, no trap, and above all no verdict out of a reply that was damaged. More: `RAILHOST_FUZZ_CASES=100000`, another seed:
//! `RAILHOST_FUZZ_SEED`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{env, fs};

use bytes::Bytes;
use conformance::{Case, CaseOperation};
use fastrand::Rng;
use harness::adapter_rig::{AdapterRig, guest};
use harness::rail_run::rails_folder;
use harness::{railhost, railhost_path};
use http::{Request, Response};
use payment::{Instruction, PaymentIds};
use rail::definition::Definition;
use rail::{self, Loaded, RailStub, Sandbox, Scripted, Task};
use serde_json::Value;
use uuid::Uuid;
use verdict::answer::CallResult;
use verdict::decision::{Class, Decision};

fn cases(share: usize) -> usize {
    let cases = env::var("RAILHOST_FUZZ_CASES").map_or(20_000, |text| text.parse().expect("a number"));
    (cases / share).max(1)
}

fn rng() -> Rng {
    let seed = env::var("RAILHOST_FUZZ_SEED").map_or(7, |text| text.parse().expect("a number"));
    println!("seed {seed}");
    Rng::with_seed(seed)
}

/// What parsers stumble over.
const WORDS: [&str; 16] = [
    "null",
    "true",
    "-1",
    "1e400",
    "{",
    "}",
    "[",
    "\"",
    "\\u0000",
    "<!DOCTYPE x>",
    "<a>",
    "]]>",
    "\u{feff}",
    "\r\n\r\n",
    "=",
    "\u{0}",
];

/// The same bytes, damaged in one to four places.
fn damaged(rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.usize(1..=4) {
        let at = rng.usize(..=bytes.len());
        match rng.u8(..7) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.insert(at, rng.u8(..)),
            4 => drop(bytes.splice(at..at, rng.choice(WORDS).expect("a word").bytes())),
            5 => {
                let end = rng.usize(at..=bytes.len());
                let twice: Vec<u8> = bytes[at..end].to_vec();
                bytes.splice(at..at, twice.into_iter().take(4096));
            }
            _ => {
                let end = rng.usize(at..=bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

/// Replies to whatever it is asked.
#[derive(Debug, Default)]
struct Stranger(Mutex<(u16, Vec<u8>)>);

impl RailStub for Stranger {
    fn play(&self, _: &str, _: &Request<Bytes>) -> Scripted {
        let (status, body) = self.0.lock().expect("no panic").clone();
        let reply = Response::builder().status(status).header("content-type", "application/json");
        Scripted::Reply(reply.body(Bytes::from(body)).expect("a reply"))
    }
}

/// Recorded replies of a rail, with the payment that they are about.
fn recorded(rail: &str) -> Vec<(Task, Value, u16, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../plugins/{rail}/exchanges"));
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("exchanges").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let cases = files.iter().map(|file| {
        let case: Value = serde_json::from_str(&fs::read_to_string(file).expect("read")).expect("JSON");
        let task = match case["operation"].as_str() {
            Some("query-status") => Task::Query,
            _ => Task::Disburse,
        };
        let reply = case.get("reply")?;
        let body = match &reply["body"] {
            Value::Null => Vec::new(),
            Value::String(text) => text.clone().into_bytes(),
            other => other.to_string().into_bytes(),
        };
        Some((task, case["payment"].clone(), u16::try_from(reply["status"].as_u64()?).ok()?, body))
    });
    cases.flatten().collect()
}

/// The payment of all recorded exchanges.
fn instruction(payload: &Value) -> Arc<Instruction> {
    let ids = PaymentIds {
        outbox_id: Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001),
        instruction_id: "i".to_owned(),
        participant_id: "p".to_owned(),
        sequence_id: 1,
    };
    Arc::new(Instruction::read(ids, &payload.to_string(), 1).expect("a good payment"))
}

/// What a reply must still say for the payment to count as paid.
fn says_paid(rail: &str, body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    match rail {
        "mtn" => text.contains("SUCCESSFUL"),
        "airtel" => text.contains("DP00900001001") || text.contains("\"TS\""),
        _ => text.contains("ACSC") || text.contains("ACCC"),
    }
}

async fn damaged_replies(rail: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let sandbox =
        Sandbox::new(&folder.path().join("compiled"), railhost_path(), rail::SandboxOptions::default())
            .expect("a sandbox");
    let definition = Definition::load(&rails_folder().join(format!("{rail}.toml"))).expect("a rail file");
    let stranger = Arc::new(Stranger::default());
    let loaded = Loaded::offline(&sandbox, &definition, stranger.clone()).await.expect("it loads").recorded();
    let mut kept = String::new();
    let (recorded, mut rng) = (recorded(rail), rng());
    let judge = |task, attempt: &rail::CallReport| -> Decision {
        match task {
            Task::Query => verdict::judge_query(&attempt.heard, &attempt.witness),
            _ => verdict::judge_disbursement(&attempt.heard, &attempt.witness),
        }
    };
    let (mut paid, mut refused) = (0, 0);
    for case in 0..cases(3) {
        let (task, payment, status, body) = rng.choice(&recorded).expect("a reply").clone();
        let body = damaged(&mut rng, &body);
        let status = if rng.u8(..) < 40 { rng.u16(200..600) } else { status };
        *stranger.0.lock().expect("no panic") = (status, body.clone());
        let sent = instruction(&payment);
        let attempt = loaded.call(&sandbox, task, sent.clone(), None).await;
        let operation =
            if task == Task::Query { CaseOperation::QueryStatus } else { CaseOperation::Disburse };
        let case_of = Case::of(operation, sent.ids.outbox_id, payment.clone(), BTreeMap::new(), &attempt);
        if let Some(case) = case_of {
            kept.push_str(&(serde_json::to_string(&case).expect("JSON") + "\n"));
        }
        let shown = || format!("case {case}, {task:?}, HTTP {status}: {}", String::from_utf8_lossy(&body));
        assert!(!matches!(attempt.heard, CallResult::Failed(_)), "{:?}: {}", attempt.heard, shown());
        let decision = judge(task, &attempt);
        match decision.class {
            Class::Success => {
                assert!(says_paid(rail, &body), "paid, out of {}", shown());
                paid += 1;
            }
            Class::Terminal => {
                let code = decision.rail_code.as_deref().unwrap_or_default();
                let known = loaded.form.codes.rows.iter().any(|row| row.code == code);
                assert!(
                    known || decision.error_code == Some(verdict::error_code::ErrorCode::InvalidPayload),
                    "refused for {code:?}, out of {}",
                    shown()
                );
                refused += 1;
            }
            _ => {}
        }
    }
    judged_again(rail, &definition, folder.path(), &kept);
    println!("{rail}: {} damaged replies, {paid} still paid, {refused} still refused, no trap", cases(3));
}

/// What was recorded comes to the same in another process, by the same component and file.
fn judged_again(rail: &str, definition: &Definition, folder: &Path, kept: &str) {
    let component = folder.join("component.wasm");
    let bytes = rail::builtin::component(rail).expect("it is built in");
    fs::write(&component, bytes).expect("written");
    let exchanges = folder.join("exchanges.jsonl");
    fs::write(&exchanges, kept).expect("written");
    let replayed = railhost()
        .args(["--json", "plugin", "replay"])
        .arg(&component)
        .arg("--rail")
        .arg(rails_folder().join(format!("{}.toml", definition.name)))
        .arg("--exchanges")
        .arg(&exchanges)
        .output()
        .expect("railhost runs");
    let said: Value =
        serde_json::from_slice(&replayed.stdout).unwrap_or_else(|error| panic!("{error}: {replayed:?}"));
    assert_eq!(said["judged"], kept.lines().count(), "{rail}");
    assert_eq!(
        (said["changed"].clone(), replayed.status.code()),
        (Value::Array(Vec::new()), Some(0)),
        "{rail}"
    );
    assert!(kept.lines().count() > cases(3) / 2, "{rail}: hardly anything was recorded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_replies_of_mtn_lead_to_no_verdict_that_they_do_not_say() {
    damaged_replies("mtn").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_replies_of_airtel_lead_to_no_verdict_that_they_do_not_say() {
    damaged_replies("airtel").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_replies_of_a_bank_lead_to_no_verdict_that_they_do_not_say() {
    damaged_replies("bank").await;
}

#[test]
fn damaged_rail_files_are_read_or_refused() {
    let mut rng = rng();
    let files = ["mtn", "airtel", "bank", "mock"].map(|rail| rails_folder().join(format!("{rail}.toml")));
    for _ in 0..cases(4) {
        let file = rng.choice(&files).expect("a file");
        let text = damaged(&mut rng, &fs::read(file).expect("read"));
        let text = String::from_utf8_lossy(&text);
        if let Err(error) = Definition::parse("rail", &rails_folder(), &text) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// The host's own file, through the binary: refused with 64 and a sentence, never with a panic.
#[test]
fn a_damaged_configuration_is_read_or_refused_in_one_sentence() {
    let mut rng = rng();
    let folder = tempfile::tempdir().expect("a folder");
    let sound = fs::read(rails_folder().join("../production.toml")).expect("read");
    for _ in 0..cases(100).min(60) {
        let file = folder.path().join("config.toml");
        fs::write(&file, damaged(&mut rng, &sound)).expect("written");
        let checked = railhost().env("RAILHOST_CONFIG", &file).arg("check").output().expect("railhost runs");
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(matches!(checked.status.code(), Some(0 | 64 | 69)), "{:?}: {said}", checked.status);
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn damaged_payloads_are_read_or_refused_by_name() {
    let mut rng = rng();
    let sound: [&[u8]; 3] = [
        br#"{"amount": "10.50", "currency": "ZMW", "destination": {"msisdn": "260961234567"}, "narrative": "wages"}"#,
        br#"{"amount": 12.5, "currency": "KWD", "destination": "9876543210987", "metadata": {"a": [1, 2, {"b": null}]}}"#,
        br#"{"amount": "1e2", "currency": "JPY", "destination": {"account": "1", "bank_code": "210003", "name": "N"}}"#,
    ];
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..cases(1) * 5 {
        let payload = rng.choice(sound).expect("a payload");
        let bytes = damaged(&mut rng, payload);
        let Ok(payload) = std::str::from_utf8(&bytes) else { continue };
        let ids = PaymentIds {
            outbox_id: Uuid::nil(),
            instruction_id: "i".into(),
            participant_id: "p".into(),
            sequence_id: 1,
        };
        match Instruction::read(ids, payload, 1) {
            Ok(_) => taken += 1,
            Err(violations) => {
                assert!(!violations.is_empty(), "refused for nothing");
                refused += 1;
            }
        }
    }
    println!("{taken} taken, {refused} refused");
    assert!(taken > 0 && refused > 0, "the mutator is too gentle or too rough: {taken}, {refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_components_are_refused_by_name_or_harmless() {
    let (rig, mut rng) = (AdapterRig::new().await, rng());
    let sound = guest("pays_and_tells");
    let mut refused = 0;
    for _ in 0..cases(40).min(200) {
        // Mostly its head, where the structure is; damage further in is code, which the engine checks when it compiles.
        let mut component = sound.clone();
        let head = rng.usize(8..4096).min(component.len());
        let new_head = damaged(&mut rng, &component[..head]);
        component.splice(..head, new_head);
        match rig.load_bytes(&component).await {
            Ok(_) => {}
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    println!("{refused} refused");
    assert!(refused > 10, "{refused} refused");
}
