use std::collections::BTreeMap;
use std::io::{self, BufRead};

use anyhow::Context;
use outbox::enqueue::{NewPayment, identifier_problem};
use serde_json::{Map, Value};

use super::csv::{self, CsvRecord};
use super::format::Format;
use super::physical::PhysicalLines;
use crate::cli::strict_json;
use terminal::BadArgument;

/// One record of the file and the number of the line it begins on.
#[derive(Debug)]
pub(super) struct ImportLine {
    pub number: u64,
    pub payment: Result<NewPayment, String>,
}

/// The records of a file, in order, good or bad.
pub(super) struct Lines {
    lines: PhysicalLines,
    /// Of a CSV file.
    columns: Option<Vec<String>>,
}

const IDENTIFIERS: [&str; 3] = ["instruction_id", "participant_id", "rail_type"];
const KEY: &str = "idempotency_key";
const PAYLOAD: &str = "payload";

impl Lines {
    /// A CSV file must have the columns that no payment can do without, and none twice.
    pub(super) fn open(reader: Box<dyn BufRead + Send>, format: Format, shown: &str) -> anyhow::Result<Self> {
        let mut lines = PhysicalLines::new(reader);
        let columns = match format {
            Format::Jsonl => None,
            Format::Csv => Some(header(&mut lines, shown)?),
        };
        Ok(Self { lines, columns })
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }

    fn read(&mut self) -> io::Result<Option<ImportLine>> {
        if let Some(columns) = &self.columns {
            let record = csv::next_record(&mut self.lines)?;
            return Ok(
                record.map(|record| ImportLine { number: record.line, payment: from_csv(columns, record) })
            );
        }
        while let Some(line) = self.lines.next()? {
            let payment = match line.text() {
                Ok(text) if text.trim_ascii().is_empty() => continue,
                Ok(text) => from_json(text),
                Err(problem) => Err(problem),
            };
            return Ok(Some(ImportLine { number: line.number, payment }));
        }
        Ok(None)
    }
}

impl Iterator for Lines {
    type Item = io::Result<ImportLine>;

    fn next(&mut self) -> Option<io::Result<ImportLine>> {
        self.read().transpose()
    }
}

fn header(lines: &mut PhysicalLines, shown: &str) -> anyhow::Result<Vec<String>> {
    let read = csv::next_record(lines).with_context(|| format!("cannot read {shown}"))?;
    let Some(record) = read else {
        return Err(BadArgument(format!("{shown}: the file is empty, expected a header")).into());
    };
    let at = |problem: String| BadArgument(format!("{shown}:{}: {problem}", record.line));
    let columns = record.cells.clone().map_err(at)?;
    match column_problem(&columns) {
        Some(problem) => Err(at(problem).into()),
        None => Ok(columns),
    }
}

fn column_problem(columns: &[String]) -> Option<String> {
    let mut seen = BTreeMap::new();
    for (place, name) in columns.iter().enumerate().map(|(place, name)| (place + 1, name)) {
        if let Some(problem) = identifier_problem(name) {
            return Some(format!("the name of column {place}, {name:?}, {problem}"));
        }
        if let Some(first) = seen.insert(name, place) {
            return Some(format!("column {name} appears twice, as columns {first} and {place}"));
        }
    }
    if let Some(missing) = IDENTIFIERS.iter().find(|wanted| !columns.iter().any(|name| name == *wanted)) {
        return Some(format!("there is no column {missing}, found: {}", columns.join(", ")));
    }
    let other = columns.iter().find(|name| !is_of_payment(name));
    match (columns.iter().any(|name| name == PAYLOAD), other) {
        (true, Some(other)) => {
            Some(format!("column {other} stands beside a column payload, which holds the whole payload"))
        }
        _ => None,
    }
}

/// A column that is no field of the payload.
fn is_of_payment(name: &str) -> bool {
    IDENTIFIERS.contains(&name) || name == KEY || name == PAYLOAD
}

