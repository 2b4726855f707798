use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use railhost::outbox::enqueue::NewPayment;
use serde_json::{Map, Value};

use crate::cli::BadArgument;

/// One record of the file and the number of the line it begins on.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) payment: Result<NewPayment, String>,
}

/// The records of a file, in order, good or bad.
#[derive(Debug)]
pub(super) enum Lines {
    Csv { reader: Box<csv::Reader<File>>, columns: Vec<String> },
    Json { reader: BufReader<File>, number: u64, bytes: u64 },
}

const IDENTIFIERS: [&str; 3] = ["instruction_id", "participant_id", "rail_type"];
const KEY: &str = "idempotency_key";
const PAYLOAD: &str = "payload";

impl Lines {
    /// By the ending of the name; a CSV file must have the columns that no payment can do without.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path)?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => {
                let mut reader =
                    Box::new(csv::ReaderBuilder::new().trim(csv::Trim::Fields).from_reader(file));
                let columns: Vec<String> =
                    reader.headers()?.iter().map(|name| name.trim().to_owned()).collect();
                for wanted in IDENTIFIERS {
                    if !columns.iter().any(|column| column == wanted) {
                        let shown = path.display();
                        return Err(BadArgument(format!(
                            "{shown}:1: there is no column {wanted}, found: {}",
                            columns.join(", ")
                        ))
                        .into());
                    }
                }
                Ok(Self::Csv { reader, columns })
            }
            Some("jsonl" | "ndjson") => Ok(Self::Json { reader: BufReader::new(file), number: 0, bytes: 0 }),
            _ => Err(BadArgument(format!("{}: expected a name that ends in .csv or .jsonl", path.display()))
                .into()),
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        match self {
            Self::Csv { reader, .. } => reader.position().byte(),
            Self::Json { bytes, .. } => *bytes,
        }
    }
}

impl Iterator for Lines {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        match self {
            Self::Csv { reader, columns } => {
                let mut record = csv::StringRecord::new();
                let number = reader.position().line();
                match reader.read_record(&mut record) {
                    Ok(false) => None,
                    Ok(true) => {
                        let number = record.position().map_or(number, csv::Position::line);
                        Some(Line { number, payment: from_csv(columns, &record) })
                    }
                    Err(error) => {
                        let number = error.position().map_or(number, csv::Position::line);
                        Some(Line { number, payment: Err(error.to_string()) })
                    }
                }
            }
            Self::Json { reader, number, bytes } => loop {
                let mut text = Vec::new();
                *number += 1;
                match reader.read_until(b'\n', &mut text) {
                    Ok(0) => return None,
                    Ok(count) => *bytes += count as u64,
                    Err(error) => return Some(Line { number: *number, payment: Err(error.to_string()) }),
                }
                if !text.trim_ascii().is_empty() {
                    return Some(Line { number: *number, payment: from_json(&text) });
                }
            },
        }
    }
}

fn from_csv(columns: &[String], record: &csv::StringRecord) -> Result<NewPayment, String> {
    let mut fields: Map<String, Value> = columns
        .iter()
        .zip(record)
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.clone(), Value::String(value.to_owned())))
        .collect();
    let mut payload = Map::new();
    if let Some(Value::String(text)) = fields.get(PAYLOAD) {
        let parsed = serde_json::from_str(text).map_err(|error| format!("payload is no JSON: {error}"))?;
        fields.insert(PAYLOAD.to_owned(), parsed);
    } else {
        // Amounts stay the text they were written as: no number on the way could round them.
        for name in columns.iter().filter(|name| !IDENTIFIERS.contains(&name.as_str()) && *name != KEY) {
            if let Some(value) = fields.remove(name) {
                payload.insert(name.clone(), value);
            }
        }
        fields.insert(PAYLOAD.to_owned(), Value::Object(payload));
    }
    payment(fields)
}

fn from_json(text: &[u8]) -> Result<NewPayment, String> {
    match serde_json::from_slice(text) {
        Ok(Value::Object(fields)) => payment(fields),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(format!("no JSON: {error}")),
    }
}

fn payment(mut fields: Map<String, Value>) -> Result<NewPayment, String> {
    if !fields.contains_key(KEY)
        && let Some(instruction) = fields.get("instruction_id").cloned()
    {
        fields.insert(KEY.to_owned(), instruction);
    }
    let payment: NewPayment =
        serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
    if !payment.payload.is_object() {
        return Err("payload must be a JSON object".to_owned());
    }
    Ok(payment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_columns_become_fields_of_the_payload_as_written() {
        let columns: Vec<String> = ["instruction_id", "participant_id", "rail_type", "amount"]
            .map(str::to_owned)
            .into_iter()
            .collect();
        let record = csv::StringRecord::from(vec!["i1", "p1", "mock", "10.10"]);
        let payment = from_csv(&columns, &record).expect("a good line");
        assert_eq!(payment.idempotency_key, "i1");
        assert_eq!(*payment.payload, serde_json::json!({ "amount": "10.10" }));
    }

    #[test]
    fn a_number_in_a_json_line_keeps_its_digits() {
        let line =
            br#"{"instruction_id":"i","participant_id":"p","rail_type":"mock","payload":{"amount":10.10}}"#;
        let payment = from_json(line).expect("a good line");
        assert_eq!(payment.payload.to_string(), r#"{"amount":10.10}"#);
    }

    #[test]
    fn an_unknown_field_of_a_json_line_is_an_error() {
        let line = br#"{"instruction_id":"i","participant_id":"p","rail":"mock","payload":{}}"#;
        assert!(from_json(line).expect_err("rail is no field").contains("rail"));
    }
}
