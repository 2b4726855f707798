//! A payment as it is shown: of a payee only the last characters, of a payload nothing.

use chrono::{DateTime, Utc};
use outbox::read::{Departed, Payment};
use payment::{Destination, Money, plain};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use terminal::print::table;

#[derive(Debug, Serialize)]
pub(super) struct ShownPayment {
    outbox_id: Uuid,
    /// What has left the history has neither its names nor its rail any more.
    instruction_id: Option<String>,
    idempotency_key: Option<String>,
    participant_id: String,
    sequence_id: i64,
    rail_type: Option<String>,
    state: String,
    unsettled: bool,
    needs_review: bool,
    attempts: i32,
    created_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    amount: Option<String>,
    currency: Option<String>,
    payee: Option<String>,
    money_moved: Option<String>,
    error_code: Option<String>,
    rail_code: Option<String>,
    rail_reference: Option<String>,
    error_message: Option<String>,
    resolved: Option<String>,
    reissued_as: Option<Uuid>,
    history_gone: bool,
}

impl From<Departed> for ShownPayment {
    fn from(departed: Departed) -> Self {
        Self {
            outbox_id: departed.outbox_id,
            instruction_id: None,
            idempotency_key: None,
            participant_id: departed.participant_id,
            sequence_id: departed.sequence_id,
            rail_type: None,
            state: departed.state,
            unsettled: false,
            needs_review: false,
            attempts: departed.attempts,
            created_at: departed.created_at,
            ended_at: Some(departed.ended_at),
            amount: None,
            currency: None,
            payee: None,
            money_moved: Some(departed.money_moved),
            error_code: departed.error_code,
            rail_code: None,
            rail_reference: departed.rail_reference,
            error_message: None,
            resolved: departed.resolved,
            reissued_as: departed.reissued_as,
            history_gone: true,
        }
    }
}

impl From<Payment> for ShownPayment {
    fn from(payment: Payment) -> Self {
        let payee = destination(payment.payload.as_ref(), payment.payee.as_deref());
        Self {
            payee: payment.payee.map(|text| payee.masked_in(&text)),
            error_message: payment.error_message.map(|text| payee.masked_in(&text)),
            outbox_id: payment.outbox_id,
            instruction_id: Some(payment.instruction_id),
            idempotency_key: Some(payment.idempotency_key),
            participant_id: payment.participant_id,
            sequence_id: payment.sequence_id,
            rail_type: Some(payment.rail_type),
            state: payment.state,
            unsettled: payment.unsettled,
            needs_review: payment.needs_review,
            attempts: payment.attempts,
            created_at: payment.created_at,
            ended_at: payment.ended_at,
            amount: payment.amount,
            currency: payment.currency,
            money_moved: payment.money_moved,
            error_code: payment.error_code,
            rail_code: payment.rail_code,
            rail_reference: payment.rail_reference,
            resolved: payment.resolved,
            reissued_as: payment.reissued_as,
            history_gone: false,
        }
    }
}

/// Everything by which a payload or the database names the payee, to be masked.
pub(super) fn destination(payload: Option<&Value>, payee: Option<&str>) -> Destination {
    let mut destination = Destination { plain: payee.map(str::to_owned), fields: Vec::new() };
    match payload.and_then(|payload| payload.get("destination")) {
        Some(Value::String(text)) => destination.fields.push((String::new(), text.clone())),
        Some(Value::Object(parts)) => {
            destination.fields.extend(parts.iter().map(|(name, value)| match value {
                Value::String(text) => (name.clone(), text.clone()),
                other => (name.clone(), other.to_string()),
            }))
        }
        _ => {}
    }
    destination
}

/// What a payment is about, if its payload says it soundly.
pub(super) fn money(payment: &Payment) -> Option<Money> {
    let text = |text: &Option<String>| text.clone().map(Value::String);
    Money::read(text(&payment.amount).as_ref(), text(&payment.currency).as_ref()).ok()
}

