//! One payment and what a person does about it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{Db, DbUser, Pg};
use outbox::complete::Completion;
use outbox::lease::{Executor, Lease};
use verdict::error_code::ErrorCode;
use verdict::outcome::{CompletionState, MoneyMoved, Outcome};

use crate::{ConfigFolder, PAYLOAD, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_can_be_followed_and_a_rail_and_a_participant_held() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let one = [
        "enqueue",
        "--instruction",
        "inv-1",
        "--participant",
        "acme",
        "--rail",
        "mock",
        "--payload",
        PAYLOAD,
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
        PAYLOAD,
    ]);
    assert_eq!(refused.status.code(), Some(65), "{}", text(&refused.stderr));
    assert_eq!(place.json(&["reinstate", "acme", "--why", "cleared"])["payments_moved"], 1);
    assert_eq!(executor.claim_any(10, 45.0).await.expect("claimed").len(), 1);

    let mut owner = db.connect(DbUser::Superuser).await;
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
    let place = ConfigFolder::new(&db.url());
    let cases: [(&[&str], i32, &str); 7] = [
        (
            &["enqueue", "--instruction", "i", "--participant", "p", "--rail", "mtn", "--payload", "{}"],
            66,
            "unknown rail \"mtn\"",
        ),
        (
            &["enqueue", "--instruction", "i", "--participant", "p", "--rail", "mock", "--payload", "{"],
            64,
            "--payload: is not valid JSON",
        ),
        (
            &["enqueue", "--instruction", "i", "--participant", "p", "--rail", "mock", "--payload", "[]"],
            64,
            "--payload: expected a JSON object",
        ),
        (
            &["enqueue", "--instruction", "", "--participant", "p", "--rail", "mock", "--payload", "{}"],
            65,
            "instruction_id: is empty",
        ),
        (&["timeline", "not-an-id"], 64, "expected a UUID"),
        (&["enqueue", "--file", "nowhere.csv"], 66, "cannot read nowhere.csv"),
        (&["frobnicate"], 64, "unrecognized subcommand"),
    ];
    for (arguments, code, sentence) in cases {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(sentence), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(place.json(&["gaps"])["gaps"].as_array().expect("a list").is_empty());
    let mut owner = db.connect(DbUser::Superuser).await;
    let rows: i64 = sqlx::query_scalar("select count(*) from symphony.payment_outbox_records")
        .fetch_one(&mut owner)
        .await
        .expect("counted");
    assert_eq!(rows, 0, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_outcome_is_resolved_with_evidence_and_then_reissued_once() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let id = place.enqueue("inv-1", PAYLOAD);
    let executor = Executor::new(&db.database(), "worker", 1);
    let lease = executor.claim_any(1, 45.0).await.expect("claimed").remove(0);
    let outcome = Outcome {
        money_moved: Some(MoneyMoved::Unknown),
        error_code: Some(ErrorCode::OutcomeUnknown),
        ..Outcome::new(CompletionState::Failed)
    };
    executor.complete(&Completion { lease: lease.lease_ref(), outcome }).await.expect("completed");

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

    let waiting = place.enqueue("inv-2", PAYLOAD);
    assert_eq!(
        place.json(&["order", "acme", "strict", "--why", "their ledger needs it"])["payments_moved"],
        1
    );
    let leased = executor.claim_any(10, 45.0).await.expect("claimed");
    assert_eq!(leased.len(), 1, "the later one waits");
    assert_ne!(leased[0].outbox_id.to_string(), waiting);
}

/// A payment with a verdict, before the clock moves on.
async fn pay_the_old_one(db: &Db, place: &ConfigFolder) -> Lease {
    place.run(&[
        "enqueue",
        "--instruction",
        "old",
        "--participant",
        "p",
        "--rail",
        "mock",
        "--payload",
        PAYLOAD,
    ]);
    let executor = Executor::new(&db.database(), "worker", 1);
    let lease = executor.claim_any(1, 45.0).await.expect("claimed").remove(0);
    executor
        .complete(&Completion {
            lease: lease.lease_ref(),
            outcome: Outcome::new(CompletionState::Dispatched),
        })
        .await
        .expect("completed");
    lease
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_never_replaces_the_month_of_another_outbox() {
    let db = Db::fresh(Pg::V15).await;
    let place = ConfigFolder::new(&db.url());
    pay_the_old_one(&db, &place).await;
    let months = place.json(&["retention", "--dry-run"]);
    let month = months["months"][0]["partition_name"].as_str().expect("a name");
    let path = place.folder.path().join(format!("out/{month}.jsonl"));
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(&path, "the month of another outbox").expect("written");
    db.move_clock("600 days").await;
    let refused = place.run(&["retention", "--export", "out"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("this outbox does not know it"), "{said}");
    assert_eq!(fs::read_to_string(&path).expect("kept"), "the month of another outbox");
    let kept = place.json(&["retention", "--dry-run"]);
    assert!(kept["months"].as_array().expect("a list").iter().any(|kept| kept["partition_name"] == month));
    fs::remove_file(&path).expect("moved away");
    place.json(&["retention", "--export", "out"]);
    assert!(fs::read_to_string(&path).expect("exported").contains("DISPATCHED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_exports_a_month_before_it_goes_and_says_what_stays() {
    let db = Db::fresh(Pg::V15).await;
    let place = ConfigFolder::new(&db.url());
    let lease = pay_the_old_one(&db, &place).await;

    let beside = place.json(&["retention", "--dry-run"]);
    let folder = beside["export_folder"].as_str().expect("a folder");
    assert!(folder.starts_with('/') && folder.ends_with("/config/.railhost/exports"), "{folder}");
    let young = place.json(&["retention", "--export", "out"]);
    assert_eq!(young["retired"], serde_json::json!([]));
    db.move_clock("600 days").await;
    let month = young["months"][0]["partition_name"].as_str().expect("a name");
    let path = place.folder.path().join(format!("out/{month}.jsonl"));
    let old = place.json(&["retention", "--export", "out"]);
    assert!(old["retired"].as_array().expect("a list").iter().any(|name| name == month), "{old}");
    let exported = fs::read_to_string(&path).expect("exported");
    assert!(exported.contains(&lease.outbox_id.to_string()));
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner may read it");

    let replay = place.json(&[
        "enqueue",
        "--instruction",
        "old",
        "--participant",
        "p",
        "--rail",
        "mock",
        "--payload",
        PAYLOAD,
    ]);
    assert_eq!((&replay["state"], &replay["replayed"]), (&"DISPATCHED".into(), &true.into()));
    let events = place.json(&["timeline", &lease.outbox_id.to_string()]);
    assert_eq!(events["events"][1]["detail"]["history"], "gone");
}
