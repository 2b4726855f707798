//! The one step of a mock: what its adapter returned becomes the reply. Reader, code table and veto treat it like any other.

use std::time::Duration;

use form::{FormFile, Operation, Step};
use serde::Deserialize;
use serde_json::{Map, Value};

use payment::{Instruction, KeyForm};

use super::gate::{CallLog, HttpReply};

/// The form of a mock whose file has no steps of its own: what its script says becomes a JSON object, and is read as one.
const FORM: &str = r#"
[disburse]
steps = ["pay"]

[query-status]
steps = ["ask"]

[steps.pay]
class = "money"
reply.any = { facts.status.one = "/status", facts.code.one = "/code", reference.one = "/reference" }

[steps.ask]
class = "read"
reply.any = { facts.status.one = "/status", facts.code.one = "/code", reference.one = "/reference" }

[variables]
status = { purpose = "what the rail says", field = { values = ["settled", "pending", "declined", "unclear", "not-found"], optional = true } }
code = { purpose = "the rail's code", field = { chars = "ascii", max = 64, optional = true } }
read = { purpose = "what the adapter reads instead", field = { values = ["settled", "declined", "nothing"], optional = true } }
http = { purpose = "the reply's status, 200 where it is left out", field = { chars = "digits", min = 3, max = 3, optional = true } }
wait_ms = { purpose = "how long the reply takes", field = { chars = "digits", max = 6, optional = true } }
fault = { purpose = "what happens instead of a reply", field = { values = ["silence", "unreachable"], optional = true } }

[codes]
version = 1
precedence = ["code", "status"]
rows = [
  { field = "status", code = "settled", class = "success" },
  { field = "status", code = "pending", class = "pending" },
  { field = "status", code = "unclear", class = "unknown" },
  { field = "status", code = "declined", class = "terminal-review" },
  { operation = "query-status", field = "status", code = "not-found", class = "not-found" },
]
"#;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sections {
    disburse: form::file::OperationFile,
    query_status: form::file::OperationFile,
    steps: std::collections::BTreeMap<String, form::file::StepFile>,
    variables: std::collections::BTreeMap<String, form::file::VariableFile>,
    codes: form::CodeTable,
}

/// Adds what every mock has to a file that does not say it otherwise: codes of its own table come besides.
pub(super) fn complete(file: &mut FormFile, can_be_asked: bool) -> Result<(), String> {
    if !file.is_mock || !file.steps.is_empty() {
        return match can_be_asked {
            true => Ok(()),
            false => Err("status_query is false, expected no [query-status] instead".to_owned()),
        };
    }
    let Sections { disburse, query_status, steps, variables, codes } =
        toml::from_str(FORM).map_err(|error| error.to_string())?;
    (file.disburse, file.query_status, file.steps, file.variables) =
        (disburse, query_status, steps, variables);
    file.codes.precedence = codes.precedence;
    file.codes.reasons.get_or_insert_default();
    file.codes.rows.extend(codes.rows);
    if !can_be_asked {
        file.steps.retain(|name, _| !file.query_status.steps.contains(name));
        file.codes.rows.retain(|row| row.operation != Operation::QueryStatus);
        file.query_status.steps.clear();
    }
    Ok(())
}

/// Values that say how the reply comes, and are no part of it.
const CONTROL: [&str; 3] = ["http", "wait_ms", "fault"];
/// Characters of the key in the reference that a mock gives to a payment.
const REFERENCE_CHARS: usize = 16;

/// Waits as long as the values say, and answers with the rest of them. An error says why there is no reply.
pub(super) async fn play(
    call_log: &mut CallLog,
    step: &Step,
    values: &[(String, String)],
    payment: &Instruction,
) -> Result<HttpReply, String> {
    let value =
        |wanted: &str| values.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    if let Some(ms) = value("wait_ms").and_then(|ms| ms.parse().ok()) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    let fault = value("fault");
    if fault == Some("unreachable") {
        return Err("not sent by the script".to_owned());
    }
    let status = value("http").and_then(|status| status.parse().ok()).unwrap_or(200);
    let answered = fault.is_none().then_some(status);
    call_log.play(&step.name, step.class, answered).map_err(|denied| denied.why)?;
    if fault.is_some() {
        return Err("no reply by the script".to_owned());
    }
    let mut body: Map<String, Value> = values
        .iter()
        .filter(|(name, _)| !CONTROL.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone().into()))
        .collect();
    let key = payment.key.form(KeyForm::Hex);
    body.insert("reference".to_owned(), format!("mock-{}", &key[..REFERENCE_CHARS]).into());
    Ok(HttpReply { status, headers: Vec::new(), body: Value::Object(body).to_string().into() })
}