pub(super) fn as_table(payments: &[ShownPayment]) -> String {
    let headings = [
        "payment",
        "instruction",
        "participant",
        "rail",
        "state",
        "amount",
        "",
        "payee",
        "code",
        "accepted (UTC)",
    ];
    let rows: Vec<_> = payments
        .iter()
        .map(|payment| {
            let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
            let state = match (payment.needs_review, payment.unsettled, payment.history_gone) {
                (true, ..) => format!("{}, review", payment.state),
                (false, true, _) => format!("{}, unsettled", payment.state),
                (false, false, true) => format!("{}, history gone", payment.state),
                (false, false, false) => payment.state.clone(),
            };
            vec![
                payment.outbox_id.to_string(),
                or_empty(&payment.instruction_id),
                payment.participant_id.clone(),
                or_empty(&payment.rail_type),
                state,
                or_empty(&payment.amount),
                or_empty(&payment.currency),
                or_empty(&payment.payee),
                or_empty(&payment.rail_code.clone().or_else(|| payment.error_code.clone())),
                payment.created_at.format("%F %T").to_string(),
            ]
        })
        .collect();
    table(&headings, &rows)
}

/// RFC 4180, with a header. A cell that a spreadsheet would take for a formula begins with an apostrophe.
pub(super) fn as_csv(payments: &[ShownPayment]) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(CSV_COLUMNS)?;
    for payment in payments {
        let Value::Object(mut cells) = serde_json::to_value(payment)? else { continue };
        writer.write_record(CSV_COLUMNS.map(|column| match cells.remove(column) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => safe_cell(&text),
            Some(other) => other.to_string(),
        }))?;
    }
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

const CSV_COLUMNS: [&str; 23] = [
    "outbox_id",
    "instruction_id",
    "idempotency_key",
    "participant_id",
    "sequence_id",
    "rail_type",
    "state",
    "unsettled",
    "needs_review",
    "attempts",
    "created_at",
    "ended_at",
    "amount",
    "currency",
    "payee",
    "money_moved",
    "error_code",
    "rail_code",
    "rail_reference",
    "error_message",
    "resolved",
    "reissued_as",
    "history_gone",
];

fn safe_cell(text: &str) -> String {
    let text = plain(text);
    match text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        true => format!("'{text}"),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payment() -> Payment {
        Payment {
            outbox_id: Uuid::nil(),
            instruction_id: "=HYPERLINK(\"http://x\")".to_owned(),
            idempotency_key: "a, \"b\"".to_owned(),
            participant_id: "acme".to_owned(),
            sequence_id: 1,
            rail_type: "mtn".to_owned(),
            state: "FAILED".to_owned(),
            unsettled: false,
            attempts: 1,
            created_at: DateTime::UNIX_EPOCH,
            ended_at: None,
            money_moved: None,
            error_code: None,
            rail_code: None,
            rail_reference: Some("\u{1b}[2Jref".to_owned()),
            error_message: Some("260961234567 is barred".to_owned()),
            payload: Some(json!({ "destination": { "msisdn": "260961234567" } })),
            amount: Some("0.10".to_owned()),
            currency: Some("ZMW".to_owned()),
            payee: Some("260961234567".to_owned()),
            resolved: None,
            reissued_as: None,
            needs_review: true,
        }
    }

    #[test]
    fn a_payee_is_masked_wherever_it_stands() {
        let shown = serde_json::to_string(&ShownPayment::from(payment())).expect("JSON");
        assert!(!shown.contains("260961234567") && shown.contains("***567 is barred"), "{shown}");
    }

    #[test]
    fn csv_is_quoted_and_no_cell_is_a_formula() {
        let csv = as_csv(&[payment().into()]).expect("written");
        let csv = String::from_utf8(csv).expect("UTF-8");
        let (header, row) = csv.split_once("\r\n").expect("two lines");
        assert_eq!(header, CSV_COLUMNS.join(","));
        assert!(row.contains(r#""'=HYPERLINK(""http://x"")","a, ""b""",acme,1,mtn"#), "{row}");
        assert!(row.contains(",0.10,ZMW,***567,") && row.contains(",\u{fffd}[2Jref,"), "{row}");
    }

    #[test]
    fn the_csv_has_every_field() {
        let Value::Object(fields) = serde_json::to_value(ShownPayment::from(payment())).expect("JSON") else {
            panic!("it is an object")
        };
        let mut columns = CSV_COLUMNS.to_vec();
        columns.sort_unstable();
        let mut names: Vec<_> = fields.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(columns, names);
    }
}
