//! Airtel's own ways.

use harness::host::{until, until_all_have_a_verdict};
use harness::rail_run::{RailRun, payment, play, rails_folder};
use rail::definition::Definition;
use rail_simulators::{Name, Padding, SimulatorOptions};
use toml::Value as Toml;
use verdict::decision::Class;

use crate::held;
use crate::straight::Straight;

const RAIL: Name = Name::Airtel;
/// The simulator's PIN under its public key, encrypted once with another program.
const SEALED_PIN: &str = "P8q+/dTIlpbKcH9FZGfdc+LdRyHXB8LIl9e4U4Ozb5hpLrjigHff9HkT99gx2nKrhnfibxfB7QidLxI823JMNeLeEIoZm+84bOq741O/0O+vJDbr3KOaJUtRPkNG4ZD7z8kN7+woCVLRos+61FIZ37PWMCat2ijQI7jEy5TiLsw=";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_envelope_is_read_in_whatever_http_status_it_comes() {
    let cases = [
        ("then failed DP00900001012", "FAILED no", "RAIL_DECLINED"),
        ("then failed-bare DP00900001004", "FAILED no", "RAIL_DECLINED"),
        ("then failed-with-numbers DP00900001012", "FAILED no", "RAIL_DECLINED"),
        ("then failed-with-numbers DP00900001007", "FAILED no", "RAIL_DECLINED"),
        ("then failed-bare DP00900001005", "FAILED unknown", "RAIL_DECLINED"),
        ("then failed-by-result ESB000033", "FAILED no", "RAIL_DECLINED"),
        ("then failed-by-result ESB000011", "FAILED unknown", "RAIL_DECLINED"),
        ("pay refuse 200 DP00900001007, accept", "FAILED no", "RAIL_DECLINED"),
        ("pay refuse 400 ROUTER112, accept", "DISPATCHED yes", "ON_HOLD"),
        ("pay refuse 400 ROUTER117, accept", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("pay refuse 200 DP00900001014, accept", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("pay refuse 500 DP00900001000, accept", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("pay refuse 408 DP00900001012, accept", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("pay refuse 502 ROUTER112, accept", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("pay refuse-after 504 DP00900001012", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("pay refuse 200 ROUTER112", "FAILED no", "RAIL_DECLINED"),
        ("pay refuse-after 200 ROUTER999", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("pay refuse-after 200 DP00900001099", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        ("then failed DP00900001099", "FAILED unknown", "RAIL_DECLINED"),
        // An ambiguous code goes before a status that says pending.
        ("then says TA, after 500ms settled", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
        (
            "pay close-after; ask refuse 200 DP00900001016, refuse 200 DP00900001010, accept",
            "DISPATCHED yes",
            "OUTCOME_UNKNOWN",
        ),
        (
            "pay close-after; ask refuse 200 ROUTER006, refuse 400 ROUTER112, accept",
            "DISPATCHED yes",
            "OUTCOME_UNKNOWN",
        ),
        ("then pending TIP, after 500ms settled", "DISPATCHED yes", "RAIL_PENDING"),
        ("then pending TIP, after 500ms failed DP00900001009", "FAILED no", "RAIL_PENDING"),
        ("then failed-by-gateway ROUTER117, after 500ms settled", "DISPATCHED yes", "OUTCOME_UNKNOWN"),
    ];
    let plans: Vec<_> = cases.iter().map(|(plan, ..)| (*plan).to_owned()).collect();
    for (told, (plan, verdict, first)) in held::play(RAIL, &plans).await.iter().zip(cases) {
        assert_eq!(
            (told.verdict().as_str(), told.first.as_deref()),
            (verdict, Some(first)),
            "{plan}: {:#?}",
            told.ended
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_that_is_kept_is_the_one_in_the_payees_message() {
    let play = RailRun::start(RAIL, "").await;
    play.pay(&[payment(RAIL, "5.00")]).await;
    until_all_have_a_verdict(&play.db).await;
    let kept: String = {
        let mut owner = play.db.connect(harness::DbUser::Superuser).await;
        let sql = "select rail_reference from symphony.payment_outbox_attempts where state = 'DISPATCHED'";
        sqlx::query_scalar(sql).fetch_one(&mut owner).await.expect("a reference")
    };
    let ended = play.end().await;
    assert!(kept.starts_with("CI") && kept.len() < 20, "{kept}: {ended:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_what_is_sent_again_is_no_word_on_what_was_sent_before() {
    let plan = "pay close-after, refuse 200 DP00900001012; then missing, after 30s settled";
    let ended = play(RAIL, &[plan.to_owned()]).await;
    assert_eq!(
        (ended[0].state.as_str(), ended[0].money_moved.as_str(), ended[0].requests, ended[0].executions),
        ("FAILED", "unknown", 2, 1),
        "the first request was taken, and could not be found yet: {ended:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_holds_the_digits_of_the_pin_is_read_as_it_is() {
    let pin = std::fs::read_to_string(rails_folder().join("simulated/airtel_pin")).expect("a PIN");
    let code = format!("DP0090000{}", pin.trim());
    let ended = play(RAIL, &[format!("then failed {code}")]).await;
    assert_eq!(ended[0].rail_code.as_deref(), Some(code.as_str()), "{ended:#?}");
}

/// What a host makes of a payment whose PIN is padded as the file says, at a rail that wants it padded in its own way.
async fn with_padding(wanted: Padding, algorithm: &str) -> (Class, Option<String>, u64) {
    let options = SimulatorOptions { padding: wanted, ..SimulatorOptions::new(RAIL) };
    let straight = Straight::with(options, |file| {
        for name in ["pin", "signing"] {
            let key = file["keys"][name].as_table_mut().expect("a key");
            let right = match wanted {
                Padding::Pkcs1 => "rsa-encrypt-pkcs1",
                Padding::OaepSha1 => "rsa-encrypt-oaep-sha1",
                Padding::OaepSha256 => "rsa-encrypt-oaep-sha256",
                Padding::OaepSha256Mgf1Sha1 => "rsa-encrypt-oaep-sha256-mgf1-sha1",
            };
            key.insert("algorithm".to_owned(), if name == "pin" { algorithm } else { right }.into());
            if wanted != Padding::Pkcs1 {
                // The later keys: of 2048 bits, which need not be said.
                key.remove("bits");
                key.remove("fetch");
                let place = table("file = \"simulated/airtel_2048.pub.pem\"");
                key.insert("key".to_owned(), place);
            }
        }
        if wanted != Padding::Pkcs1 {
            file["steps"].as_table_mut().expect("steps").remove("encryption_keys");
        }
    })
    .await;
    let decision = straight.judge(&payment(RAIL, "5.00")).await;
    (decision.class, decision.rail_code, straight.simulator.counts().executions)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pin_is_padded_as_the_file_says_and_a_wrong_padding_stops_the_rail() {
    for (padding, algorithm) in [
        (Padding::Pkcs1, "rsa-encrypt-pkcs1"),
        (Padding::OaepSha1, "rsa-encrypt-oaep-sha1"),
        (Padding::OaepSha256, "rsa-encrypt-oaep-sha256"),
        (Padding::OaepSha256Mgf1Sha1, "rsa-encrypt-oaep-sha256-mgf1-sha1"),
    ] {
        let (class, _, executions) = with_padding(padding, algorithm).await;
        assert_eq!((class, executions), (Class::Success, 1), "{algorithm}");
    }
    for (wanted, algorithm) in
        [(Padding::OaepSha256, "rsa-encrypt-pkcs1"), (Padding::OaepSha256Mgf1Sha1, "rsa-encrypt-oaep-sha256")]
    {
        let found = with_padding(wanted, algorithm).await;
        assert_eq!(found, (Class::Stop, Some("ROUTER116".to_owned()), 0), "{algorithm}");
    }
}

fn table(text: &str) -> Toml {
    Toml::Table(text.parse().expect("TOML"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_message_is_taken_and_an_unsigned_one_holds_the_rail() {
    let signed = RailRun::start(RAIL, "").await;
    signed.pay(&[payment(RAIL, "5.00"), payment(RAIL, "6.00")]).await;
    assert!(signed.end().await.iter().all(|ended| ended.state == "DISPATCHED"));

    let unsigned = RailRun::with(SimulatorOptions::new(RAIL), |file| {
        for (section, key) in [("keys", "signing"), ("computed", "signing"), ("steps", "encryption_keys")] {
            file[section].as_table_mut().expect("a section").remove(key);
        }
        let headers = file["steps"]["disburse"]["headers"].as_table_mut().expect("headers");
        headers.remove("x-signature");
        headers.remove("x-key");
    })
    .await;
    unsigned.pay(&[payment(RAIL, "5.00")]).await;
    until(&unsigned.db, "payment_outbox_attempts where rail_code = 'DP00900001016'", |rows| rows > 0).await;
    assert_eq!(unsigned.simulator.counts().executions, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_key_that_nobody_approved_holds_the_rail_and_says_its_digest() {
    let play = RailRun::with(SimulatorOptions::new(RAIL), |file| {
        file["keys"]["signing"]["fetch"]["pins"] = vec!["0".repeat(64)].into();
    })
    .await;
    play.pay(&[payment(RAIL, "5.00")]).await;
    let digest = "f9fa3d7d2732fb041373244b438bf4eb0b46ed6f024f264bffab632ead19df39";
    let held = format!(
        "payment_outbox_holds where error_code = 'ON_HOLD' and error_message like '%that is not approved: SHA-256 {digest}%'"
    );
    until(&play.db, &held, |rows| rows > 0).await;
    assert_eq!(play.simulator.counts().executions, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_that_is_given_encrypted_is_sent_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let file_of_pin = folder.path().join("pin");
    std::fs::write(&file_of_pin, SEALED_PIN).expect("written");
    let straight = Straight::with(SimulatorOptions::new(RAIL), |file| {
        file["keys"].as_table_mut().expect("keys").remove("pin");
        file["computed"].as_table_mut().expect("computed").remove("pin");
        file["secrets"]["pin"] = table(&format!("file = {:?}", file_of_pin.display().to_string()));
        let body = file["steps"]["disburse"]["json"].as_str().expect("a body").to_owned();
        file["steps"]["disburse"]["json"] = body.replace("{computed.pin}", "{secret.pin}").into();
    })
    .await;
    assert_eq!(straight.judge(&payment(RAIL, "5.00")).await.class, Class::Success);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_amount_that_a_json_number_does_not_hold_is_refused_before_anything_leaves() {
    let play = RailRun::start(RAIL, "").await;
    play.pay(&[payment(RAIL, "90071992547409.93")]).await;
    let ended = play.end().await.remove(0);
    assert_eq!(
        (ended.state.as_str(), ended.money_moved.as_str(), ended.requests, ended.attempts[0].as_deref()),
        ("FAILED", "no", 0, Some("INVALID_PAYLOAD")),
        "{ended:#?}"
    );
    assert!(ended.message.as_deref().is_some_and(|message| message.contains("amount")), "{ended:#?}");
}

#[test]
fn nobody_is_asked_before_airtel_wants_to_be() {
    let file = Definition::load(&rails_folder().join("airtel.toml")).expect("sound").file;
    assert!(file.pace.query.after(1).mul_f64(0.9).as_secs() >= 60, "{:?}", file.pace.query);
    // What a dead host sent at the end of its call is asked about when its lease ends, and not much later.
    let lease = file.pace.lease_seconds;
    assert!(lease - file.timeouts.call().as_secs_f64() >= 60.0, "{lease}");
    assert!(lease <= 110.0, "{lease}");
}
