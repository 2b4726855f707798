//! The integrator's kit: a new adapter builds and passes, a bad one is told which rule it breaks.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use conformance::{self, Case, RuleResult, SuiteReport};
use harness::adapter_rig::{AdapterRig, guest};
use harness::{Db, DbUser, Pg, forged, railhost, railhost_path};
use payment::is_unsafe;
use rail::definition::Definition;
use rail::{Rules, Sandbox, SandboxOptions};
use serde_json::Value;
use tempfile::TempDir;
use verdict::digest::Digest;

const PAYMENT: &str =
    r#"{ "amount": "10.50", "currency": "ZMW", "destination": { "msisdn": "260961234567" } }"#;

/// A recorded exchange of the test rail, which says what it has to say in a plain text.
fn exchange(operation: &str, said: &str, class: &str) -> String {
    format!(
        r#"{{ "operation": "{operation}", "payment": {PAYMENT}, "reply": {{ "status": 200, "body": "{said}" }},
             "expect": {{ "class": "{class}" }} }}"#
    )
}

fn write_exchanges(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    for (name, operation, said, class) in [
        ("paid", "disburse", "paid", "success"),
        ("refused", "disburse", "refused", "terminal"),
        ("later", "disburse", "later", "pending"),
        ("asked_paid", "query-status", "paid", "success"),
        ("asked_refused", "query-status", "refused", "terminal"),
        ("asked_later", "query-status", "later", "pending"),
        ("asked_unknown", "query-status", "unknown", "not-found"),
    ] {
        fs::write(folder.join(format!("{name}.json")), exchange(operation, said, class)).expect("written");
    }
}

fn sandbox(cache: &Path) -> Sandbox {
    let options = SandboxOptions { calls_max: 4, ..SandboxOptions::default() };
    Sandbox::new(cache, railhost_path(), options).expect("a sandbox")
}

async fn report(name: &str) -> SuiteReport {
    let rig = AdapterRig::new().await;
    fs::write(rig.path("guest.wasm"), guest(name)).expect("written");
    write_exchanges(&rig.path("exchanges"));
    let definition =
        Definition::parse("test", &rig.path(""), &rig.file(&guest(name), "")).expect("a sound file");
    let cases = Case::load_all(&rig.path("exchanges")).expect("sound cases");
    let sandbox = sandbox(&rig.path("compiled"));
    let report = conformance::run(sandbox, &rig.path("guest.wasm"), Some(definition), cases).await;
    let report = report.expect("it loads");
    // Secrets and tokens are made up, and begin so.
    assert!(!serde_json::to_string(&report).expect("JSON").contains("canary-"), "{report}");
    report
}

fn failed(report: &SuiteReport) -> Vec<&str> {
    report
        .findings
        .iter()
        .filter(|finding| finding.verdict == RuleResult::Failed)
        .map(|finding| finding.rule)
        .collect()
}

#[tokio::test]
async fn an_honest_adapter_passes_every_rule() {
    let report = report("pays_and_tells").await;
    assert!(!report.has_failed(), "{report}");
}

#[tokio::test]
async fn a_broken_rule_is_named() {
    for (name, rule) in [
        ("reads_opposite", "reads-as-the-host"),
        ("cannot_read", "reads-as-the-host"),
        ("reads_opposite", "recorded-verdicts"),
        ("undeclared_value", "declared-values-only"),
        ("refuses_all", "recorded-verdicts"),
        ("panics", "within-its-limits"),
        ("endless_loop", "within-its-limits"),
    ] {
        let report = report(name).await;
        assert!(failed(&report).contains(&rule), "{name} breaks {rule}:\n{report}");
    }
}

#[tokio::test]
async fn every_exchange_that_comes_to_something_else_is_named_in_plain_words() {
    let report = report("reads_opposite").await;
    let shown = report.to_string();
    assert!(shown.contains("5 of 7 exchanges did not reach the expected verdict"), "{shown}");
    for line in [
        "paid: found unknown with code paid (the host reads paid and the adapter the opposite), wanted success",
        "refused: found unknown with code refused",
        "asked_paid: found unknown with code paid",
        "asked_refused: found unknown with code refused",
    ] {
        assert!(shown.contains(line), "{line}:\n{shown}");
    }
    assert!(!shown.contains("Some("), "{shown}");
}

