//! A play is directed by HTTP while it runs.

use harness::rail_run::{key, payment};
use rail_simulators::Name;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::straight::Straight;

const RAIL: Name = Name::Mtn;

/// The status and the body that a page answers with.
async fn direct(straight: &Straight, method: &str, page: &str, body: &str) -> (u16, String) {
    let address = straight.simulator.address;
    let request = format!(
        "{method} /_sim/{page} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("connected");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.expect("answered");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a whole reply");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

async fn read(straight: &Straight, page: &str) -> Value {
    let (status, body) = direct(straight, "GET", page, "").await;
    assert_eq!(status, 200, "{page}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_by_payee_and_by_key_count_from_now_on_and_bad_ones_change_nothing() {
    let straight = Straight::start(RAIL).await;
    let (first, by_payee, by_key, other) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
    let usual = payment(RAIL, "5.00");
    let mut to_another = usual.clone();
    to_another["destination"]["msisdn"] = "260961111111".into();
    assert_eq!(straight.pay(first, &usual).await, "pending");

    let rules = format!(
        "payee 260961111111: then failed PAYEE_NOT_FOUND\nkey {}: pay refuse 500 NOT_ALLOWED\notherwise: then pending",
        key(RAIL, by_key)
    );
    assert_eq!(direct(&straight, "PUT", "script", &rules).await.0, 200);
    let (status, why) = direct(&straight, "PUT", "script", "otherwise: pay gladly").await;
    assert_eq!(status, 400);
    assert!(why.starts_with("line 1: \"gladly\" is not a reply; expected accept, close, "), "{why}");

    assert_eq!(straight.pay(by_payee, &to_another).await, "pending");
    assert_eq!(straight.ask(by_payee, &to_another).await, "declined PAYEE_NOT_FOUND");
    assert_eq!(straight.pay(by_key, &usual).await, "declined NOT_ALLOWED");
    assert_eq!(straight.pay(other, &usual).await, "pending");
    assert_eq!(straight.ask(other, &usual).await, "pending PENDING");
    assert_eq!(straight.ask(first, &usual).await, "settled SUCCESSFUL", "its timeline does not change");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_die_and_counts_and_ledger_tell_what_happened() {
    let straight = Straight::start(RAIL).await;
    let (paid, refused) = (Uuid::new_v4(), Uuid::new_v4());
    let (five, six) = (payment(RAIL, "5.00"), payment(RAIL, "6.00"));
    let rules = "amount 6.00: pay refuse 500 NOT_ALLOWED";
    assert_eq!(direct(&straight, "PUT", "script", rules).await.0, 200);
    straight.pay(paid, &five).await;
    straight.pay(refused, &six).await;

    assert_eq!(direct(&straight, "POST", "tokens/expire", "").await.0, 200);
    assert_eq!(straight.ask(paid, &five).await, "unclear", "the token is worth nothing");
    assert_eq!(straight.ask(paid, &five).await, "settled SUCCESSFUL");

    assert_eq!(
        read(&straight, "counts").await,
        json!({
            "payments": 2, "requests": 2, "questions": 1, "executions": 1, "sessions": 2, "doubled": 0,
            "faults": { "refuse": 1 },
        })
    );
    let entry = read(&straight, &format!("ledger/{}", key(RAIL, paid))).await;
    assert_eq!((&entry["amount"], &entry["state"]), (&json!("5.00"), &json!("settled")), "{entry}");
    assert_eq!((&entry["requests"], &entry["executions"]), (&json!(1), &json!(1)), "{entry}");

    let (_, lines) = direct(&straight, "GET", "ledger", "").await;
    let mut told: Vec<(String, String)> = lines
        .lines()
        .map(|line| {
            let entry: Value = serde_json::from_str(line).expect("JSON");
            let text = |name: &str| entry[name].as_str().expect("a text").to_owned();
            (text("key"), text("state"))
        })
        .collect();
    told.sort();
    let mut expected =
        [(key(RAIL, paid), "settled".to_owned()), (key(RAIL, refused), "not taken".to_owned())];
    expected.sort();
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_not_there_names_those_that_are() {
    let straight = Straight::start(RAIL).await;
    for (method, page) in
        [("GET", "ledger/none"), ("GET", "script"), ("DELETE", "ledger"), ("POST", "nothing")]
    {
        let (status, body) = direct(&straight, method, page, "").await;
        assert_eq!((status, body.contains("tokens/expire")), (404, true), "{method} {page}: {body}");
    }
}
