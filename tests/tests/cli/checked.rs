//! What is checked before a payment is accepted.

use harness::{Db, Pg};
use serde_json::json;

use crate::{ConfigFolder, MOCK, PAYLOAD, count, text};

const PICKY: &str = "[settings]\nscript = \"destination *99: invalid destination\"\n";

fn picky(url: &str) -> ConfigFolder {
    let place = ConfigFolder::new(url);
    place.write("config/rails/mock.toml", &format!("{MOCK}{PICKY}"));
    place
}

fn enqueue(payload: &str) -> [&str; 9] {
    ["enqueue", "--instruction", "inv-1", "--participant", "acme", "--rail", "mock", "--payload", payload]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_breaks_the_rules_is_refused_with_all_that_is_wrong_and_its_key_stays_free() {
    let db = Db::fresh(Pg::V18).await;
    let place = picky(&db.url());
    for (payload, problems) in [
        (r#"{"currency":"ZMW"}"#, &["amount: is missing", "destination: must be"][..]),
        (r#"{"amount":"1.005","currency":"ZMW","destination":"260971234567"}"#, &["amount: has 3 decimals"]),
        (r#"{"amount":"1.00","currency":"ZMW","destination":"260971234599"}"#, &["destination"]),
    ] {
        let output = place.run(&enqueue(payload));
        assert_eq!(output.status.code(), Some(65), "{payload}: {}", text(&output.stderr));
        for problem in problems {
            assert!(text(&output.stderr).contains(problem), "{payload}: {}", text(&output.stderr));
        }
        assert!(!text(&output.stderr).contains("260971234599"), "a payee is masked");
    }
    assert_eq!(count(&db, "payment_outbox_records").await, 0);
    let good = r#"{"amount":"1.00","currency":"ZMW","destination":"260971234567"}"#;
    assert_eq!(place.json(&enqueue(good))["replayed"], false, "the key was not used up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_checked_by_its_rails_and_a_dry_run_tells_exact_sums_and_accepts_nothing() {
    let db = Db::fresh(Pg::V18).await;
    let place = picky(&db.url());
    let mut file = "instruction_id,participant_id,rail_type,amount,currency,destination\n".to_owned();
    for n in 0..1000 {
        let payee = if n % 100 == 42 { "260971234599" } else { "260971234567" };
        file += &format!("i{n},p,mock,0.10,ZMW,{payee}\n");
    }
    file += "big,p,mock,9007199254740993.01,ZMW,260971234567\nugx,p,mock,500,UGX,260971234567\n";
    place.write("payments.csv", &file);
    let dry = place.run(&["enqueue", "--file", "payments.csv", "--dry-run", "--json"]);
    assert_eq!(dry.status.code(), Some(65));
    let told: serde_json::Value = serde_json::from_slice(&dry.stdout).expect("JSON");
    assert_eq!((&told["acceptable"], &told["dry_run"]), (&992.into(), &true.into()));
    assert_eq!(
        told["sums"],
        json!([
            { "rail": "mock", "currency": "UGX", "payments": 1, "amount": "500" },
            { "rail": "mock", "currency": "ZMW", "payments": 991, "amount": "9007199254741092.01" },
        ])
    );
    assert_eq!(told["refused"].as_array().map(Vec::len), Some(10));
    assert!(text(&dry.stderr).contains("payments.csv:44: destination"), "{}", text(&dry.stderr));
    assert_eq!(count(&db, "payment_outbox_records").await, 0);
    assert_eq!(place.json(&["enqueue", "--file", "payments.csv"])["accepted"], 992);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_the_component_accepts_unchecked_but_never_unsound_money() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let gone = MOCK.replace("builtin:mock", "gone.wasm") + &format!("sha256 = \"{}\"\n", "0".repeat(64));
    place.write("config/rails/mock.toml", &gone);
    let good = r#"{"amount":"1.00","currency":"ZMW","destination":"260971234567"}"#;
    let refused = place.run(&enqueue(good));
    assert_eq!(refused.status.code(), Some(64));
    assert!(text(&refused.stderr).contains("--unchecked"), "{}", text(&refused.stderr));
    let unchecked = |payload| [&enqueue(payload)[..], &["--unchecked"]].concat();
    assert_eq!(
        place.run(&unchecked(r#"{"amount":"-1","currency":"ZMW","destination":"x"}"#)).status.code(),
        Some(65)
    );
    assert_eq!(place.json(&unchecked(good))["replayed"], false);
    assert_eq!(count(&db, "payment_outbox_records").await, 1);
}

#[tokio::test]
async fn a_dry_run_promises_nothing_that_the_database_would_refuse() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let good = |id: &str, amount: &str| format!("{id},acme,mock,{amount},ZMW,260971234567\n");
    let long = "x".repeat(257);
    let lines = "instruction_id,participant_id,rail_type,amount,currency,destination\n".to_owned()
        + &good("one", "1.00")
        + &good("one", "1.00")
        + &good("one", "2.00")
        + &good(&long, "1.00");
    let file = place.write("twice.csv", &lines);
    let file = file.to_str().expect("a name");
    let dry = place.run(&["enqueue", "--file", file, "--dry-run"]);
    let said = text(&dry.stderr);
    assert_eq!(dry.status.code(), Some(65), "{said}");
    assert!(said.contains(":4: key (one, one) appears earlier in this file"), "{said}");
    assert!(said.contains(":5: instruction_id: has 257 characters, expected 256 at most"), "{said}");
    assert!(text(&dry.stdout).contains("1 payment(s) would be accepted, 1 repeated, 2 line(s) refused"));
    let real = text(&place.run(&["enqueue", "--file", file]).stdout);
    assert!(real.contains("1 payment(s) accepted, 1 known already, 2 line(s) refused"), "{real}");
    let nul = place.write(
        "nul.jsonl",
        r#"{"instruction_id":"n","participant_id":"p","rail_type":"mock","payload":{"amount":"1.00","currency":"ZMW","destination":"d","note":"a\u0000b"}}"#,
    );
    let refused = place.run(&["enqueue", "--file", nul.to_str().expect("a name"), "--dry-run"]);
    assert!(text(&refused.stderr).contains("payload: contains a NUL character"), "{refused:?}");
    let empty = place.write("empty.jsonl", "\n");
    let nothing = place.run(&["enqueue", "--file", empty.to_str().expect("a name")]);
    assert_eq!(nothing.status.code(), Some(65), "a generator that died is no success");
}

#[tokio::test]
async fn a_dry_run_measures_and_compares_payloads_as_the_database_does() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let payload =
        |rest: &str| format!(r#"{{"amount":"1.00","currency":"ZMW","destination":"260971234567"{rest}}}"#);
    let line = |id: &str, payload: &str| {
        format!(r#"{{"instruction_id":"{id}","participant_id":"p","rail_type":"mock","payload":{payload}}}"#)
            + "\n"
    };
    // As it is written it has the size that is allowed; the database puts a blank after each colon and comma.
    let room = 65_536 - payload(r#","note":"""#).len();
    let largest = |less: usize| payload(&format!(r#","note":"{}""#, "x".repeat(room - less)));
    let lines = [
        line("large", &largest(0)),
        line("fits", &largest(7)),
        line("order", &payload(r#","more":{"n":10,"m":1.50}"#)),
        line(
            "order",
            r#"{"more":{"m":15.0e-1,"n":1e1},"destination":"260971234567","currency":"ZMW","amount":"1.00"}"#,
        ),
        line("order", &payload(r#","more":{"n":10,"m":1.5}"#)),
    ];
    place.write("payments.jsonl", &lines.concat());
    let dry = place.run(&["enqueue", "--file", "payments.jsonl", "--unchecked", "--dry-run", "--json"]);
    let dry: serde_json::Value = serde_json::from_slice(&dry.stdout).expect("JSON");
    let real = place.json(&["enqueue", "--file", "payments.jsonl", "--unchecked"]);
    assert_eq!(
        (&dry["acceptable"], &dry["repeated"]),
        (&real["accepted"], &real["replayed"]),
        "{dry} {real}"
    );
    assert_eq!((&real["accepted"], &real["replayed"]), (&2.into(), &1.into()), "{real}");
    let refused = |answer: &serde_json::Value| {
        let lines = answer["refused"].as_array().expect("a list");
        lines.iter().map(|refused| refused["line"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(refused(&dry), [1, 5], "{dry}");
    assert_eq!(refused(&real), [1, 5], "{real}");
}

#[tokio::test]
async fn a_refused_payment_is_exit_65_whoever_refuses_it() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let pay = |instruction: &str, rail: &str, amount: &str| {
        let payload = PAYLOAD.replace("1.00", amount);
        let arguments = ["enqueue", "--participant", "acme", "--rail", rail, "--payload", &payload];
        place.run(&[&arguments[..], &["--instruction", instruction]].concat()).status.code()
    };
    assert_eq!(pay("i", "mock", "1.00"), Some(0));
    assert_eq!(pay("i", "mock", "2.00"), Some(65), "its key belongs to another request");
    assert_eq!(pay(" i", "mock", "1.00"), Some(65), "its name is not one");
    assert_eq!(pay("j", "mock", "-1"), Some(65), "its money is none");
    assert_eq!(pay("j", "mnt", "1.00"), Some(66), "there is no such rail");
}
