//! What leaves: the approved form with the payment's values in it, whatever they hold, or nothing.

mod common;

use common::{PLAIN, fill, load, payment, with};
use form::FillError;
use serde_json::{Value, json};

#[test]
fn a_payment_is_written_into_its_form() {
    let form = load(PLAIN).expect("sound");
    let paid = payment(
        json!({ "amount": "10.5", "currency": "ZMW", "destination": "+260961234567", "narrative": "a\"b\\c" }),
    );
    let request = fill(&form, "pay", &paid, &[]).expect("filled");
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/api/payments"));
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(body, json!({ "amount": "10.50", "to": "260961234567", "note": "a\"b\\c" }));
    assert!(request.headers.contains(&("x-reference-id".to_owned(), common::KEY.to_owned())));
}

#[test]
fn an_amount_is_written_in_the_rails_unit_or_not_at_all() {
    let minor = with("{amount:decimal}", "{amount:minor:number}")
        + "\n[amount]\nminor = { ZMW = 100 }\nmax = { ZMW = \"5000\" }";
    let form = load(&minor).expect("sound");
    let of =
        |amount: &str| payment(json!({ "amount": amount, "currency": "ZMW", "destination": "260961234567" }));
    let request = fill(&form, "pay", &of("10.5"), &[]).expect("filled");
    assert!(String::from_utf8_lossy(&request.body).starts_with("{\"amount\":1050,"));
    assert_eq!(form.check(&of("5000.01"))[0].field, "amount");
    let whole = load(&with("{amount:decimal}", "{amount:whole}")).expect("sound");
    assert!(whole.check(&of("7.00")).is_empty());
    assert!(
        matches!(fill(&whole, "pay", &of("7.01"), &[]), Err(FillError::Payment(violation)) if violation.field == "amount")
    );
    let number = load(&with("{amount:decimal}", "{amount:number}")).expect("sound");
    assert_eq!(number.check(&of("12345678901234.56"))[0].field, "amount", "a float would not hold it");
}

#[test]
fn a_part_of_the_payee_that_the_file_does_not_know_refuses_the_payment() {
    let form = load(PLAIN).expect("sound");
    let to = |destination: Value| {
        form.check(&payment(json!({ "amount": "1", "currency": "ZMW", "destination": destination })))
    };
    assert!(to(json!({ "msisdn": "260961234567", "tier": 2 })).is_empty(), "it is listed as unused");
    assert_eq!(to(json!({ "msisdn": "260961234567", "bank": "9" }))[0].field, "destination.bank");
    assert_eq!(to(json!({ "tier": 2 }))[0].field, "destination.msisdn");
    assert_eq!(to(json!({ "msisdn": "٢٦٠٩٦١٢٣٤٥٦٧" }))[0].field, "destination.msisdn");
}

#[test]
fn values_that_are_not_declared_or_do_not_fit_keep_the_request_from_leaving() {
    let file = with("\"note\": \"{narrative?}\"", "\"note\": \"{adapter.note}\"")
        + "\n[variables]\nnote = { purpose = \"p\", field = { chars = \"alnum\", max = 4 } }";
    let form = load(&file).expect("sound");
    let paid = payment(json!({ "amount": "1", "currency": "ZMW", "destination": "260961234567" }));
    fill(&form, "pay", &paid, &[("note", "abcd")]).expect("filled");
    for values in [
        &[][..],
        &[("note", "a b")],
        &[("note", "abcde")],
        &[("note", "a"), ("note", "a")],
        &[("note", "a"), ("to", "1")],
    ] {
        assert!(matches!(fill(&form, "pay", &paid, values), Err(FillError::Adapter(_))), "{values:?}");
    }
    let long = "x".repeat(100_000);
    let Err(FillError::Adapter(why)) = fill(&form, "pay", &paid, &[("note", "a"), (&long, "1")]) else {
        panic!("refused")
    };
    assert!(why.len() < 200, "a name that somebody chose is not shown in full");
}

#[test]
fn a_payment_goes_the_first_way_that_fits_and_all_of_its_payee_is_written() {
    let ways = with(r#"msisdn = { kind = "msisdn", country = "260" }"#, "account = { chars = \"alnum\", max = 20, optional = true }\nmsisdn = { kind = \"msisdn\", country = \"260\", optional = true }")
        .replace("plain = \"msisdn\"", "plain = \"msisdn\"\none_of = [\"account\", \"msisdn\"]")
        .replace("{destination.msisdn}\"", "{destination.msisdn?}\"")
        .replace("[steps.pay]", "[[disburse.ways]]\nwhen = { given = \"destination.account\" }\nsteps = [\"wire\"]\n\n[steps.wire]\nclass = \"money\"\nrequest = \"POST {base}/wires\"\njson = '{ \"ref\": \"{key:uuid}\", \"amount\": \"{amount:decimal}\", \"account\": \"{destination.account?}\" }'\nreply.any = { facts.status.one = \"/status\" }\n\n[steps.pay]");
    let form = load(&ways).expect("sound");
    let way = |destination: Value| {
        let paid = payment(json!({ "amount": "1", "currency": "ZMW", "destination": destination }));
        assert!(form.check(&paid).is_empty());
        form.way(&paid).expect("a way").last().map(|step| step.name.clone())
    };
    assert_eq!(way(json!("260961234567")).as_deref(), Some("pay"));
    assert_eq!(way(json!({ "account": "A1" })).as_deref(), Some("wire"));
    let both = payment(
        json!({ "amount": "1", "currency": "ZMW", "destination": { "account": "A1", "msisdn": "260961234567" } }),
    );
    assert!(!form.check(&both).is_empty());
}