/// A path with a slip of the pen reads nothing, a class without an exchange was never tried: neither is called good.
#[tokio::test]
async fn a_suite_that_leaves_something_out_is_not_passed() {
    let rig = AdapterRig::new().await;
    fs::write(rig.path("guest.wasm"), guest("pays_and_tells")).expect("written");
    write_exchanges(&rig.path("exchanges"));
    let run = async |file: String| {
        let definition = Definition::parse("test", &rig.path(""), &file).expect("a sound file");
        let cases = Case::load_all(&rig.path("exchanges")).expect("sound cases");
        let sandbox = sandbox(&rig.path("compiled"));
        conformance::run(sandbox, &rig.path("guest.wasm"), Some(definition), cases).await.expect("it loads")
    };
    let file = rig.file(&guest("pays_and_tells"), "");
    let misspelt = file.replace(
        "reference.header = \"x-reference\" }",
        "facts.reason.header = \"x-raeson\", reference.header = \"x-reference\" }",
    );
    let misspelt = misspelt.replace("version = 1\n", "version = 1\nprecedence = [\"reason\", \"text\"]\n");
    assert_eq!(failed(&run(misspelt).await), ["every-fact-recorded"]);
    fs::remove_file(rig.path("exchanges/later.json")).expect("removed");
    let report = run(file).await;
    let untested: Vec<_> =
        report.findings.iter().filter(|finding| finding.verdict == RuleResult::NotTested).collect();
    assert_eq!(untested.len(), 1, "{report}");
    assert!(untested[0].detail.contains("disburse pending") && report.has_failed(), "{report}");
}

/// A folder in which an integrator works.
struct Workplace(TempDir);

impl Workplace {
    /// Code, answer and what is wrong.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output =
            railhost().current_dir(self.0.path()).args(["--json"]).args(arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn answer(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(arguments).1).expect("JSON")
    }

