//! Signatures over whole requests: what is signed, byte for byte, is what leaves.

mod common;

use std::collections::BTreeMap;

use common::{PLAIN, load, payment, refused, with};
use form::{FilledRequest, Form, Input, Secrets};
use serde_json::json;
use uuid::Uuid;

/// Signs by repeating what it is to sign.
struct Parrot;

impl Secrets for Parrot {
    fn secret(&self, _: &str) -> Option<&str> {
        None
    }

    fn token(&self, _: &str) -> Option<&str> {
        None
    }

    fn encrypt(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("no".to_owned())
    }

    fn hmac(&self, _: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        Ok(message.to_vec())
    }

    fn sign(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("it is for HMAC".to_owned())
    }

    fn envelope(&self, _: &str, _: &[u8]) -> Result<(String, String), String> {
        Err("no".to_owned())
    }

    fn callback(&self, _: Uuid) -> Option<String> {
        None
    }
}

fn pay(form: &Form, challenge: Option<&str>) -> FilledRequest {
    let payment = payment(json!({ "amount": "10.50", "currency": "ZMW", "destination": "260961234567" }));
    let now = "2026-01-15T09:30:00Z".parse().expect("a time");
    let captured = BTreeMap::new();
    let input =
        Input { payment: &payment, values: &[], captured: &captured, secrets: &Parrot, challenge, now };
    form.fill(form.step("pay").expect("a step"), &input).expect("filled")
}

/// The plain rail whose payments have these headers and computed values.
fn rail(headers: &str, computed: &str) -> String {
    with(
        "headers = { x-reference-id = \"{key:uuid}\" }",
        &format!("headers = {{ x-reference-id = \"{{key:uuid}}\", {headers} }}"),
    ) + &format!("\n[computed]\n{computed}\n")
}

fn header<'r>(request: &'r FilledRequest, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

const DIGEST: &str = "digest = { digest = { style = \"content-digest\" } }";

#[test]
fn a_message_is_signed_by_rfc_9421_over_what_leaves() {
    let form = load(&rail(
        "content-digest = \"{computed.digest}\", signature-input = \"{computed.sig.input}\", signature = \"{computed.sig.signature}\"",
        &format!(
            "{DIGEST}\nsig = {{ message-signature = {{ key = \"hmac\", key_id = \"us-1\", components = [\"@method\", \"@target-uri\", \
             \"content-digest\", \"x-reference-id\"], expires = 60, tag = \"pay\" }} }}"
        ),
    ))
    .expect("sound");
    let request = pay(&form, None);
    let input = "(\"@method\" \"@target-uri\" \"content-digest\" \"x-reference-id\");created=1768469400;expires=1768469460;keyid=\"us-1\";tag=\"pay\"";
    assert_eq!(header(&request, "signature-input"), Some(format!("sig1={input}").as_str()));
    let digest = header(&request, "content-digest").expect("a digest");
    let signed = format!(
        "\"@method\": POST\n\"@target-uri\": https://rail.example/api/payments\n\"content-digest\": {digest}\n\"x-reference-id\": {}\n\
         \"@signature-params\": {input}",
        common::KEY
    );
    assert_eq!(header(&request, "signature"), Some(format!("sig1=:{}:", base64(&signed)).as_str()));
}

#[test]
fn a_request_is_signed_by_the_draft_of_cavage_over_what_leaves() {
    let form = load(&rail(
        "date = \"{time:http}\", digest = \"{computed.digest}\", signature = \"{computed.sig}\"",
        "digest = { digest = { style = \"digest\" } }\nsig = { http-signature = { key = \"hmac\", key_id = \"us-1\", headers = \
         [\"(request-target)\", \"host\", \"date\", \"digest\"] } }",
    ))
    .expect("sound");
    let request = pay(&form, None);
    let digest = header(&request, "digest").expect("a digest");
    let signed = format!(
        "(request-target): post /api/payments\nhost: rail.example\ndate: Thu, 15 Jan 2026 09:30:00 GMT\ndigest: {digest}"
    );
    let expected = format!(
        "keyId=\"us-1\",algorithm=\"hs2019\",headers=\"(request-target) host date digest\",signature=\"{}\"",
        base64(&signed)
    );
    assert_eq!(header(&request, "signature"), Some(expected.as_str()));
}

