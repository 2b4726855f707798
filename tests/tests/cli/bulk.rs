//! Acts on one payment and on many.

use harness::{Db, Pg};
use serde_json::json;
use verdict::error_code::ErrorCode;
use verdict::outcome::MoneyMoved;

use crate::{ConfigFolder, PAYLOAD, count, end_all, text};

const WHY: [&str; 4] = ["--by", "ada", "--why", "a test"];
const NOBODY: &str = "00000000-0000-7000-8000-000000000000";

fn act<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &WHY].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_that_did_not_leave_are_cancelled_by_their_ids() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let ids: Vec<_> = (1..=3).map(|n| place.enqueue(&format!("inv-{n}"), PAYLOAD)).collect();
    assert_eq!(place.json(&act(&["cancel", &ids[0]]))["cancelled"], true);
    let again = place.run(&act(&["cancel", &ids[0]]));
    assert_eq!(again.status.code(), Some(77), "{}", text(&again.stderr));
    let rest = place.json(&act(&["cancel", &ids[1], &ids[0], &ids[2]]));
    assert_eq!(rest["done"].as_array().map(Vec::len), Some(2), "{rest}");
    assert_eq!(rest["refused"][0]["outbox_id"], ids[0].as_str());
    assert_eq!(count(&db, "payment_outbox_pending").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_exit_66_everywhere() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    place.enqueue("inv-1", PAYLOAD);
    for arguments in [
        &["cancel", NOBODY][..],
        &["reissue", NOBODY, "--instruction", "n"],
        &["reissue", NOBODY, "--instruction", "n", "--payload", PAYLOAD],
        &["resolve", NOBODY, "--money-moved", "no", "--evidence", "none"],
        &["pause", "mokc"],
        &["resume", "mokc"],
        &["suspend", "amce"],
        &["reinstate", "amce"],
        &["order", "amce", "strict"],
    ] {
        let output = place.run(&act(arguments));
        assert_eq!(output.status.code(), Some(66), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(count(&db, "participants").await, 0, "a slip leaves nothing behind");
    assert!(place.run(&act(&["suspend", "amce", "--unseen"])).status.success());
    assert!(place.run(&act(&["suspend", "acme"])).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_on_many_shows_the_sums_first_and_does_nothing_without_a_yes() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    for n in 1..=3 {
        place.enqueue(&format!("inv-{n}"), PAYLOAD);
    }
    end_all(&db, MoneyMoved::Unknown, ErrorCode::OutcomeUnknown).await;

    let resolve = act(&["resolve", "--review", "--money-moved", "no", "--evidence", "ticket 4711"]);
    let shown = place.run(&resolve);
    assert_eq!(shown.status.code(), Some(64));
    let said = text(&shown.stderr);
    assert!(said.contains("3 payment(s) match") && said.contains("Nothing was done"), "{said}");
    assert!(said.lines().any(|line| line.split_whitespace().eq(["mock", "3", "3.00", "ZMW"])), "{said}");
    assert_eq!(count(&db, "payment_outbox_resolutions").await, 0);
    let sums = place.json(&resolve);
    assert_eq!((&sums["chosen"], &sums["done"]), (&3.into(), &json!([])));
    let done = place.json(&[&resolve[..], &["--yes"]].concat());
    assert_eq!(done["done"].as_array().map(Vec::len), Some(3), "{done}");
    assert_eq!(count(&db, "payment_outbox_resolutions").await, 3);

    let reissue = act(&["reissue", "--state", "failed", "--since", "1h", "--suffix", "-again", "--yes"]);
    let new = place.json(&reissue);
    assert_eq!(new["done"].as_array().map(Vec::len), Some(3), "{new}");
    assert_eq!(place.json(&reissue), new, "the same call has the same answer");
    for n in 1..=3 {
        assert_eq!(
            place.run(&["timeline", "--instruction", &format!("inv-{n}-again")]).status.code(),
            Some(0)
        );
    }
    let cancelled = place.run(&act(&["cancel", "--participant", "acme", "--yes"]));
    assert_eq!(cancelled.status.code(), Some(65), "three had ended: {}", text(&cancelled.stderr));
    assert!(
        text(&cancelled.stdout).contains("3 payment(s) cancelled, 3 refused."),
        "{}",
        text(&cancelled.stdout)
    );
    let nothing = place.run(&act(&["cancel", "--yes"]));
    assert_eq!(nothing.status.code(), Some(64), "no filter is not every payment");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reissue_with_another_payload_shows_what_changes_and_is_checked_like_a_new_payment() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let id = place.enqueue("inv-1", PAYLOAD);
    end_all(&db, MoneyMoved::No, ErrorCode::RailDeclined).await;
    let reissue = |payload| act(&["reissue", &id, "--instruction", "inv-1-again", "--payload", payload]);
    for (payload, code) in [
        (r#"{"amount":"1.00","currency":"ZMW"}"#, 65),
        (r#"{"amount":"1.00","amount":"2.00","currency":"ZMW","destination":"260971234568"}"#, 64),
    ] {
        let refused = place.run(&reissue(payload));
        assert_eq!(refused.status.code(), Some(code), "{}", text(&refused.stderr));
    }
    let done = place.run(&reissue(r#"{"amount":"1.00","currency":"ZMW","destination":"260971234568"}"#));
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(said.contains("destination: \"***567\" → \"***568\""), "{said}");
    assert!(!said.contains("amount:"), "what stays is not shown: {said}");
    assert_eq!(count(&db, "payment_outbox_pending where payload->>'destination' = '260971234568'").await, 1);
}