    /// The component of the project `my-rail`.
    fn build(&self) -> String {
        // The folder of the guests has the SDK's dependencies compiled already.
        let target = Path::new(env!("GUESTS")).ancestors().nth(3).expect("inside a target folder");
        let built = Command::new(env!("CARGO"))
            .current_dir(self.0.path().join("my-rail"))
            .args(["build", "--release", "--target", "wasm32-wasip2", "--target-dir"])
            .arg(target)
            .output()
            .expect("cargo runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target.join("wasm32-wasip2/release/my_rail.wasm").to_str().expect("text").to_owned()
    }

    /// The report of a test by its file and its exchanges: all of it is passed.
    fn test(&self, component: &str) -> Value {
        let (code, text, problem) = self.run(&[
            "plugin",
            "test",
            component,
            "--rail",
            RAIL,
            "--exchanges",
            "my-rail/exchanges",
            "--report",
            "report.json",
        ]);
        assert_eq!(code, Some(0), "{text}{problem}");
        let report = fs::read_to_string(self.0.path().join("report.json")).expect("written");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let findings = report["findings"].as_array().expect("a list");
        assert!(findings.iter().all(|finding| finding["verdict"] == "passed"), "{report}");
        report
    }

    fn sign(&self, component: &str) -> Option<i32> {
        self.run(&["plugin", "sign", component, "--rail", RAIL, "--key", "key.pem", "--out", "sig"]).0
    }

    fn verify(&self, component: &str, trusted: &str) -> Option<i32> {
        let signed = ["plugin", "verify", component, "--rail", RAIL, "--signature", "sig"];
        self.run(&[&signed[..], &["--trusted", trusted]].concat()).0
    }
}

const RAIL: &str = "my-rail/rail.toml";

/// What the README tells an integrator to do, done.
#[tokio::test]
async fn a_new_adapter_builds_and_passes_and_can_be_signed() {
    let place = Workplace(tempfile::tempdir().expect("a folder"));
    let (code, _, problem) = place.run(&["plugin", "new", "my-rail"]);
    assert_eq!(code, Some(0), "{problem}");
    assert_eq!(place.run(&["plugin", "new", "my-rail"]).0, Some(64), "nothing is overwritten");
    let component = place.build();
    let report = place.test(&component);

    let (code, bare, _) = place.run(&["plugin", "test", &component]);
    assert_eq!(code, Some(65), "what was not tested is not passed");
    let bare: Value = serde_json::from_str(&bare).expect("JSON");
    let findings = bare["findings"].as_array().expect("a list");
    let untested = findings.iter().filter(|finding| finding["verdict"] == "not-tested").count();
    assert_eq!(untested, 8, "without the rail file it says what it did not test");

    let inspected = place.answer(&["plugin", "inspect", &component]);
    assert_eq!(inspected["sha256"], report["sha256"]);
    assert_eq!((&inspected["contract"], &inspected["needs_inert_profile"]), (&"1.0.0".into(), &false.into()));

    let key = place.answer(&["plugin", "key", "--out", "key.pem"]);
    let public = key["public_key"].as_str().expect("a key");
    assert_eq!(place.sign(&component), Some(64), "the file pins another component");
    let path = place.0.path().join(RAIL);
    let text = fs::read_to_string(&path).expect("read");
    let text = text.replace(&"0".repeat(64), inspected["sha256"].as_str().expect("a digest"));
    fs::write(&path, &text).expect("written");
    assert_eq!(place.sign(&component), Some(0));
    assert_eq!(place.verify(&component, public), Some(0));
    assert_eq!(place.verify(&component, &"ab".repeat(32)), Some(65));
    fs::write(&path, text.replace("https://rail.example", "https://rail.example.org")).expect("written");
    assert_eq!(place.verify(&component, public), Some(65), "the file is a part of what was signed");
    let again = place.run(&["plugin", "key", "--out", "key.pem"]).0;
    assert_eq!(again, Some(1), "a key is never overwritten");
}

/// By the project's own rail files and recorded exchanges.
#[tokio::test]
async fn the_adapters_that_come_with_the_host_keep_the_contract_and_are_small() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["mtn", "airtel", "bank"] {
        let folder = tempfile::tempdir().expect("a folder");
        let component = folder.path().join(format!("{name}.wasm"));
        let bytes = rail::builtin::component(name).expect("it is built in");
        assert!(bytes.len() <= 200_000, "{name} has {} bytes", bytes.len());
        fs::write(&component, bytes).expect("written");
        let definition =
            Definition::load(&root.join(format!("config/rails/{name}.toml"))).expect("a sound file");
        let cases = Case::load_all(&root.join(format!("plugins/{name}/exchanges"))).expect("sound cases");
        assert!(cases.len() >= 10);
        let sandbox = sandbox(&folder.path().join("compiled"));
        let report = conformance::run(sandbox, &component, Some(definition), cases).await.expect("it loads");
        assert_eq!(failed(&report), [""; 0], "{name}:\n{report}");
        assert!(
            report.findings.iter().all(|finding| finding.verdict == RuleResult::Passed),
            "{name}:\n{report}"
        );
    }
}

/// Runs the tool to its end. Answers what it said, and the most memory, in MiB, that it had besides what it maps of files.
fn watched(arguments: &[&str], folder: &Path) -> (Output, u64) {
    let mut tool = railhost()
        .current_dir(folder)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let (status, mut most) = (format!("/proc/{}/status", tool.id()), 0);
    while tool.try_wait().expect("its status").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let found = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = found.and_then(|found| found.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(kib.unwrap_or(0) / 1024);
        std::thread::sleep(Duration::from_millis(10));
    }
    (tool.wait_with_output().expect("its output"), most)
}

#[tokio::test]
async fn a_component_that_is_endless_to_compile_is_refused_in_one_sentence_and_the_tool_stays_small() {
    let rig = AdapterRig::new().await;
    let bomb = forged::nested_loops();
    fs::write(rig.path("bomb.wasm"), &bomb).expect("written");
    fs::write(rig.path("rail.toml"), rig.file(&bomb, "")).expect("written");
    for arguments in
        [&["plugin", "inspect", "bomb.wasm"][..], &["plugin", "test", "bomb.wasm", "--rail", "rail.toml"][..]]
    {
        let (output, most) = watched(arguments, &rig.path(""));
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        // Of memory or processor time; a busy machine may come to the limit of time first.
        let ended = ["compiling it took more than", "compiling it took longer than"];
        assert!(ended.iter().any(|ended| said.concat().contains(ended)), "{arguments:?}: {said:?}");
        assert!(most < 300, "{arguments:?} took {most} MiB");
    }
}

