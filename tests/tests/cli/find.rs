//! Finding payments.

use harness::sql::{Answer, Hands};
use harness::{Db, Pg};
use payment::{KeyForm, RailKey};
use verdict::error_code::ErrorCode;
use verdict::outcome::MoneyMoved;

use crate::{ConfigFolder, PAYLOAD, end_all, text};

fn ids(place: &ConfigFolder, arguments: &[&str]) -> Vec<String> {
    let answer = place.json(arguments);
    let payments = answer["payments"].as_array().unwrap_or_else(|| panic!("{answer}"));
    payments.iter().map(|payment| payment["outbox_id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_are_listed_by_rail_participant_state_code_time_and_review() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let unknown = place.enqueue("inv-1", PAYLOAD);
    end_all(&db, MoneyMoved::Unknown, ErrorCode::OutcomeUnknown).await;
    let failed = place.enqueue("inv-2", PAYLOAD);
    end_all(&db, MoneyMoved::No, ErrorCode::RailDeclined).await;
    let pending = place.enqueue("inv-3", PAYLOAD);
    for (filters, expected) in [
        (&[][..], vec![&pending, &failed, &unknown]),
        (&["--state", "pending"], vec![&pending]),
        (&["--state", "failed"], vec![&failed, &unknown]),
        (&["--state", "PENDING,FAILED", "--limit", "2"], vec![&pending, &failed]),
        (&["--error-code", "RAIL_DECLINED"], vec![&failed]),
        (&["--review"], vec![&unknown]),
        (&["--rail", "mock", "--participant", "acme", "--since", "1h"], vec![&pending, &failed, &unknown]),
        (&["--rail", "mtn"], vec![]),
        (&["--until", "1h"], vec![]),
        (&["--since", "2020-01-01", "--until", "2020-02-01T00:00:00Z"], vec![]),
        (&["--rail-code", "4711"], vec![]),
        (&["--unsettled"], vec![]),
    ] {
        let found = ids(&place, &[&["list"], filters].concat());
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filters:?}");
    }
    let table = text(&place.run(&["list", "--limit", "1"]).stdout);
    assert!(
        table.contains(&pending) && table.contains("***567") && !table.contains("260971234567"),
        "{table}"
    );
    assert_eq!(place.run(&["list", "--since", "yesterday"]).status.code(), Some(64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_found_by_whatever_names_it() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let payload = r#"{"amount":"12.50","currency":"ZMW","destination":"260971234567"}"#;
    let arguments = [
        "enqueue",
        "--participant",
        "acme",
        "--rail",
        "mock",
        "--payload",
        payload,
        "--instruction",
        "inv-1",
        "--key",
        "try-1",
    ];
    let id = place.json(&arguments)["outbox_id"].as_str().expect("an id").to_owned();
    place.enqueue("inv-2", PAYLOAD);
    let key = RailKey::of(id.parse().expect("a UUID"));
    let forms = [KeyForm::Hex, KeyForm::Hex32, KeyForm::Uuid].map(|form| key.form(form));
    let names =
        [id.as_str(), "inv-1", "try-1", "260971234567", "12.50", "12.5", &forms[0], &forms[1], &forms[2]];
    for name in names {
        let found = ids(&place, &["find", name]);
        assert!(found.contains(&id), "{name}: {found:?}");
        assert!(found.len() == 1 || name == "260971234567", "{name}: {found:?}");
    }
    for name in ["inv-3", "12.51", "00000000-0000-4000-8000-000000000001"] {
        let absent = place.run(&["find", name]);
        assert_eq!(absent.status.code(), Some(66), "{name}");
        assert!(text(&absent.stderr).contains(name), "{}", text(&absent.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_whose_month_is_gone_is_found_by_what_is_kept_of_it_for_ever() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let id = place.enqueue("inv-1", PAYLOAD);
    let mut hands = Hands::of(&db).await;
    let lease = hands.claim_one().await;
    let paid = Answer { rail_reference: Some("REF-1".to_owned()), ..Answer::new("DISPATCHED") };
    hands.complete(&lease, &paid).await.expect("it is held");
    hands.retire_history(&db, lease.outbox_id).await;
    let stays = place.enqueue("inv-2", PAYLOAD);

    let key = RailKey::of(lease.outbox_id);
    let forms = [KeyForm::Hex, KeyForm::Uuid].map(|form| key.form(form));
    for name in [id.as_str(), "inv-1", "REF-1", &forms[0], &forms[1]] {
        assert_eq!(ids(&place, &["find", name]), [id.as_str()], "{name}");
    }
    let shown = place.json(&["find", "inv-1"])["payments"][0].clone();
    assert_eq!((&shown["state"], &shown["history_gone"]), (&"DISPATCHED".into(), &true.into()), "{shown}");
    assert!(shown["rail_type"].is_null() && shown["money_moved"] == "yes", "{shown}");
    assert!(text(&place.run(&["find", &id]).stdout).contains("DISPATCHED, history gone"));
    assert_eq!(ids(&place, &["find", "260971234567"]), [stays.as_str()], "the payee is gone with the month");
    assert_eq!(place.run(&["find", &id, "--state", "failed"]).status.code(), Some(66));
    assert_eq!(place.json(&["find", "inv-2"])["payments"][0]["history_gone"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_as_csv_is_quoted_masked_and_no_formula() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    place.enqueue("=SUM(A1,\"x\")", PAYLOAD);
    let output = place.run(&["list", "--csv"]);
    let csv = text(&output.stdout);
    let (header, row) = csv.split_once("\r\n").expect("two lines");
    assert!(header.starts_with("outbox_id,instruction_id,idempotency_key,"), "{header}");
    assert!(row.contains(r#","'=SUM(A1,""x"")","'=SUM(A1,""x"")",acme,1,mock,PENDING,"#), "{row}");
    assert!(row.contains(",1.00,ZMW,***567,"), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_is_found_by_the_instruction_alone_and_several_are_listed() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let accept = |key: &str| {
        let arguments = [
            "enqueue",
            "--participant",
            "acme",
            "--rail",
            "mock",
            "--payload",
            PAYLOAD,
            "--instruction",
            "inv-1",
            "--key",
            key,
        ];
        place.json(&arguments)["outbox_id"].as_str().expect("an id").to_owned()
    };
    let first = accept("try-1");
    assert_eq!(place.json(&["timeline", "--instruction", "inv-1"])["outbox_id"], first.as_str());
    let second = accept("try-2");
    let several = place.run(&["timeline", "--instruction", "inv-1"]);
    assert_eq!(several.status.code(), Some(64));
    let shown = text(&several.stdout);
    assert!(shown.contains(&first) && shown.contains(&second), "{shown}");
    let chosen = place.json(&["timeline", "--instruction", "inv-1", "--key", "try-2"]);
    assert_eq!(chosen["outbox_id"], second.as_str());
    assert_eq!(place.run(&["timeline", "--instruction", "inv-2"]).status.code(), Some(66));
}

#[tokio::test(flavor = "multi_thread")]
async fn gaps_can_be_asked_for_a_span_of_time() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    place.enqueue("inv-1", PAYLOAD);
    for span in [
        &["--since", "1h"][..],
        &["--until", "1h"],
        &["--since", "2d", "--until", "1d", "--participant", "acme"],
    ] {
        let none = place.json(&[&["gaps"], span].concat());
        assert_eq!(none["gaps"], serde_json::json!([]), "{span:?}");
    }
}
