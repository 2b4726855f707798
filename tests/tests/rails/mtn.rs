//! MTN's own ways.

use harness::host::{count, until};
use harness::rail_run::{RailRun, ask_nobody, key, payment, play, set};
use harness::world::leave_out_question;
use rail_simulators::{Name, SimulatorOptions};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toml::{Table, Value as Toml};
use uuid::Uuid;

use crate::held;
use crate::straight::Straight;

const RAIL: Name = Name::Mtn;

/// Another market: its environment, what it pays in, and its phone numbers.
fn move_to(file: &mut Table, environment: &str, currency: &str, country: &str) {
    set(file, "settings", "target_environment", environment);
    file.insert("currencies".to_owned(), vec![currency].into());
    file.remove("float");
    file["steps"].as_table_mut().expect("steps").remove("balance");
    file["destination"]["parts"]["msisdn"]["country"] = country.into();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sandbox_numbers_end_as_mtn_documents_them() {
    let play = RailRun::with(SimulatorOptions::new(RAIL), |file| move_to(file, "sandbox", "EUR", "46")).await;
    let numbers: &[(&str, &str, &str)] = &[
        ("46733123450", "FAILED unknown", "INTERNAL_PROCESSING_ERROR"),
        ("46733123451", "FAILED no", "APPROVAL_REJECTED"),
        ("46733123452", "FAILED no", "EXPIRED"),
        ("46733123453", "FAILED unknown", "PENDING"),
        ("46733123455", "FAILED unknown", "COULD_NOT_PERFORM_TRANSACTION"),
        ("46733123457", "FAILED no", "PAYER_NOT_FOUND"),
        ("46733123458", "FAILED no", "NOT_ALLOWED"),
        ("46733123463", "FAILED no", "SERVICE_UNAVAILABLE"),
        ("46733123464", "FAILED no", "TRANSFER_TYPE_UNKNOWN"),
        ("46733123999", "DISPATCHED yes", "SUCCESSFUL"),
    ];
    let payments: Vec<_> = numbers
        .iter()
        .map(|(number, ..)| json!({ "amount": "5.00", "currency": "EUR", "destination": { "msisdn": number } }))
        .collect();
    play.pay(&payments).await;
    for (ended, (number, verdict, code)) in play.end().await.iter().zip(numbers) {
        let found = format!("{} {}", ended.state, ended.money_moved);
        assert_eq!(
            (found.as_str(), ended.rail_code.as_deref()),
            (*verdict, Some(*code)),
            "{number}: {ended:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_at_the_door_was_not_taken() {
    let cases = [
        ("pay refuse 400 VALIDATION_ERROR", "FAILED no", "RAIL_DECLINED"),
        ("pay empty-before 400", "FAILED unknown", "RAIL_DECLINED"),
        ("pay empty-before 411, accept", "DISPATCHED yes", "ON_HOLD"),
        ("pay refuse 500 INVALID_CURRENCY, accept", "DISPATCHED yes", "ON_HOLD"),
        ("pay refuse 500 NOT_ALLOWED, accept", "DISPATCHED yes", "ON_HOLD"),
        ("pay refuse 500 NOT_ALLOWED_TARGET_ENVIRONMENT, accept", "DISPATCHED yes", "ON_HOLD"),
        ("pay refuse 500 INVALID_CALLBACK_URL_HOST, accept", "DISPATCHED yes", "ON_HOLD"),
        ("pay refuse 500 NOT_ENOUGH_FUNDS, accept", "DISPATCHED yes", "ON_HOLD"),
        ("pay refuse 500 PAYEE_NOT_FOUND", "FAILED unknown", "RAIL_DECLINED"),
        ("pay refuse 500 PAYER_NOT_FOUND", "FAILED unknown", "RAIL_DECLINED"),
        ("pay refuse 500 INTERNAL_PROCESSING_ERROR, accept", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("pay refuse 503 SERVICE_UNAVAILABLE, accept", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("pay refuse 500 NEVER_HEARD_OF, accept", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
    ];
    let plans: Vec<_> = cases.iter().map(|(plan, ..)| (*plan).to_owned()).collect();
    for (told, (plan, verdict, first)) in held::play(RAIL, &plans).await.iter().zip(cases) {
        assert_eq!(
            (told.verdict().as_str(), told.first.as_deref()),
            (verdict, Some(first)),
            "{plan}: {:#?}",
            told.ended
        );
        if first == "RAIL_DECLINED" {
            assert_eq!(
                told.ended.attempts.len(),
                1,
                "what was refused is not asked about: {:#?}",
                told.ended
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payer_that_is_not_found_is_a_payee_that_is_not_found() {
    let plans = ["then failed PAYER_NOT_FOUND".to_owned()];
    let told = play(RAIL, &plans).await.remove(0);
    assert_eq!((told.state.as_str(), told.money_moved.as_str()), ("FAILED", "no"), "{told:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_404_without_a_word_is_a_not_found_and_a_page_of_a_gateway_is_none() {
    let plans = ["pay close-before, accept; ask empty 404, accept", "pay close-after; ask html 404, accept"];
    let ended = play(RAIL, &plans.map(ToOwned::to_owned)).await;
    let said: Vec<Vec<_>> =
        ended.iter().map(|ended| ended.attempts.iter().map(Option::as_deref).take(2).collect()).collect();
    assert_eq!(said[0], [Some("OUTCOME_UNKNOWN"), Some("NOT_FOUND")], "{ended:#?}");
    assert_eq!(said[1], [Some("OUTCOME_UNKNOWN"), Some("QUERY_FAILED")], "{ended:#?}");
    assert!(ended.iter().all(|ended| ended.state == "DISPATCHED" && ended.executions == 1), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_without_a_note_sends_none() {
    let straight =
        Straight::with(SimulatorOptions { record: true, ..SimulatorOptions::new(RAIL) }, |_| {}).await;
    let mut empty = payment(RAIL, "5.00");
    empty["narrative"] = "".into();
    for paid in [payment(RAIL, "5.00"), empty] {
        assert_eq!(straight.pay(Uuid::new_v4(), &paid).await, "pending");
    }
    let sent: Vec<_> = straight.simulator.recorded().into_iter().map(|said| said.request).collect();
    let transfers: Vec<_> = sent.iter().filter(|body| body.contains("externalId")).collect();
    assert_eq!(transfers.len(), 2, "{sent:?}");
    assert!(
        transfers.iter().all(|body| !body.contains("payerMessage") && !body.contains("payeeNote")),
        "{sent:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reason_is_read_as_a_text_and_as_an_object() {
    let plans = ["then failed PAYEE_NOT_FOUND", "then failed-object PAYEE_NOT_FOUND"].map(ToOwned::to_owned);
    for ended in play(RAIL, &plans).await {
        assert_eq!((ended.state.as_str(), ended.rail_code.as_deref()), ("FAILED", Some("PAYEE_NOT_FOUND")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn created_is_pending() {
    let ended = play(RAIL, &["then pending CREATED, after 500ms settled".to_owned()]).await;
    assert_eq!((ended[0].state.as_str(), ended[0].requests), ("DISPATCHED", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_that_was_used_is_the_payment_itself_and_not_a_refusal() {
    let play =
        RailRun::with(SimulatorOptions::new(RAIL).script("otherwise: pay close-after, accept"), |file| {
            leave_out_question(file);
            set(file, "pace", "resend_is_safe", true);
        })
        .await;
    play.pay(&[payment(RAIL, "5.00")]).await;
    let ended = play.end().await;
    assert_eq!(
        (ended[0].state.as_str(), ended[0].money_moved.as_str(), ended[0].requests, ended[0].executions),
        ("FAILED", "unknown", 2, 1),
        "409 says that it is there, and nobody can be asked: {ended:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_of_any_alphabet_arrive_as_they_are() {
    let play = RailRun::start(RAIL, "").await;
    let mut paid = payment(RAIL, "5.00");
    let note = "Löhne für Mai, зарплата, 給与";
    paid["narrative"] = note.into();
    play.pay(&[paid]).await;
    let (ended, entry) = play.end_with_entries().await.remove(0);
    assert_eq!((ended.state.as_str(), entry.expect("it arrived").note.as_str()), ("DISPATCHED", note));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn currencies_without_decimals_are_paid_in_whole_units() {
    let play = RailRun::with(SimulatorOptions::new(RAIL), |file| {
        move_to(file, "mtnuganda", "UGX", "256");
        let bounds = "min = { UGX = \"500\" }\nmax = { UGX = \"5000000\" }";
        file.insert("amount".to_owned(), Toml::Table(bounds.parse().expect("TOML")));
    })
    .await;
    let pay = |amount: &str| json!({ "amount": amount, "currency": "UGX", "destination": { "msisdn": "256771234567" } });
    play.pay(&[pay("500"), pay("499"), pay("5000000"), pay("5000001")]).await;
    let ended = play.end().await;
    let states: Vec<_> = ended.iter().map(|ended| (ended.state.as_str(), ended.requests)).collect();
    assert_eq!(states, [("DISPATCHED", 1), ("FAILED", 0), ("DISPATCHED", 1), ("FAILED", 0)], "{ended:#?}");
}

/// A hint before the row is written is lost: the rail calls again, until one is heard on a busy machine too.
const AND_AGAIN: &str = "2s, 4s, 8s, 16s, 32s, 1m, 2m, 3m";

/// Nobody asks for ten minutes, unless a callback says that there is news.
async fn with_callbacks(script: &str) -> (RailRun, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let url = format!("http://{address}/callbacks/mtn");
    let play = RailRun::with(SimulatorOptions::new(RAIL).script(script), |file| {
        set(file, "settings", "callback_url", url);
        ask_nobody(file);
    })
    .await;
    (play.taking_callbacks(listener).await, address)
}

async fn call_back(address: &str, outbox_id: Uuid, proof: &str) -> String {
    let body = r#"{"status":"SUCCESSFUL","financialTransactionId":"1"}"#;
    let request = format!(
        "POST /callbacks/mtn/{outbox_id}/{proof} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("connected");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.expect("answered");
    reply.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_is_a_hint_to_ask_however_often_it_comes() {
    let script =
        format!("otherwise: then pending, after 300ms settled; call 700ms, 700ms, 900ms, {AND_AGAIN}");
    let (play, _) = with_callbacks(&script).await;
    play.pay(&vec![payment(RAIL, "5.00"); 3]).await;
    for ended in play.end().await {
        assert_eq!(
            (ended.state.as_str(), ended.requests, ended.executions),
            ("DISPATCHED", 1, 1),
            "{ended:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_before_the_reply_changes_nothing_and_the_next_one_is_heard() {
    let script = format!("otherwise: pay slow 400; then settled; call 0ms, 1s, {AND_AGAIN}");
    let (play, _) = with_callbacks(&script).await;
    play.pay(&[payment(RAIL, "5.00")]).await;
    let ended = play.end().await;
    assert_eq!((ended[0].state.as_str(), ended[0].requests), ("DISPATCHED", 1), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_callback_is_not_even_a_hint() {
    let (play, address) = with_callbacks("").await;
    play.pay(&[payment(RAIL, "5.00")]).await;
    until(&play.db, "payment_outbox_attempts", |rows| rows == 1).await;
    let entry = &play.simulator.entries()[0];
    let outbox_id: Uuid = {
        let mut owner = play.db.connect(harness::DbUser::Superuser).await;
        sqlx::query_scalar("select outbox_id from symphony.payment_outbox_attempts")
            .fetch_one(&mut owner)
            .await
            .expect("a payment")
    };
    assert_eq!(entry.key, key(RAIL, outbox_id));
    for proof in ["00", "x", &"ab".repeat(32)] {
        assert_eq!(call_back(&address, outbox_id, proof).await, "HTTP/1.1 404 Not Found");
    }
    assert_eq!(call_back(&address, Uuid::nil(), &"ab".repeat(32)).await, "HTTP/1.1 404 Not Found");
    assert_eq!(
        count(&play.db, "payment_outbox_pending where next_attempt_at > now() + interval '5 minutes'").await,
        1,
        "it is asked about when it was to be"
    );
    play.ask_until_all_have_a_verdict().await;
    let ended = play.end().await;
    assert_eq!((ended[0].state.as_str(), ended[0].attempts.len()), ("DISPATCHED", 2), "{ended:#?}");
}