/// One of them takes more than the compiler may have, the other compiles and then traps when it is asked who it is.
#[tokio::test]
async fn a_component_of_half_a_million_functions_or_of_huge_data_has_one_sentence_and_the_tool_stays_small() {
    for bomb in [forged::empty_functions(), forged::huge_data()] {
        let rig = AdapterRig::new().await;
        fs::write(rig.path("bomb.wasm"), &bomb).expect("written");
        fs::write(rig.path("rail.toml"), rig.file(&bomb, "")).expect("written");
        for arguments in [
            &["plugin", "inspect", "bomb.wasm"][..],
            &["plugin", "test", "bomb.wasm", "--rail", "rail.toml"][..],
        ] {
            let (output, most) = watched(arguments, &rig.path(""));
            let said =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let said = said.concat();
            let sentences = [
                "compiling it took more than ",
                "compiling it took longer than ",
                "describe failed: trapped: ",
            ]
            .map(|sentence| said.matches(sentence).count());
            assert_eq!(sentences.iter().sum::<usize>(), 1, "{arguments:?}: {said}");
            // The component is read twice, once by the tool and once by what loads it.
            assert!(most < 96, "{arguments:?} took {most} MiB for {} bytes", bomb.len());
        }
    }
}

#[tokio::test]
async fn a_hostile_component_cannot_write_to_the_terminal_of_who_inspects_it() {
    let rig = AdapterRig::new().await;
    fs::write(rig.path("escapes.wasm"), guest("escapes")).expect("written");
    fs::write(rig.path("rail.toml"), rig.file(&guest("escapes"), "")).expect("written");
    write_exchanges(&rig.path("exchanges"));
    let test = ["plugin", "test", "escapes.wasm", "--rail", "rail.toml", "--exchanges", "exchanges"];
    for arguments in [
        &["plugin", "inspect", "escapes.wasm"][..],
        &["--json", "plugin", "inspect", "escapes.wasm"][..],
        &test[..],
        &[&["--json"][..], &test[..]].concat(),
    ] {
        let (output, _) = watched(arguments, &rig.path(""));
        for said in [output.stdout, output.stderr] {
            let said = String::from_utf8_lossy(&said).into_owned();
            let unsafe_ones: Vec<_> = said.chars().filter(|char| is_unsafe(*char) && *char != '\n').collect();
            assert!(unsafe_ones.is_empty(), "{arguments:?}: {said:?}");
        }
    }
}