fn from_csv(columns: &[String], record: CsvRecord) -> Result<NewPayment, String> {
    let cells = record.cells?;
    if cells.len() != columns.len() {
        let lines = match record.last_line == record.line {
            true => String::new(),
            false => format!("; a quoted cell goes on until line {}", record.last_line),
        };
        return Err(format!("has {} fields, the header has {}{lines}", cells.len(), columns.len()));
    }
    let mut fields = Map::new();
    let mut payload = Map::new();
    let mut whole_payload = None;
    // An empty cell is a field that is not there. Amounts stay the text they were written as: no number could round them.
    for (name, cell) in columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        if name == PAYLOAD {
            whole_payload = Some(strict_json::read(&cell).map_err(|problem| format!("payload: {problem}"))?);
        } else if is_of_payment(name) {
            fields.insert(name.clone(), Value::String(cell));
        } else {
            payload.insert(name.clone(), Value::String(cell));
        }
    }
    fields.insert(PAYLOAD.to_owned(), whole_payload.unwrap_or(Value::Object(payload)));
    payment(fields)
}

fn from_json(text: &str) -> Result<NewPayment, String> {
    match strict_json::read(text) {
        Ok(Value::Object(fields)) => payment(fields),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(problem) => Err(problem),
    }
}

fn payment(mut fields: Map<String, Value>) -> Result<NewPayment, String> {
    if !fields.contains_key(KEY)
        && let Some(instruction) = fields.get(IDENTIFIERS[0]).cloned()
    {
        fields.insert(KEY.to_owned(), instruction);
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: Format, file: &str) -> Vec<ImportLine> {
        let reader = Box::new(io::Cursor::new(file.to_owned().into_bytes()));
        let lines = Lines::open(reader, format, "file").expect("a good header");
        lines.collect::<io::Result<_>>().expect("read")
    }

    fn refused(file: &str) -> String {
        let reader = Box::new(io::Cursor::new(file.to_owned().into_bytes()));
        Lines::open(reader, Format::Csv, "file").err().expect("a bad header").to_string()
    }

    #[test]
    fn csv_columns_become_fields_of_the_payload_as_written() {
        let lines = read(
            Format::Csv,
            "instruction_id,participant_id,rail_type,amount,narrative\ni1,p1,mock,10.10,\" a \"\ni2 ,p1,mock,1,\n",
        );
        let payment = lines[0].payment.as_ref().expect("a good line");
        assert_eq!(payment.idempotency_key, "i1");
        assert_eq!(*payment.payload, serde_json::json!({ "amount": "10.10", "narrative": " a " }));
        let untrimmed = lines[1].payment.as_ref().expect("it is read");
        assert_eq!(untrimmed.instruction_id, "i2 ");
        assert_eq!(*untrimmed.payload, serde_json::json!({ "amount": "1" }));
    }

    #[test]
    fn a_number_in_a_json_line_keeps_its_digits() {
        let line =
            r#"{"instruction_id":"i","participant_id":"p","rail_type":"mock","payload":{"amount":10.10}}"#;
        let lines = read(Format::Jsonl, &format!("\n{line}\n"));
        assert_eq!(lines[0].number, 2);
        let payment = lines[0].payment.as_ref().expect("a good line");
        assert_eq!(payment.payload.to_string(), r#"{"amount":10.10}"#);
    }

    #[test]
    fn an_unknown_field_of_a_json_line_is_an_error() {
        let line = r#"{"instruction_id":"i","participant_id":"p","rail":"mock","payload":{}}"#;
        assert!(from_json(line).expect_err("there is no field rail").contains("rail"));
    }

    #[test]
    fn a_member_or_a_column_that_stands_twice_is_refused_by_name() {
        let base = "instruction_id,participant_id,rail_type";
        assert_eq!(
            refused(&format!("{base},amount,currency,amount\n")),
            "file:1: column amount appears twice, as columns 4 and 6"
        );
        assert!(refused(&format!("{base}, amount\n")).contains("white space"));
        assert!(refused(&format!("{base},payload,amount\n")).contains("column amount stands beside"));
        assert!(refused("instruction_id,participant_id\n").contains("there is no column rail_type"));
        let lines = read(Format::Csv, &format!("{base},payload\ni,p,mock,\"{{\"\"a\"\":1,\"\"a\"\":2}}\"\n"));
        assert_eq!(
            lines[0].payment.as_ref().expect_err("a member twice"),
            "payload: member \"a\" appears twice"
        );
        let line = r#"{"instruction_id":"i","participant_id":"p","rail_type":"mock","payload":{"to":{"x":1,"x":2}}}"#;
        assert_eq!(from_json(line).expect_err("a member twice"), "member \"x\" of payload.to appears twice");
    }
}
