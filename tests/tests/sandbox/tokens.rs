//! Access tokens: fetched once, used by all, seen by nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use form::Meaning;
use harness::adapter_rig::{AdapterRig, PASSWORD, USER, guest};
use harness::rail::{ReceivedRequest, Reply};
use rail::{CallReport, Loaded};
use verdict::answer::CallResult;

/// A rail that wants a token with each payment.
async fn load(rig: &AdapterRig) -> Loaded {
    let file = rig.file(&guest("pays_and_tells"), "");
    let with_token = file.replace(
        "headers = { x-reference-id",
        "headers = { authorization = \"Bearer {token.access}\", x-reference-id",
    );
    assert_ne!(file, with_token);
    rig.load_file(&with_token).await.expect("it loads")
}

fn is_paid(attempt: &CallReport) -> bool {
    matches!(&attempt.heard, CallResult::Reading(reading) if reading.meaning == Some(Meaning::Success))
}

fn is_token(asked: &ReceivedRequest) -> bool {
    asked.path == "/token"
}

/// Gives out `token-1`, `token-2`, …, and pays to whom has the last one.
fn with_tokens(lives_seconds: u32) -> impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static {
    let given = Arc::new(AtomicUsize::new(0));
    move |asked| {
        if is_token(asked) {
            let n = given.fetch_add(1, Ordering::SeqCst) + 1;
            Reply::says(
                200,
                &format!("{{\"access_token\": \"token-{n}-secret\", \"expires_in\": {lives_seconds}}}"),
            )
        } else {
            let last = format!("Bearer token-{}-secret", given.load(Ordering::SeqCst));
            match asked.headers.get("authorization").is_some_and(|value| value.as_bytes() == last.as_bytes())
            {
                true => Reply::says(200, "paid"),
                false => Reply::says(401, "another token, please"),
            }
        }
    }
}

#[tokio::test]
async fn a_token_is_fetched_once_and_used_by_all_calls() {
    let rig = AdapterRig::with(with_tokens(3600)).await;
    let loaded = load(&rig).await;
    let calls: Vec<_> = (0..20).map(|_| rig.disburse(&loaded)).collect();
    let ended = futures_util::future::join_all(calls).await;
    assert!(ended.iter().all(is_paid), "{ended:?}");
    let asked = rig.rail.asked();
    let fetched: Vec<_> = asked.iter().filter(|asked| is_token(asked)).collect();
    assert_eq!(fetched.len(), 1, "one call went for all");
    let basic = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    assert_eq!(fetched[0].headers["authorization"], basic.as_str());
    assert_eq!(fetched[0].headers["content-length"], "0");
    assert!(!format!("{ended:?}").contains("-secret"), "nobody sees it");
    let fresh = ended
        .iter()
        .filter(|attempt| attempt.witness.money().expect("sent").token_is_fresh == Some(true))
        .count();
    assert_eq!(fresh, 1);
}

#[tokio::test]
async fn a_token_that_the_rail_refuses_is_fetched_anew() {
    let rig = AdapterRig::with(with_tokens(3600)).await;
    let loaded = load(&rig).await;
    assert!(is_paid(&rig.disburse(&loaded).await));
    // Somebody else took a token, and ours is worth nothing any more.
    let other = load(&rig).await;
    assert!(is_paid(&rig.disburse(&other).await));
    let refused = rig.disburse(&loaded).await;
    assert_eq!(refused.witness.money().expect("sent").status, Some(401));
    assert_eq!(refused.witness.money().expect("sent").token_is_fresh, Some(false));
    assert!(is_paid(&rig.disburse(&loaded).await));
}

#[tokio::test]
async fn a_session_that_brings_no_token_pays_nothing() {
    let rig = AdapterRig::with(|_| Reply::says(400, "{\"error\": \"invalid_client\"}")).await;
    let attempt = rig.disburse(&load(&rig).await).await;
    assert!(
        matches!(&attempt.heard, CallResult::Unanswered(why) if why.contains("invalid_client")),
        "{:?}",
        attempt.heard
    );
    assert_eq!(rig.rail.asked().len(), 1);
}

#[tokio::test]
async fn credentials_that_a_rail_sends_back_are_not_seen_by_the_adapter() {
    let echo = |asked: &ReceivedRequest| {
        Reply::says(400, &format!("who is {}?", asked.headers["authorization"].to_str().expect("text")))
    };
    let rig = AdapterRig::with(echo).await;
    let attempt = rig.disburse(&load(&rig).await).await;
    assert_eq!(
        attempt.heard,
        CallResult::Unanswered("no token: HTTP 400: who is Basic [secret]?".to_owned())
    );
}