#[test]
fn a_built_in_adapter_is_extracted_where_production_is_not_set_up_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/production.toml");
    let config = config.to_str().expect("text");
    let (output, _) = watched(&["--config", config, "plugin", "extract", "mtn"], folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let digest = Digest::of(&fs::read(folder.path().join("mtn.wasm")).expect("written")).to_string();
    assert!(String::from_utf8_lossy(&output.stdout).contains(&digest));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_is_revoked_by_its_digest_with_who_and_why() {
    let db = Db::fresh(Pg::V18).await;
    let folder = tempfile::tempdir().expect("a folder");
    let digest = Digest::of(b"a bad component");
    let revoke = |digest: &str| {
        railhost()
            .current_dir(folder.path())
            .env("DATABASE_URL", db.url())
            .args(["plugin", "revoke", digest, "--by", "ada", "--why", "it altered an amount"])
            .output()
            .expect("it runs")
    };
    let output = revoke(&digest.to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(revoke("ab").status.code(), Some(64), "not a digest");
    let mut owner = db.connect(DbUser::Superuser).await;
    let revoked: Vec<Vec<u8>> = sqlx::query_scalar("select unnest(revoked) from symphony.stopped()")
        .fetch_all(&mut owner)
        .await
        .expect("the list");
    assert_eq!(revoked, [digest.as_bytes().to_vec()]);
}

/// What brings the tools that a language needs, and how it says that it cannot.
fn needs(program: &str) {
    if Command::new(program).arg("--version").output().is_err() {
        println!("NOT RUN: plugin_kit: {program} is not on this machine");
        panic!("NOT RUN: plugin_kit: {program} is not on this machine");
    }
}

/// From nothing to a payment, as an integrator would do it.
fn runs_in(language: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |at: &Path, arguments: &[&str]| {
        let done = railhost().current_dir(at).args(arguments).output().expect("it runs");
        let said =
            format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        (done.status.code(), said)
    };
    let (code, said) = run(folder.path(), &["plugin", "new", "my-rail", "--lang", language]);
    assert_eq!(code, Some(0), "{said}");
    let own = folder.path().join("my-rail");
    let (code, said) = run(&own, &["plugin", "run", "--script", "otherwise: pay close-after"]);
    assert_eq!(code, Some(0), "{said}");
    for line in [
        "pay < no whole reply",
        "the host reads success (status PAID)",
        "DISPATCHED, money moved: yes",
        "the simulator paid 1 time(s)",
    ] {
        assert!(said.lines().any(|told| told == line), "{line}: {said}");
    }
    let test = ["plugin", "test", "my_rail.wasm", "--rail", "rail.toml", "--exchanges", "exchanges"];
    let (code, said) = run(&own, &test);
    assert!(code == Some(0) && said.contains("9 passed, 0 failed, 0 not tested"), "{said}");
}

#[test]
fn an_adapter_in_python_goes_from_nothing_to_a_payment() {
    needs("python3");
    runs_in("python");
}

#[test]
fn an_adapter_in_javascript_goes_from_nothing_to_a_payment() {
    needs("npm");
    runs_in("js");
}

#[tokio::test]
async fn a_pair_that_judges_a_recorded_exchange_otherwise_is_not_loaded() {
    let rig = AdapterRig::new().await;
    write_exchanges(&rig.path("exchanges"));
    let rules = Rules { examine: Some(conformance::examine), ..Rules::default() };
    let place = format!("exchanges = {:?}\n", rig.path("exchanges"));
    rig.put_rail("honest", &guest("pays_and_tells"), |text| format!("{place}{text}"));
    rig.load_rails(rules).await.expect("it judges them as they were");
    let other = |text: String| {
        let changed =
            text.replace(r#"code = "refused", class = "terminal""#, r#"code = "refused", class = "pending""#);
        assert_ne!(text, changed);
        format!("{place}{changed}")
    };
    rig.put_rail("honest", &guest("pays_and_tells"), other);
    let refused = rig.load_rails(rules).await.expect_err("a refusal would be waited for").to_string();
    assert!(
        refused
            .contains("reaches another verdict on a recorded exchange than the approved one: asked_refused: found pending"),
        "{refused}"
    );
    rig.put_rail("honest", &guest("pays_and_tells"), |text| format!("exchanges = \"nowhere\"\n{text}"));
    let refused = rig.load_rails(rules).await.expect_err("there are none").to_string();
    assert!(refused.contains("exchanges: ") && refused.contains("nowhere cannot be read"), "{refused}");
    rig.put_rail("honest", &guest("reads_opposite"), |text| format!("{place}{text}"));
    let refused = rig.load_rails(rules).await.expect_err("it brakes every verdict").to_string();
    assert!(
        refused.contains("reaches another verdict on a recorded exchange than the approved one"),
        "{refused}"
    );

    rig.put_rail("honest", &guest("pays_and_tells"), |text| format!("{place}{text}"));
    let (rails, _told) = rig.load_rails(rules).await.expect("it judges them as they were");
    rig.put_rail("honest", &guest("pays_and_tells"), |text| text);
    let looked = rails.reload(&rig.sandbox).await.expect("a folder");
    let refused = format!("{:?}", looked["honest"]);
    assert!(refused.contains("exchanges is missing; expected the recorded exchanges that the previous rail file was tested with"), "{refused}");
}
