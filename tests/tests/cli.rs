//! The binary as a person or a script meets it. One server version is enough here: what differs between versions is
//! tested below the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use harness::{Db, Pg, Role, railhost};
use railhost::outbox::complete::{Completion, MoneyMoved, Outcome, State};
use railhost::outbox::lease::Executor;
use serde_json::Value;

const UNREACHABLE: &str = "postgres://nobody@127.0.0.1:1/none";

/// A folder with a configuration in it, gone at the end of the test.
struct Place {
    folder: tempfile::TempDir,
    url: String,
}

impl Place {
    fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("config/rails")).expect("a folder");
        fs::write(
            folder.path().join("config/rails/mock.toml"),
            "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n",
        )
        .expect("written");
        Self { folder, url: url.to_owned() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    fn run(&self, arguments: &[&str]) -> Output {
        railhost()
            .current_dir(self.folder.path())
            .env("DATABASE_URL", &self.url)
            .env("USER", "tester")
            .args(arguments)
            .output()
            .expect("railhost runs")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("no JSON ({error}): {}{}", text(&output.stdout), text(&output.stderr))
        })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn csv(lines: usize) -> String {
    let mut file = "instruction_id,participant_id,rail_type,amount,currency,destination\n".to_owned();
    for n in 0..lines {
        file += &format!("i{n},p{},mock,{n}.10,ZMW,260971234567\n", n % 3);
    }
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_goes_in_but_for_its_bad_lines_which_are_named_by_number() {
    let place = Place::new(&Db::fresh(Pg::V18).await.url());
    let mut file = csv(20);
    file += "only,two\n";
    file += "i21,p1,unknown-rail,1,ZMW,x\n";
    file += "i0,p0,mock,999.99,ZMW,another body\n";
    file += "i22,p1,mock,5.00,ZMW,260971234567\n";
    place.write("payments.csv", &file);
    let output = place.run(&["enqueue", "--file", "payments.csv"]);
    assert_eq!(output.status.code(), Some(65), "{}", text(&output.stderr));
    let complaints = text(&output.stderr);
    for (line, word) in [(22, "fields"), (23, "unknown-rail"), (24, "key reused")] {
        assert!(
            complaints.lines().any(|l| l.contains(&format!("payments.csv:{line}:")) && l.contains(word)),
            "{complaints}"
        );
    }
    assert!(text(&output.stdout).contains("21 payment(s) accepted, 0 known already, 3 line(s) refused"));

    let again = place.json(&["enqueue", "--file", "payments.csv"]);
    assert_eq!((&again["accepted"], &again["replayed"]), (&0.into(), &21.into()));
    assert!(!Path::new(&place.folder.path().join("payments.csv.progress")).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_import_goes_on_where_it_was_and_accepts_every_line_once() {
    let db = Db::fresh(Pg::V18).await;
    let place = Place::new(&db.url());
    place.write("payments.csv", &csv(20_000));
    let note = place.folder.path().join("payments.csv.progress");
    let mut child = railhost()
        .current_dir(place.folder.path())
        .env("DATABASE_URL", &place.url)
        .args(["enqueue", "--file", "payments.csv", "--batch", "50"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("railhost runs");
    let patience = Instant::now();
    while !note.exists() {
        assert!(patience.elapsed() < Duration::from_secs(60), "no progress was noted");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
    assert!(note.exists(), "it was killed in the middle");

    let rest = place.json(&["enqueue", "--file", "payments.csv"]);
    let count = |name: &str| rest[name].as_u64().expect("a number");
    assert!(count("skipped") > 0, "{rest}");
    assert_eq!(count("skipped") + count("accepted") + count("replayed"), 20_000);
    let mut owner = db.connect(Role::Superuser).await;
    let rows: i64 = sqlx::query_scalar("select count(*) from symphony.payment_outbox_records")
        .fetch_one(&mut owner)
        .await
        .expect("counted");
    assert_eq!(rows, 20_000);
    assert_eq!(place.json(&["gaps"])["gaps"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_can_be_followed_and_a_rail_and_a_participant_held() {
    let db = Db::fresh(Pg::V18).await;
    let place = Place::new(&db.url());
    let one = [
        "enqueue",
        "--instruction",
        "inv-1",
        "--participant",
        "acme",
        "--rail",
        "mock",
        "--payload",
        r#"{"amount":"1"}"#,
    ];
    let accepted = place.json(&one);
    let id = accepted["outbox_id"].as_str().expect("an id");
    assert_eq!(place.json(&one)["replayed"], true);

    let timeline = place.json(&["timeline", id]);
    assert_eq!(timeline["events"][0]["event"], "ACCEPTED");
    assert_eq!(timeline["events"][1]["event"], "DUE");
    assert_eq!(place.json(&["timeline", "--instruction", "inv-1"])["outbox_id"], id);
    let unknown = place.run(&["timeline", "00000000-0000-7000-8000-000000000000"]);
    assert_eq!(unknown.status.code(), Some(66));

    let status = place.json(&["status"]);
    let total = status["rails"].as_array().and_then(|rails| rails.last()).expect("a total");
    assert_eq!((&total["pending"], &total["unroutable"]), (&1.into(), &1.into()));

    let executor = Executor::new(&db.database(), "worker", 1);
    assert!(place.run(&["pause", "mock", "--why", "float is low"]).status.success());
    assert!(executor.claim_any(10, 45.0).await.expect("claimed").is_empty());
    assert!(place.run(&["resume", "mock", "--why", "topped up"]).status.success());
    assert_eq!(place.json(&["suspend", "acme", "--why", "fraud"])["payments_moved"], 1);
    assert!(executor.claim_any(10, 45.0).await.expect("claimed").is_empty());
    let refused = place.run(&[
        "enqueue",
        "--instruction",
        "inv-2",
        "--participant",
        "acme",
        "--rail",
        "mock",
        "--payload",
        "{}",
    ]);
    assert_eq!(refused.status.code(), Some(77), "{}", text(&refused.stderr));
    assert_eq!(place.json(&["reinstate", "acme", "--why", "cleared"])["payments_moved"], 1);
    assert_eq!(executor.claim_any(10, 45.0).await.expect("claimed").len(), 1);

    let mut owner = db.connect(Role::Superuser).await;
    let acts: Vec<(String, String)> =
        sqlx::query_as("select act, by_whom from symphony.operator_acts order by act_id")
            .fetch_all(&mut owner)
            .await
            .expect("read");
    let names: Vec<&str> = acts.iter().map(|(act, _)| act.as_str()).collect();
    assert_eq!(names, ["pause_rail", "resume_rail", "suspend_participant", "reinstate_participant"]);
    assert!(acts.iter().all(|(_, by)| by == "tester"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_one_sentence_and_a_useful_exit_code() {
    let db = Db::fresh(Pg::V18).await;
    let place = Place::new(&db.url());
    let cases: [(&[&str], i32, &str); 7] = [
        (
            &["enqueue", "--instruction", "i", "--participant", "p", "--rail", "mtn", "--payload", "{}"],
            64,
            "rail \"mtn\" is not known",
        ),
        (
            &["enqueue", "--instruction", "i", "--participant", "p", "--rail", "mock", "--payload", "{"],
            64,
            "--payload is no JSON",
        ),
        (
            &["enqueue", "--instruction", "i", "--participant", "p", "--rail", "mock", "--payload", "[]"],
            64,
            "payload must be a JSON object",
        ),
        (
            &["enqueue", "--instruction", "", "--participant", "p", "--rail", "mock", "--payload", "{}"],
            64,
            "instruction_id must have",
        ),
        (&["timeline", "not-an-id"], 64, "expected a UUID"),
        (&["enqueue", "--file", "nowhere.csv"], 1, "cannot read nowhere.csv"),
        (&["frobnicate"], 64, "unrecognized subcommand"),
    ];
    for (arguments, code, sentence) in cases {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(sentence), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(place.json(&["gaps"])["gaps"].as_array().expect("a list").is_empty());
    let mut owner = db.connect(Role::Superuser).await;
    let rows: i64 = sqlx::query_scalar("select count(*) from symphony.payment_outbox_records")
        .fetch_one(&mut owner)
        .await
        .expect("counted");
    assert_eq!(rows, 0, "nothing was written");
}

#[test]
fn a_wrong_configuration_names_file_key_and_expectation() {
    let place = Place::new(UNREACHABLE);
    let cases = [
        (
            "[retention]\nattempt_days = 30\n",
            "config/bad.toml: line 2: unknown field `attempt_days`, expected one of",
        ),
        ("[retention]\nattempts_days = 3\n", "retention.attempts_days is 3, expected 7 or more"),
        (
            "[database.logins]\ningest = { file = \"/not/there\" }\n",
            "database.logins.ingest refers to /not/there",
        ),
        ("[relayer]\npoll_ms = 60000\n", "relayer.poll_ms is 60000, expected 250 to 1000"),
        (
            "[adapters]\ncalls_max = 63\n",
            "config/bad.toml: adapters.calls_max is 63, expected 64 or more: that is pace.concurrency of all rails",
        ),
    ];
    for (content, sentence) in cases {
        place.write("config/bad.toml", content);
        let output = place.run(&["--config", "config/bad.toml", "check"]);
        assert_eq!(output.status.code(), Some(64), "{content}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(sentence), "{content}: {}", text(&output.stderr));
    }
    let mock = "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n";
    place.write("config/rails/slow.toml", &format!("{mock}pace = {{ lease_seconds = 20 }}\n"));
    let short = place.run(&["serve"]);
    assert_eq!(short.status.code(), Some(64));
    assert!(
        text(&short.stderr).contains("rails/slow.toml: pace.lease_seconds is 20, expected 38 to 110"),
        "{}",
        text(&short.stderr)
    );
    fs::remove_file(place.folder.path().join("config/rails/slow.toml")).expect("removed");
    place.write(
        "config/rails/bank.toml",
        "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = false\nhand_over_marks = false\n",
    );
    let output = place.run(&["check"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        text(&output.stderr).contains("rails/bank.toml: hand_over_marks is false, expected true"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_is_good_for_simulators_does_not_start_in_production() {
    let place = Place::new(UNREACHABLE);
    fs::create_dir_all(place.folder.path().join("config/live")).expect("a folder");
    place.write("config/live.toml", "production = true\nrails = \"live\"\n");
    let file = railhost::builtin::rail_file("mtn").expect("it is there");
    let pinned = format!("component = \"mtn.wasm\"\nsha256 = \"{}\"", "0".repeat(64));
    for (file, sentence) in [
        (file.to_owned(), "live/mtn.toml: component is built in, expected a file and its sha256"),
        (
            file.replace("component = \"builtin:mtn\"", &pinned),
            "live/mtn.toml: secrets.api_key is that of a simulator",
        ),
    ] {
        place.write("config/live/mtn.toml", &file);
        let output = place.run(&["--config", "config/live.toml", "check"]);
        assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(sentence), "{}", text(&output.stderr));
    }
}

#[test]
fn a_simulator_refuses_what_it_cannot_play() {
    let place = Place::new(UNREACHABLE);
    place.write("bad.txt", "amount 1.00: pay gladly\n");
    for (arguments, sentence) in [
        (&["simulate", "nokia"][..], "expected mtn, airtel or bank"),
        (&["simulate", "mtn", "--listen", "0.0.0.0:0"], "expected an address of loopback"),
        (&["simulate", "mtn", "--script", "bad.txt"], "line 1: \"gladly\" is no reply"),
        (&["simulate", "mtn", "--script", "gone.txt"], "gone.txt"),
    ] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(sentence), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_host_whose_component_is_missing_does_not_start() {
    let place = Place::new(UNREACHABLE);
    let rail = "kind = \"mock\"\ncomponent = \"gone.wasm\"\nidempotent = true\nhand_over_marks = false\n";
    place.write("config/rails/gone.toml", &format!("{rail}sha256 = \"{}\"\n", "0".repeat(64)));
    let output = place.run(&["serve"]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("gone.wasm"), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_or_empty_database_exits_69_and_check_passes_after_migrate() {
    for command in ["status", "serve"] {
        let nowhere = Place::new(UNREACHABLE).run(&[command]);
        assert_eq!(nowhere.status.code(), Some(69), "{command}: {}", text(&nowhere.stderr));
    }

    let place = Place::new(&Db::empty(Pg::V15).await.url());
    let empty = place.run(&["check"]);
    assert_eq!(empty.status.code(), Some(69));
    assert!(text(&empty.stderr).contains("run railhost migrate"), "{}", text(&empty.stderr));
    let first = place.json(&["migrate"]);
    assert_eq!(first["migrated"]["already_applied"], 0);
    assert_eq!(place.json(&["migrate"])["migrated"]["newly_applied"], 0);
    assert!(place.run(&["check"]).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_outcome_is_resolved_with_evidence_and_then_reissued_once() {
    let db = Db::fresh(Pg::V18).await;
    let place = Place::new(&db.url());
    let enqueue = ["enqueue", "--participant", "acme", "--rail", "mock", "--payload", "{}", "--instruction"];
    let id =
        place.json(&[&enqueue[..], &["inv-1"]].concat())["outbox_id"].as_str().expect("an id").to_owned();
    let executor = Executor::new(&db.database(), "worker", 1);
    let lease = executor.claim_any(1, 45.0).await.expect("claimed").remove(0);
    let outcome = Outcome {
        money_moved: Some(MoneyMoved::Unknown),
        error_code: Some("OUTCOME_UNKNOWN".to_owned()),
        ..Outcome::new(State::Failed)
    };
    executor.complete(&Completion { held: lease.held(), outcome }).await.expect("completed");

    let reissue = ["reissue", &id, "--instruction", "inv-1-again", "--why", "it failed"];
    let early = place.run(&reissue);
    assert_eq!(early.status.code(), Some(77), "the money may have moved: {}", text(&early.stderr));
    let resolve =
        ["resolve", &id, "--money-moved", "no", "--evidence", "statement of 3 May", "--why", "asked"];
    assert_eq!(place.json(&resolve)["money_moved"], false);
    assert_eq!(place.run(&resolve).status.code(), Some(77), "a finding is made once");
    let again = place.json(&reissue);
    assert_eq!(again["sequence_id"], 2);
    assert_eq!(place.json(&reissue), again, "the same call has the same answer");
    let other = place.run(&["reissue", &id, "--instruction", "inv-1-third", "--why", "once more"]);
    assert_eq!(other.status.code(), Some(77), "{}", text(&other.stderr));

    let waiting = place.json(&[&enqueue[..], &["inv-2"]].concat());
    assert_eq!(
        place.json(&["order", "acme", "strict", "--why", "their ledger needs it"])["payments_moved"],
        1
    );
    let leased = executor.claim_any(10, 45.0).await.expect("claimed");
    assert_eq!(leased.len(), 1, "the later one waits");
    assert_ne!(leased[0].outbox_id.to_string(), waiting["outbox_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_exports_a_month_before_it_goes_and_says_what_stays() {
    let db = Db::fresh(Pg::V15).await;
    let place = Place::new(&db.url());
    place.run(&[
        "enqueue",
        "--instruction",
        "old",
        "--participant",
        "p",
        "--rail",
        "mock",
        "--payload",
        "{}",
    ]);
    let executor = Executor::new(&db.database(), "worker", 1);
    let lease = executor.claim_any(1, 45.0).await.expect("claimed").remove(0);
    executor
        .complete(&Completion { held: lease.held(), outcome: Outcome::new(State::Dispatched) })
        .await
        .expect("completed");

    let young = place.json(&["retention", "--export", "out"]);
    assert_eq!(young["retired"], serde_json::json!([]));
    db.move_clock("600 days").await;
    let old = place.json(&["retention", "--export", "out"]);
    let month = young["months"][0]["partition_name"].as_str().expect("a name");
    assert!(old["retired"].as_array().expect("a list").iter().any(|name| name == month), "{old}");
    let exported =
        fs::read_to_string(place.folder.path().join(format!("out/{month}.jsonl"))).expect("exported");
    assert!(exported.contains(&lease.outbox_id.to_string()));

    let replay = place.json(&[
        "enqueue",
        "--instruction",
        "old",
        "--participant",
        "p",
        "--rail",
        "mock",
        "--payload",
        "{}",
    ]);
    assert_eq!((&replay["state"], &replay["replayed"]), (&"DISPATCHED".into(), &true.into()));
    let events = place.json(&["timeline", &lease.outbox_id.to_string()]);
    assert_eq!(events["events"][1]["detail"]["history"], "gone");
}

const SCENARIO: &str =
    "kind = \"burn-down\"\npayments = 4000\ncontestants = [\"railhost\", \"floor\", \"good\", \"bad\"]\n";

/// Speaks as a rival's driver has to, and does nothing.
const DRIVER: &str = r#"case "$1" in
    prepare) echo '{"event":"prepared","version":"7.1"}' ;;
    enqueue) echo '{"event":"ready"}'; read -r go; echo '{"event":"done"}' ;;
    work) echo '{"event":"ready"}'; read -r go; WORK ;;
esac
"#;

#[test]
fn a_benchmark_measures_us_the_limit_and_rivals_and_names_the_one_that_fails() {
    let place = Place::new(UNREACHABLE);
    for (name, work) in [("good", "echo '{\"event\":\"done\"}'"), ("bad", "echo 'out of luck' >&2; exit 9")] {
        fs::create_dir_all(place.folder.path().join("rivals").join(name)).expect("a folder");
        let rival = format!(
            "name = \"{name}\"\nlanguage = \"sh\"\ncommand = [\"sh\", \"driver.sh\"]\nsettings = \"none\"\nlacks = [\"any work\"]\n"
        );
        place.write(&format!("rivals/{name}/rival.toml"), &rival);
        place.write(&format!("rivals/{name}/driver.sh"), &DRIVER.replace("WORK", work));
    }
    place.write("small.toml", SCENARIO);
    let output = place.run(&["bench", "small.toml", "--quick", "--rivals", "rivals", "--out", "out"]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in
        ["| **railhost** |", "| floor |", "| good |", "any work", "good 7.1 (sh)", "CPU in PostgreSQL"]
    {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    assert!(said.contains("bad") && said.contains("failed"), "{said}");
    let results = fs::read_to_string(place.folder.path().join("out/results.json")).expect("results");
    serde_json::from_str::<Value>(&results).expect("JSON");
    let plot = fs::read_to_string(place.folder.path().join("out/small.svg")).expect("a plot");
    assert!(plot.starts_with("<svg") && plot.contains("railhost"), "{plot}");
}

#[test]
fn a_benchmark_that_cannot_be_is_refused_before_anything_starts() {
    let place = Place::new(UNREACHABLE);
    for (scenario, more, told) in [
        ("kind = \"burn-down\"\npayments = 10\nround = 3\n", &[][..], "round"),
        ("kind = \"walk-down\"\n", &[], "walk-down"),
        ("kind = \"burn-down\"\n", &[], "payments"),
        (SCENARIO, &["--only", "nobody"], "nobody"),
        (SCENARIO, &["--rivals", "nowhere"], "nowhere"),
    ] {
        place.write("small.toml", scenario);
        let output = place.run(&[&["bench", "small.toml", "--out", "out"], more].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{told}: {said}");
        assert!(said.contains(told), "{told}: {said}");
        assert!(!place.folder.path().join("out").exists(), "{told}");
    }
}
