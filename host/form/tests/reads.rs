//! What replies say: only what is plainly about this payment counts, and an adapter can only brake.

mod common;

use common::{KEY, PLAIN, load, payment, read, with};
use form::{Meaning, Operation, Side, StepClass, Veto};
use serde_json::json;

#[test]
fn what_could_be_read_in_two_ways_says_nothing() {
    let form = load(PLAIN).expect("sound");
    let asked = |status, body: &str| read(&form, "ask", Operation::QueryStatus, status, body);
    assert_eq!(asked(200, r#"{"status":"PAID","id":"r"}"#).meaning, Some(Meaning::Success));
    for body in [
        r#"{"status":"PAID","status":"NO"}"#,
        r#"{"status":"PAID","Status":"NO"}"#,
        r#"{"status":"PAID""#,
        r#"{"status":"PAID"} {"status":"NO"}"#,
        r#"{"status":["PAID"]}"#,
        r#"[{"status":"PAID"}]"#,
        "{\"status\":\"PA\\ud800ID\"}",
        "\u{feff}{\"status\":\"PAID\"}",
    ] {
        let reading = asked(200, body);
        assert_eq!(reading.meaning, None, "{body}: {reading:?}");
    }
    for status in [206, 301, 302, 304] {
        let reading = asked(status, r#"{"status":"PAID"}"#);
        assert!(reading.meaning.is_none() && reading.is_doubtful, "{status}");
    }
}

#[test]
fn a_reply_about_another_payment_decides_nothing() {
    let bound =
        with("reply.any = { facts", "reply.any = { bound = [{ at = \"/key\", form = \"uuid\" }], facts");
    let form = load(&bound).expect("sound");
    let paid = |key: &str| {
        read(&form, "pay", Operation::Disburse, 200, &json!({ "status": "PAID", "key": key }).to_string())
    };
    assert_eq!(paid(KEY).meaning, Some(Meaning::Success));
    let other = paid("11e594f4-8195-4c10-a301-5d0bf0447a23");
    assert!(other.meaning.is_none() && other.is_doubtful, "not even its status counts");
}

#[test]
fn an_empty_reply_is_no_list_without_the_payment() {
    let listed = PLAIN
        .replacen("{base}/payments/{key:uuid}", "{base}/payments?ref={key:uuid}", 1)
        .replace("[codes]", "[steps.ask.reply.200]\npick = { from = \"/found\", by = \"/key\", form = \"uuid\" }\nfacts.status.one = \"/status\"\n[codes]")
        .replace("rows = [", "precedence = [\"picked\", \"status\"]\nrows = [\n  { operation = \"query-status\", field = \"picked\", code = \"none\", class = \"not-found\" },")
        .replacen("reply.any = { facts.status.one = \"/status\", reference.one = \"/id\" }\n\n[steps.ask.reply", "\n[steps.ask.reply", 1);
    let form = load(&listed).expect("sound");
    let asked = |body: &str| read(&form, "ask", Operation::QueryStatus, 200, body).meaning;
    assert_eq!(asked(r#"{"found":[]}"#), Some(Meaning::NotFound));
    let ours = json!({ "found": [{ "key": "x", "status": "NO" }, { "key": KEY, "status": "PAID" }] });
    assert_eq!(asked(&ours.to_string()), Some(Meaning::Success));
    let twice = json!({ "found": [{ "key": KEY, "status": "NO" }, { "key": KEY, "status": "PAID" }] });
    let others = json!({ "found": [{ "key": "x", "status": "PAID" }] });
    let nameless = json!({ "found": [{ "status": "PAID" }] });
    for nothing in [
        "",
        "  ",
        "{}",
        "[]",
        r#"{"found":null}"#,
        &twice.to_string(),
        &others.to_string(),
        &nameless.to_string(),
    ] {
        assert_eq!(asked(nothing), None, "{nothing:?}");
    }
}

#[test]
fn a_reason_without_a_status_is_no_word_on_the_payment() {
    let reasoned = PLAIN
        .replace("facts.status.one = \"/status\"", "facts.status.one = \"/status\", facts.reason.one = \"/reason\"")
        .replace("rows = [", "reasons = [\"reason\"]\nprecedence = [\"reason\", \"status\"]\nrows = [\n  { field = \"reason\", code = \"BUSY\", class = \"hold\" },\n  { field = \"status\", code = \"HEARD\", class = \"received\" },");
    let form = load(&reasoned).expect("sound");
    let asked = |body: &str| read(&form, "ask", Operation::QueryStatus, 200, body);
    assert_eq!(asked(r#"{"status":"NO","reason":"BUSY"}"#).meaning, Some(Meaning::Hold));
    assert!(asked(r#"{"status":"NO","reason":"BUSY"}"#).is_final);
    assert_eq!(asked(r#"{"status":null,"reason":"BUSY"}"#).meaning, Some(Meaning::Unknown));
    assert_eq!(asked(r#"{"status":"HEARD","reason":"BUSY"}"#).meaning, Some(Meaning::Pending));
}

#[test]
fn an_adapter_lowers_a_verdict_and_makes_none() {
    let form = load(PLAIN).expect("sound");
    let bodies = [
        r#"{"status":"PAID"}"#,
        r#"{"status":"NO"}"#,
        r#"{"status":"OPEN"}"#,
        r#"{"status":"ODD"}"#,
        "<html>",
    ];
    let words = ["PAID", "NO", "OPEN", "ODD"];
    for body in bodies {
        let ours = read(&form, "ask", Operation::QueryStatus, 200, body);
        for facts in words
            .map(|word| Some(vec![("status".to_owned(), word.to_owned())]))
            .into_iter()
            .chain([None, Some(Vec::new())])
        {
            let both = form.with_adapter(
                ours.clone(),
                StepClass::Read,
                Operation::QueryStatus,
                200,
                facts.as_deref(),
            );
            assert_eq!((both.meaning, &both.code), (ours.meaning, &ours.code), "the host's reading stays");
            let agrees = facts == Some(vec![("status".to_owned(), "PAID".to_owned())])
                && ours.side() == Side::Paid
                || facts == Some(vec![("status".to_owned(), "NO".to_owned())])
                    && ours.side() == Side::NotPaid;
            assert_eq!(both.veto.is_none(), ours.side() == Side::Open || agrees, "{body} {facts:?}");
        }
    }
    let paid = read(&form, "ask", Operation::QueryStatus, 200, bodies[0]);
    let no = [("status".to_owned(), "NO".to_owned())];
    let vetoed = form.with_adapter(paid, StepClass::Read, Operation::QueryStatus, 200, Some(&no));
    assert_eq!(vetoed.veto, Some(Veto::Opposite));
    assert_eq!(vetoed.record()["adapter"], json!([["status", "NO"]]), "both readings stand side by side");
}

#[test]
fn what_is_recorded_can_be_stored() {
    let form = load(PLAIN).expect("sound");
    let reading = read(&form, "ask", Operation::QueryStatus, 200, "{\"status\":\"A\\u0000B\\u202e\"}");
    assert!(!reading.record().to_string().contains("\\u0000"), "{}", reading.record());
}

#[test]
fn a_payload_that_is_read_differently_is_refused_and_not_left_out() {
    let file = format!(
        "{}\n[payload.branch]\nat = \"/branch\"\nfield = {{ chars = \"digits\", max = 3, optional = true }}",
        with("\"note\": \"{narrative?}\"", "\"note\": \"{narrative?}\", \"branch\": \"{payload.branch?}\"")
    );
    let form = load(&file).expect("sound");
    let of = |payload| form.check(&payment(payload));
    let mut payload =
        json!({ "amount": "10.50", "currency": "ZMW", "destination": "260961234567", "branch": "042" });
    assert!(of(payload.clone()).is_empty());
    payload["metadata"] = json!({ "a": 1, "A": 2 });
    assert_eq!(of(payload)[0].field, "payload");
}