#[test]
fn a_body_is_signed_by_a_detached_jws_whose_header_holds_values_as_values() {
    let form = load(&rail(
        "x-jws = \"{computed.jws}\"",
        r#"jws = { jws = { key = "hmac", header = '{ "alg": "HS256", "kid": "us-1", "ref": "{key:hex32}" }' } }"#,
    ))
    .expect("sound");
    let request = pay(&form, None);
    use base64::Engine as _;
    let url = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let protected = url.encode(r#"{"alg":"HS256","kid":"us-1","ref":"11e594f481958c10e3015d0bf0447a22"}"#);
    let signed = format!("{protected}.{}", url.encode(&request.body));
    assert_eq!(header(&request, "x-jws"), Some(format!("{protected}..{}", url.encode(signed)).as_str()));
}

#[test]
fn a_challenge_is_answered_only_where_there_is_one() {
    let file = rail(
        "x-2fa-approval = \"{challenge?}\", x-signature = \"{computed.answer?}\"",
        "answer = { hmac = { key = \"hmac\", over = \"{challenge}\" } }",
    );
    assert!(refused(&file).contains("expected steps.….challenge"), "{}", refused(&file));
    let file = file.replace(
        "class = \"money\"",
        "class = \"money\"\nchallenge = { status = 403, header = \"x-2fa-approval\" }",
    );
    let form = load(&file).expect("sound");
    let request = pay(&form, None);
    assert_eq!((header(&request, "x-2fa-approval"), header(&request, "x-signature")), (None, None));
    let again = pay(&form, Some("one-time"));
    let answer = base64("one-time");
    assert_eq!(
        (header(&again, "x-2fa-approval"), header(&again, "x-signature")),
        (Some("one-time"), Some(answer.as_str()))
    );
    assert_eq!((again.body, again.path), (request.body, request.path), "nothing else changes");
}

#[test]
fn a_signature_that_covers_what_is_not_sent_is_refused() {
    for (file, problem) in [
        (
            rail(
                "signature = \"{computed.sig}\"",
                "sig = { http-signature = { key = \"hmac\", key_id = \"a\", headers = [\"digest\"] } }",
            ),
            "computed.sig.headers has \"digest\"",
        ),
        (
            rail(
                "signature = \"{computed.sig}\"",
                "sig = { http-signature = { key = \"hmac\", key_id = \"a\", headers = [\"signature\"] } }",
            ),
            "and no signature",
        ),
        (
            rail(
                "signature = \"{computed.sig}\"",
                "sig = { http-signature = { key = \"hmac\", key_id = \"a\", headers = [] } }",
            ),
            "is empty or has one twice",
        ),
        (
            rail(
                "signature = \"{computed.sig}\"",
                "sig = { http-signature = { key = \"hmac\", key_id = \"a\\\"b\", headers = [\"host\"] } }",
            ),
            "computed.sig.key_id is",
        ),
        (
            rail(
                "signature = \"{computed.sig}\"",
                "sig = { message-signature = { key = \"hmac\", key_id = \"a\", components = [\"@method\"] } }",
            ),
            "has several values, expected .input or .signature",
        ),
        (
            rail("x-jws = \"{computed.jws}\"", "jws = { jws = { key = \"hmac\", header = '[1]' } }"),
            "computed.jws.header: expected a JSON object",
        ),
        (
            rail(
                "x-jws = \"{computed.jws}\"",
                r#"jws = { jws = { key = "nobody", header = '{ "alg": "RS256" }' } }"#,
            ),
            "computed.jws.key is \"nobody\"",
        ),
    ] {
        let found = refused(&file);
        assert!(found.contains(problem), "{found}, expected {problem}");
    }
    assert!(load(PLAIN).is_ok());
}
