//! What we send to a bank and what its simulator sends back, judged by the published schemas: pain.001.001.09 and
//! pain.002.001.12. `tests/xsd` holds the judge; the schemas and its validator are fetched with pinned checksums, once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use form::Operation;
use harness::rail_run::{payment, set, table};
use rail_simulators::{Name, SimulatorOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::straight::Straight;

const RAIL: Name = Name::Bank;
/// What the judge answers when schemas or validator cannot be had.
const NOT_HAD: i32 = 3;

/// What the schemas refuse, a line each; none where all of it is valid. A judge that cannot be had is a failure, said aloud.
fn refused(messages: &[String]) -> Vec<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    for (n, message) in messages.iter().enumerate() {
        fs::write(folder.path().join(format!("{n:03}.xml")), message).expect("written");
    }
    let judge = Command::new("python3")
        .arg(tests.join("xsd/judge.py"))
        .arg(tests.join("../target/tools/xsd"))
        .arg(folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output();
    let (code, said) = match &judge {
        Ok(judged) => (
            judged.status.code().unwrap_or(NOT_HAD),
            format!("{}{}", String::from_utf8_lossy(&judged.stdout), String::from_utf8_lossy(&judged.stderr)),
        ),
        Err(error) => (NOT_HAD, format!("python3: {error}")),
    };
    match code {
        0 => Vec::new(),
        1 if !said.trim().is_empty() => said.lines().map(ToOwned::to_owned).collect(),
        _ => {
            println!("NOT RUN: XSD: {}", said.trim());
            panic!("NOT RUN: XSD: the schemas or their validator cannot be had: {}", said.trim());
        }
    }
}

async fn recording(change: impl FnOnce(&mut toml::Table)) -> Straight {
    Straight::with(SimulatorOptions { record: true, ..SimulatorOptions::new(RAIL) }, change).await
}

/// The messages in which a bank was asked to pay.
fn sent(straight: &Straight) -> Vec<String> {
    let requests = straight.simulator.recorded().into_iter().map(|said| said.request);
    requests.filter(|request| request.contains("CstmrCdtTrfInitn")).collect()
}

/// The reports of the simulator, each kind once but for its ids.
fn reports(straight: &Straight) -> Vec<String> {
    let replies = straight.simulator.recorded().into_iter().filter_map(|said| said.reply);
    replies.filter(|reply| reply.contains("CstmrPmtStsRpt")).collect()
}

/// Every optional part and none, names and notes at both ends of their lengths, and characters that XML has its own use for.
fn payments() -> Vec<Value> {
    let pay = |amount: &str, currency: &str, destination: Value, narrative: Option<&str>| {
        let mut paid = json!({ "amount": amount, "currency": currency, "destination": destination });
        if let Some(narrative) = narrative {
            paid["narrative"] = narrative.into();
        }
        paid
    };
    let by_bic =
        |name: &str| json!({ "account": "DE02120300000000202051", "bic": "BYLADEM1001", "name": name });
    let by_code = |code: &str| json!({ "account": "9", "bank_code": code, "name": "Payee" });
    let (long, wide) = ("x".repeat(140), "株".repeat(140));
    vec![
        payment(RAIL, "5.00"),
        pay("0.01", "ZMW", by_bic("O'Neill & Söhne <final> \"x\""), Some("]]> <!-- no --> &amp; <a b='c'/>")),
        pay("0.001", "KWD", by_bic("ناصر الصباح"), Some("فاتورة ٧")),
        pay("1", "JPY", by_bic("株式会社テスト"), Some("")),
        pay("9999999999999999", "JPY", by_bic(&wide), Some(&long)),
        pay("123456789012345.678", "KWD", by_bic(&long), Some(&wide)),
        pay("10.50", "ZMW", by_code(&"A".repeat(35)), Some(".")),
        pay("10.50", "ZMW", json!({ "account": "A".repeat(34), "bic": "AAAAZMLX", "name": "N" }), None),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_to_a_bank_is_one_that_its_schema_takes() {
    let mut messages = Vec::new();
    for charges in ["DEBT", "CRED", "SHAR", "SLEV", ""] {
        let straight = recording(|file| {
            file.insert("currencies".to_owned(), vec!["ZMW", "KWD", "JPY"].into());
            set(file, "settings", "debtor_name", "Us & <them> \"Ltd\"");
            let settings = file["settings"].as_table_mut().expect("settings");
            match charges {
                "" => settings.remove("charges"),
                charges => settings.insert("charges".to_owned(), charges.into()),
            };
        })
        .await;
        for paid in payments() {
            assert_eq!(straight.pay(Uuid::new_v4(), &paid).await, "settled ACSC", "{paid}");
        }
        messages.extend(sent(&straight));
    }
    assert_eq!(messages.len(), 5 * payments().len());
    assert_eq!(refused(&messages), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_report_of_the_simulated_bank_is_one_that_its_schema_takes() {
    let statuses = table(RAIL).rows.into_iter().filter(|row| {
        row.operation == Operation::QueryStatus && row.field.ends_with("_status") && row.code != "*"
    });
    let statuses: BTreeSet<_> = statuses.map(|row| row.code).collect();
    let says = statuses.iter().map(|status| format!("then says {status}"));
    let forms = [
        "failed",
        "failed-privately",
        "failed-as-payment",
        "failed-as-group",
        "failed-of-another",
        "failed-beside-duplicate",
        "failed-contradicted",
    ];
    let failed = forms.iter().map(|form| format!("then {form} AC04"));
    let others = ["then settled", "then pending", "then says BLCK", "then failed-privately A&B<C"];
    let others = others.map(ToOwned::to_owned);
    let straight = recording(|_| {}).await;
    let plans: Vec<_> = says.chain(failed).chain(others).collect();
    for plan in &plans {
        straight.simulator.follow(&format!("otherwise: {plan}")).expect("it is sound");
        let (id, paid) = (Uuid::new_v4(), payment(RAIL, "5.00"));
        straight.pay(id, &paid).await;
        assert_eq!(straight.pay(id, &paid).await, "pending DU01", "{plan}: a duplicate is told too");
        straight.ask(id, &paid).await;
    }
    let reports = reports(&straight);
    assert_eq!(reports.len(), 3 * plans.len(), "{reports:#?}");
    assert_eq!(refused(&reports), [""; 0]);
}

#[test]
fn a_message_that_its_schema_does_not_take_is_refused_by_the_judge() {
    let report = |inside: &str| {
        format!(
            r#"<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.12"><CstmrPmtStsRpt><GrpHdr><MsgId>m</MsgId><CreDtTm>2026-01-15T09:30:05Z</CreDtTm></GrpHdr>{inside}</CstmrPmtStsRpt></Document>"#
        )
    };
    let group = |status: &str| {
        format!(
            "<OrgnlGrpInfAndSts><OrgnlMsgId>m</OrgnlMsgId><OrgnlMsgNmId>pain.001.001.09</OrgnlMsgNmId>{status}</OrgnlGrpInfAndSts>"
        )
    };
    let fine = report(&group("<GrpSts>RJCT</GrpSts>"));
    assert_eq!(refused(&[fine]), [""; 0]);
    for wrong in [
        report(""),
        report(&group("<GrpSts>REJECTED</GrpSts>")),
        report(&(group("") + "<TxInfAndSts></TxInfAndSts>")),
        report(&group("")).replace("pain.002.001.12", "pain.002.001.99"),
        "<Document".to_owned(),
    ] {
        assert_eq!(refused(std::slice::from_ref(&wrong)).len(), 1, "{wrong}");
    }
}
