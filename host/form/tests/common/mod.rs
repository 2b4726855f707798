//! A rail file of a few lines, and payments for it.
#![allow(dead_code, reason = "each test target uses a part of it")]

use std::collections::BTreeMap;

use form::callback_file::CallbackFile;
use form::field::FieldFile;
use form::file::{AmountFile, Computed, DestinationFile, OperationFile, PayloadFile, StepFile, VariableFile};
use form::float::FloatFile;
use form::hours::HoursFile;
use form::{CodeTable, FillError, FilledRequest, Form, FormFile, Input, Operation, Reading, Reply, Shown};
use payment::{Instruction, PaymentIds};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
#[derive(Default)]
struct Sections {
    base: Option<String>,
    currencies: Vec<String>,
    amount: AmountFile,
    destination: DestinationFile,
    narrative: Option<FieldFile>,
    payload: BTreeMap<String, PayloadFile>,
    settings: BTreeMap<String, String>,
    variables: BTreeMap<String, VariableFile>,
    tables: BTreeMap<String, BTreeMap<String, String>>,
    computed: BTreeMap<String, Computed>,
    steps: BTreeMap<String, StepFile>,
    disburse: OperationFile,
    query_status: OperationFile,
    codes: CodeTable,
    secrets: Vec<String>,
    keys: Vec<String>,
    tokens: BTreeMap<String, String>,
    fetched: BTreeMap<String, String>,
    hours: Option<HoursFile>,
    float: BTreeMap<String, FloatFile>,
    callback: Option<CallbackFile>,
}

pub(crate) fn load(toml: &str) -> Result<Form, String> {
    let s: Sections = toml::from_str(toml).map_err(|error| error.to_string())?;
    Form::load(&FormFile {
        is_mock: false,
        base: s.base,
        utc_offset: None,
        currencies: s.currencies,
        amount: s.amount,
        destination: s.destination,
        narrative: s.narrative,
        payload: s.payload,
        settings: s.settings,
        variables: s.variables,
        tables: s.tables,
        computed: s.computed,
        steps: s.steps,
        disburse: s.disburse,
        query_status: s.query_status,
        codes: s.codes,
        secrets: s.secrets,
        keys: s.keys,
        tokens: s.tokens,
        fetched: s.fetched,
        hours: s.hours,
        float: s.float,
        callback: s.callback,
    })
}

/// A rail with one request to pay and one to ask.
pub(crate) const PLAIN: &str = r#"
base = "https://rail.example/api"
currencies = ["ZMW"]
secrets = ["api_key"]
keys = ["hmac"]

[destination]
plain = "msisdn"
unused = ["tier"]
[destination.parts]
msisdn = { kind = "msisdn", country = "260" }

[narrative]
chars = "text"
max = 40

[disburse]
steps = ["pay"]

[steps.pay]
class = "money"
request = "POST {base}/payments"
headers = { x-reference-id = "{key:uuid}" }
json = '''{ "amount": "{amount:decimal}", "to": "{destination.msisdn}", "note": "{narrative?}" }'''
reply.any = { facts.status.one = "/status", reference.one = "/id" }

[query-status]
steps = ["ask"]

[steps.ask]
class = "read"
request = "GET {base}/payments/{key:uuid}"
reply.any = { facts.status.one = "/status", reference.one = "/id" }

[codes]
version = 1
rows = [
  { field = "status", code = "PAID", class = "success" },
  { field = "status", code = "OPEN", class = "pending" },
  { field = "status", code = "NO", class = "terminal" },
]
"#;

/// The plain rail with one of its lines replaced.
pub(crate) fn with(from: &str, to: &str) -> String {
    assert!(PLAIN.contains(from), "the plain rail has no {from}");
    PLAIN.replacen(from, to, 1)
}

/// Why a rail file is refused.
pub(crate) fn refused(toml: &str) -> String {
    load(toml).expect_err("it should not load")
}

pub(crate) fn payment(payload: Value) -> Instruction {
    let ids = PaymentIds {
        outbox_id: Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001),
        instruction_id: "i".into(),
        participant_id: "p".into(),
        sequence_id: 1,
    };
    Instruction::read(ids, &payload.to_string(), 1).expect("a payment")
}

/// The payment's key in its UUID form.
pub(crate) const KEY: &str = "11e594f4-8195-4c10-a301-5d0bf0447a22";

pub(crate) fn fill(
    form: &Form,
    step: &str,
    payment: &Instruction,
    values: &[(&str, &str)],
) -> Result<FilledRequest, FillError> {
    let values: Vec<(String, String)> =
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let captured = BTreeMap::from([("transfer".to_owned(), "T-1".to_owned())]);
    let now = "2026-01-15T09:30:00Z".parse().expect("a time");
    let input =
        Input { payment, values: &values, captured: &captured, secrets: &Shown, challenge: None, now };
    form.fill(form.step(step).expect("a step"), &input)
}

pub(crate) fn read(form: &Form, step: &str, operation: Operation, status: u16, body: &str) -> Reading {
    let payment =
        payment(serde_json::json!({ "amount": "10.50", "currency": "ZMW", "destination": "260961234567" }));
    let reply = Reply { status, headers: &[], body: body.as_bytes() };
    form.read(form.step(step).expect("a step"), operation, &reply, &payment)
}
