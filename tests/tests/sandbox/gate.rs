//! What leaves, what does not, and what the host saw of it.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use form::Meaning;
use harness::adapter_rig::{API_KEY, AdapterRig, PATIENT, guest, instruction};
use harness::port::Port;
use harness::rail::Reply;
use harness::railhost_path;
use payment::KeyForm;
use rail::definition::Definition;
use rail::gate::Resolve;
use rail::{CallReport, Loaded, Sandbox, SandboxOptions, Task};
use verdict::answer::CallResult;
use verdict::call_error::CallError;
use verdict::witness::{GateRule, Sent};

fn reason(attempt: &CallReport) -> &str {
    match &attempt.heard {
        CallResult::Unanswered(why) => why,
        other => panic!("{other:?}"),
    }
}

fn is_paid(attempt: &CallReport) -> bool {
    match &attempt.heard {
        CallResult::Reading(reading) => reading.meaning == Some(Meaning::Success) && reading.veto.is_none(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_payment_leaves_as_instructed_and_is_witnessed() {
    let rig = AdapterRig::with(|_| Reply::says(200, "paid").header("x-reference", "R-1")).await;
    let loaded = rig.load("pays_and_tells").await;
    let payment = instruction();
    let attempt = loaded.call(&rig.sandbox, Task::Disburse, payment.clone(), None).await;
    assert!(is_paid(&attempt));
    let CallResult::Reading(reading) = &attempt.heard else { panic!("{attempt:?}") };
    assert_eq!(reading.reference.as_deref(), Some("R-1"));
    assert_eq!(attempt.digest, loaded.digest);
    let seen = attempt.witness.money().expect("it was sent");
    assert_eq!((seen.left, seen.status, seen.whole), (Sent::Body, Some(200), true));
    let (asked, key) = (rig.rail.asked(), payment.key.form(KeyForm::Uuid));
    assert_eq!(asked[0].headers["x-reference-id"], key.as_str());
    assert_eq!(asked[0].headers["host"], rig.rail.address.to_string().as_str());
    assert_eq!(asked[0].headers["content-length"], asked[0].body.len().to_string().as_str());
    assert_eq!(asked[0].headers["accept-encoding"], "identity");
    assert_eq!(
        asked[0].body,
        format!(r#"{{"amount":"10.50","currency":"ZMW","payee":"260961234567","key":"{key}"}}"#)
    );
}

#[tokio::test]
async fn connections_are_used_again() {
    let rig = AdapterRig::new().await;
    let loaded = rig.load("pays_and_tells").await;
    for _ in 0..5 {
        rig.disburse(&loaded).await;
    }
    assert!(rig.rail.asked().iter().all(|asked| asked.connection == 0));
}

#[tokio::test]
async fn two_rails_never_share_a_connection() {
    let rig = AdapterRig::new().await;
    let (one, other) = (rig.load("pays_and_tells").await, rig.load("pays_and_tells").await);
    rig.disburse(&one).await;
    rig.disburse(&other).await;
    let connections: Vec<_> = rig.rail.asked().iter().map(|asked| asked.connection).collect();
    assert_eq!(connections, [0, 1]);
}

#[tokio::test]
async fn a_redirect_is_a_reply_and_is_not_followed() {
    let rig = AdapterRig::with(|_| Reply::says(302, "").header("location", "https://evil.example/pay")).await;
    let attempt = rig.try_guest("pays_and_tells").await;
    let CallResult::Reading(reading) = &attempt.heard else { panic!("{attempt:?}") };
    assert_eq!(reading.meaning, None);
    assert_eq!(rig.rail.asked().len(), 1);
}

#[tokio::test]
async fn a_packed_reply_is_not_read() {
    let rig = AdapterRig::with(|_| Reply::says(200, "paid").header("content-encoding", "gzip")).await;
    let attempt = rig.try_guest("pays_and_tells").await;
    assert!(
        reason(&attempt).contains("the reply is compressed; expected no content-encoding"),
        "{}",
        reason(&attempt)
    );
    assert_eq!(attempt.witness.money().expect("it was sent").status, Some(200));
}

#[tokio::test]
async fn a_secret_that_the_rail_sends_back_is_seen_by_nobody() {
    let rig = AdapterRig::with(|asked| {
        let key = asked.headers["x-api-key"].to_str().expect("text").to_owned();
        Reply::says(200, &format!("who is {key}?")).header("x-reference", &key)
    })
    .await;
    let attempt = rig.try_guest("shows_reply").await;
    assert_eq!(rig.rail.asked()[0].headers["x-api-key"], API_KEY, "the rail got it");
    let all = format!("{attempt:?}");
    assert!(!all.contains(API_KEY), "{all}");
    assert!(all.contains("[secret]") && attempt.log.is_empty(), "the adapter was not shown it: {all}");
}

#[tokio::test]
async fn silence_leaves_it_open_whether_the_rail_acted() {
    for (reply, first_byte_ms) in [(Reply::Hangs, 2_000), (Reply::HangsUp, 15_000)] {
        let rig = AdapterRig::with(move |_| reply.clone()).await;
        let timeouts = format!("timeouts = {{ call_ms = 20000, first_byte_ms = {first_byte_ms} }}");
        let attempt = rig.disburse(&rig.load_with("pays_and_tells", &timeouts).await).await;
        assert!(!reason(&attempt).is_empty());
        let seen = attempt.witness.money().expect("it was sent");
        assert_eq!((seen.left, seen.status), (Sent::Body, None));
    }
}

#[tokio::test]
async fn a_deadline_while_the_rail_is_silent_is_witnessed_too() {
    let rig = AdapterRig::with(|_| Reply::Hangs).await;
    // A busy machine may not have sent it by a short deadline: then once more with a longer one.
    for call_ms in [400, 1_600, 6_400, 25_600] {
        let more = format!("timeouts = {{ call_ms = {call_ms}, first_byte_ms = 60000 }}");
        let attempt = rig.disburse(&rig.load_with("pays_and_tells", &more).await).await;
        assert!(matches!(attempt.heard, CallResult::Failed(CallError::Deadline(_))), "{:?}", attempt.heard);
        if attempt.witness.money_left() == Sent::Body {
            return;
        }
    }
    panic!("the rail was asked {} times, and nothing was witnessed", rig.rail.asked().len());
}

#[tokio::test]
async fn a_rail_that_cannot_be_reached_was_sent_nothing() {
    let rig = AdapterRig::new().await;
    // Nobody listens on it, and nobody else is given it.
    let port = Port::reserve();
    let file = rig
        .file(&guest("pays_and_tells"), PATIENT)
        .replace(&rig.rail.base(), &format!("http://127.0.0.1:{}", port.number));
    let loaded = rig.load_file(&file).await.expect("it loads");
    let attempt = rig.disburse(&loaded).await;
    assert!(reason(&attempt).contains("127.0.0.1"), "{}", reason(&attempt));
    assert_eq!(attempt.witness.money_left(), Sent::Nothing);
}

#[tokio::test]
async fn a_connection_that_the_rail_closed_meanwhile_costs_nothing() {
    let rig = AdapterRig::with(|_| Reply::says(200, "paid").header("connection", "close")).await;
    let loaded = rig.load("pays_and_tells").await;
    for _ in 0..3 {
        assert!(is_paid(&rig.disburse(&loaded).await));
    }
    assert_eq!(rig.rail.asked().len(), 3);
}

#[tokio::test]
async fn nothing_begins_after_the_lease_is_no_longer_trusted() {
    let rig = AdapterRig::new().await;
    let loaded = rig.load("pays_and_tells").await;
    let attempt = loaded.call(&rig.sandbox, Task::Disburse, instruction(), Some(Instant::now())).await;
    assert!(reason(&attempt).contains("the lease does not last long enough"), "{}", reason(&attempt));
    assert_eq!((attempt.witness.money_left(), rig.rail.asked().len()), (Sent::Nothing, 0));
}

#[tokio::test]
async fn a_reply_that_is_too_long_is_cut_off() {
    let rig = AdapterRig::with(|_| Reply::says(200, &"x".repeat(600 * 1024))).await;
    let attempt = rig.try_guest("pays_and_tells").await;
    assert!(reason(&attempt).contains("the reply has more than"), "{}", reason(&attempt));
    let seen = attempt.witness.money().expect("it was sent");
    assert_eq!((seen.status, seen.whole), (Some(200), false));
}

#[tokio::test]
async fn long_headers_of_a_reply_are_read_up_to_the_limit() {
    for (bytes, fits) in [(12 * 1024, true), (20 * 1024, false)] {
        let rig =
            AdapterRig::with(move |_| Reply::says(200, "paid").header("x-long", &"x".repeat(bytes))).await;
        let attempt = rig.try_guest("pays_and_tells").await;
        match fits {
            true => assert!(is_paid(&attempt)),
            false => assert!(reason(&attempt).contains("the reply's headers"), "{}", reason(&attempt)),
        }
        assert_eq!(attempt.witness.money().expect("it was sent").status, Some(200));
    }
}

/// Answers with one list of addresses after the other.
#[derive(Debug)]
struct Fickle(Mutex<VecDeque<Vec<IpAddr>>>);

impl Resolve for Fickle {
    fn resolve(&self, _: &str, _: u16) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        let next = self.0.lock().expect("no panic").pop_front().unwrap_or_default();
        Box::pin(async move { Ok(next) })
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_dialled() {
    let rig = AdapterRig::new().await;
    let port = rig.rail.address.port();
    let addresses =
        |list: &[&str]| list.iter().map(|text| text.parse().expect("an address")).collect::<Vec<IpAddr>>();
    for (answers, why) in [
        (addresses(&["127.0.0.1"]), "resolves to 127.0.0.1, a loopback address"),
        (addresses(&["169.254.169.254"]), "a link-local address"),
        (addresses(&["93.184.215.14", "10.0.0.7"]), "resolves to 10.0.0.7, a private address"),
        (addresses(&["::ffff:127.0.0.1"]), "a loopback address"),
        (addresses(&["168.63.129.16"]), "an address where clouds keep their metadata"),
    ] {
        let fickle = Fickle(Mutex::new(VecDeque::from([answers])));
        let options =
            SandboxOptions { calls_max: 4, resolver: Arc::new(fickle), ..SandboxOptions::default() };
        let sandbox = Sandbox::new(&rig.path("compiled"), railhost_path(), options).expect("a sandbox");
        let file = rig
            .file(&guest("pays_and_tells"), PATIENT)
            .replace(&rig.rail.base(), &format!("https://rail.example:{port}"))
            .replace("\"loopback\"", "\"public\"");
        let definition = Definition::parse("test", &rig.path(""), &file).expect("a sound file");
        let loaded = Loaded::load(&sandbox, &definition).await.expect("it loads");
        let attempt = loaded.call(&sandbox, Task::Disburse, instruction(), None).await;
        assert!(reason(&attempt).contains(why), "{}", reason(&attempt));
        assert_eq!(attempt.witness.money_left(), Sent::Nothing);
        assert_eq!(attempt.witness.denied[0].rule, GateRule::Address);
    }
    assert_eq!(rig.rail.asked().len(), 0);
}
