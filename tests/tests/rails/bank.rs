//! The bank's own ways.

use std::sync::Arc;

use harness::rail_run::{RailRun, payment, play, set};
use harness::world::leave_out_question;
use rail_simulators::{Name, SimulatorOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use toml::{Table, Value as Toml};

const RAIL: Name = Name::Bank;

/// The lines of the table.
fn rows(file: &mut Table) -> &mut Vec<Toml> {
    file["codes"]["rows"].as_array_mut().expect("rows")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_counts_wherever_it_stands_and_its_reason_before_it() {
    let cases = [
        ("then failed AC04", "FAILED no", "AC04"),
        ("then failed-as-payment AC01", "FAILED no", "AC01"),
        ("then failed-as-group FF01", "FAILED no", "FF01"),
        ("then failed-privately X-17", "FAILED unknown", "X-17"),
        ("then failed MS03", "FAILED unknown", "MS03"),
        ("then says CANC", "FAILED no", "CANC"),
        ("then pending RCVD, after 500ms settled", "DISPATCHED yes", "ACSC"),
        ("then pending PDNG, after 300ms pending ACSP, after 600ms says ACCC", "DISPATCHED yes", "ACCC"),
        ("then says BLCK, after 500ms settled", "DISPATCHED yes", "ACSC"),
        ("then failed AG09, after 500ms settled", "DISPATCHED yes", "ACSC"),
    ];
    // ACCC is a settlement too: the ledger counts only `settled`.
    let paid = cases.map(|(plan, ..)| plan.replace("says ACCC", "settled, after 600ms says ACCC"));
    for (ended, (plan, verdict, code)) in play(RAIL, &paid).await.iter().zip(cases) {
        let found = format!("{} {}", ended.state, ended.money_moved);
        assert_eq!((found.as_str(), ended.rail_code.as_deref()), (verdict, Some(code)), "{plan}: {ended:#?}");
    }
}

/// Each of them is a rejection for AC04 that is not the verdict on this payment, which is paid a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_is_not_plainly_about_this_payment_never_fails_it() {
    let cases = [
        ("then failed-of-another AC04, after 500ms settled", "OUTCOME_UNKNOWN"),
        ("then failed-contradicted AC04, after 500ms settled", "OUTCOME_UNKNOWN"),
        ("then failed-beside-duplicate AC04, after 500ms settled", "RAIL_PENDING"),
        ("pay close-after; then failed-of-another AC04, after 500ms settled", "OUTCOME_UNKNOWN"),
        ("pay close-after; then failed-contradicted AC04, after 500ms settled", "OUTCOME_UNKNOWN"),
        ("pay close-after; then failed-beside-duplicate AC04, after 500ms settled", "OUTCOME_UNKNOWN"),
    ];
    let plans = cases.map(|(plan, _)| plan.to_owned());
    for (ended, (plan, first)) in play(RAIL, &plans).await.iter().zip(cases) {
        assert_eq!(
            (ended.state.as_str(), ended.executions, ended.attempts[0].as_deref()),
            ("DISPATCHED", 1, Some(first)),
            "{plan}: {ended:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_means_paid_is_agreed_with_each_bank() {
    let play = RailRun::with(
        SimulatorOptions::new(RAIL).script("otherwise: then settled, after 1s says ACCC"),
        |file| {
            let paid = |row: &&mut Toml| row["class"].as_str() == Some("success");
            let row = rows(file).iter_mut().find(paid).expect("what means paid");
            row["code"] = "ACCC".into();
        },
    )
    .await;
    play.pay(&[payment(RAIL, "5.00")]).await;
    let ended = play.end().await;
    assert_eq!(
        (ended[0].state.as_str(), ended[0].attempts[0].as_deref()),
        ("DISPATCHED", Some("RAIL_PENDING")),
        "a debit alone is not enough here: {ended:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_404_that_does_not_say_what_was_agreed_is_no_not_found() {
    for is_agreed in [true, false] {
        let options = SimulatorOptions::new(RAIL).script("otherwise: pay close-after; ask html 404, accept");
        let play = RailRun::with(options, |file| {
            rows(file).retain(|row| is_agreed || row["class"].as_str() != Some("not-found"));
        })
        .await;
        play.pay(&[payment(RAIL, "5.00")]).await;
        let ended = play.end().await;
        let attempts: Vec<_> = ended[0].attempts.iter().map(Option::as_deref).collect();
        assert_eq!(
            attempts,
            [Some("OUTCOME_UNKNOWN"), Some("QUERY_FAILED"), None],
            "{is_agreed}: {ended:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_of_a_bank_that_cannot_be_asked_goes_to_a_person_at_once() {
    let options = SimulatorOptions::new(RAIL).script("amount 5.00: pay close-after");
    let play = RailRun::with(options, leave_out_question).await;
    play.pay(&[payment(RAIL, "5.00"), payment(RAIL, "6.00")]).await;
    let ended = play.end().await;
    let told: Vec<_> = ended
        .iter()
        .map(|ended| (ended.state.as_str(), ended.money_moved.as_str(), ended.requests))
        .collect();
    assert_eq!(told, [("FAILED", "unknown", 1), ("DISPATCHED", "yes", 1)], "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_was_sent_before_is_the_payment_itself() {
    let play =
        RailRun::with(SimulatorOptions::new(RAIL).script("otherwise: pay close-after, accept"), |file| {
            leave_out_question(file);
            set(file, "pace", "resend_is_safe", true);
        })
        .await;
    play.pay(&[payment(RAIL, "5.00")]).await;
    let ended = play.end().await;
    assert_eq!(
        (ended[0].state.as_str(), ended[0].requests, ended[0].executions),
        ("FAILED", 2, 1),
        "DU01 says that it is there, and nobody can be asked: {ended:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn currencies_names_and_notes_arrive_as_they_are() {
    let play = RailRun::with(SimulatorOptions::new(RAIL), |file| {
        file.remove("amount");
        file.insert("currencies".to_owned(), vec!["KWD", "JPY"].into());
    })
    .await;
    let pay = |amount: &str, currency: &str, name: &str, note: &str| {
        let destination = json!({ "account": "DE02120300000000202051", "bic": "BYLADEM1001", "name": name });
        json!({ "amount": amount, "currency": currency, "destination": destination, "narrative": note })
    };
    let paid = [
        pay("0.001", "KWD", "ناصر <&> \"الصباح\"", "فاتورة ٧"),
        pay("1", "JPY", "株式会社テスト", "請求書 & 領収書"),
        pay("9999999999999999", "JPY", "O'Neill & Söhne", "]]> <!-- no -->"),
        pay("123456789012345.678", "KWD", "Zoë", ""),
    ];
    play.pay(&paid).await;
    for ((ended, entry), paid) in play.end_with_entries().await.iter().zip(&paid) {
        let entry = entry.as_ref().expect("it arrived");
        assert_eq!(ended.state, "DISPATCHED", "{ended:#?}");
        assert_eq!(entry.note, paid["narrative"].as_str().expect("a text"));
        assert_eq!(
            (entry.amount.as_str(), entry.currency.as_str()),
            (paid["amount"].as_str().expect("a text"), paid["currency"].as_str().expect("a text"))
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_reached_over_tls_by_the_ca_that_the_file_names() {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("a CA");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(["127.0.0.1".to_owned()])
        .expect("a name")
        .signed_by(&key, &authority)
        .expect("signed");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
        )
        .expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).expect("written");

    let options = || SimulatorOptions { tls: Some(Arc::new(tls.clone())), ..SimulatorOptions::new(RAIL) };
    let trusted = RailRun::with(options(), |file| set(file, "network", "ca", ca.display().to_string())).await;
    trusted.pay(&[payment(RAIL, "5.00")]).await;
    assert_eq!(trusted.end().await[0].state, "DISPATCHED");

    let strange = RailRun::with(options(), |_| {}).await;
    strange.pay(&[payment(RAIL, "5.00")]).await;
    harness::host::until(&strange.db, "payment_outbox_attempts where error_code = 'NOT_SENT'", |rows| {
        rows > 0
    })
    .await;
    assert_eq!(strange.simulator.counts().requests, 0, "a certificate that nobody vouches for");
}
