//! What an adapter tries besides what it is asked for.

use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use harness::yard::{PATIENT, Yard, guest, instruction, write_secret};
use railhost::rail::{Answer, Heard, Left, Rule, Task};

#[tokio::test]
async fn many_small_offences_do_not_hide_an_altered_amount() {
    let yard = Yard::new().await;
    let attempt = yard.try_guest("asks_around_then_alters_amount").await;
    let rules: Vec<_> = attempt.witness.denied.iter().map(|denied| denied.rule).collect();
    assert_eq!(rules, [Rule::Endpoint, Rule::Amount], "{attempt:?}");
    assert_eq!((attempt.witness.money_left(), yard.rail.asked().len()), (Left::Nothing, 0));
}

/// A signature is worth money, and no request needs one before there is a payment to send or to ask about.
#[tokio::test]
async fn nothing_is_signed_but_for_a_payment_or_a_question_about_one() {
    let yard = Yard::new().await;
    let pair = Ed25519KeyPair::generate().expect("a key").to_pkcs8().expect("a document");
    let body = STANDARD.encode(pair.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    write_secret(&yard.path("signature"), &pem);
    write_secret(&yard.path("hmac"), "a secret");
    let keys = r#"[keys]
            hmac = { algorithm = "hmac-sha256", key = { file = "hmac" } }
            signature = { algorithm = "ed25519", key = { file = "signature" } }

            [tokens.access]"#;
    let file = yard.file(&guest("signs_in_validate"), PATIENT).replace("[tokens.access]", keys);
    let loaded = yard.load_file(&file).await.expect("it loads");
    for task in [Task::Validate, Task::Disburse] {
        let attempt = loaded.call(&yard.sandbox, task, instruction(), None).await;
        let Heard::Invalid(refused) = attempt.heard else { panic!("{task:?}: {:?}", attempt.heard) };
        assert_eq!(refused.len(), 2, "{refused:?}");
        let why = "nothing is signed but for disburse and query-status";
        assert!(refused.iter().all(|refused| refused.problem.contains(why)), "{refused:?}");
    }
    let asked = loaded.call(&yard.sandbox, Task::Query, instruction(), None).await;
    let Heard::Answer(Answer::Unclear { detail, .. }) = asked.heard else { panic!("{:?}", asked.heard) };
    assert_eq!(detail, "signed");
}
