//! A rail's codes as data: what each of them means, by operation, HTTP status and field. Nothing is matched by parts of a
//! word, and what is not listed means nothing.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::call::Code;

/// What a code means for the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    Success,
    Pending,
    Unknown,
    /// Not executed, and the key is still free.
    Retryable,
    /// Something of ours: float, credentials, configuration.
    Hold,
    /// Something of ours that gets worse with every try: a wrong PIN, a blocked account. Only a person goes on.
    Stop,
    /// The money did not move and will not.
    Terminal,
    /// The same, for a reason that a person should look at.
    TerminalReview,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    Disburse,
    QueryStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub operation: Asked,
    /// Any status where it is left out.
    pub http: Option<u16>,
    pub field: String,
    pub code: String,
    pub class: Meaning,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "CodeFile")]
pub struct CodeTable {
    /// Raised with every change, and recorded with what it decided.
    pub version: u32,
    pub rows: Vec<Row>,
}

/// The table as it is written: codes that mean the same share a line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeFile {
    version: u32,
    rows: Vec<Line>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Both where it is left out.
    operation: Option<Asked>,
    http: Option<u16>,
    field: String,
    code: Codes,
    class: Meaning,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a code, or a list of codes")]
enum Codes {
    One(String),
    Many(Vec<String>),
}

impl From<CodeFile> for CodeTable {
    fn from(file: CodeFile) -> Self {
        let mut rows = Vec::new();
        for Line { operation, http, field, code, class } in file.rows {
            let codes = match code {
                Codes::One(code) => vec![code],
                Codes::Many(codes) => codes,
            };
            let operations = operation.map_or(vec![Asked::Disburse, Asked::QueryStatus], |one| vec![one]);
            for operation in operations {
                rows.extend(codes.iter().map(|code| Row {
                    operation,
                    http,
                    field: field.clone(),
                    code: code.clone(),
                    class,
                }));
            }
        }
        Self { version: file.version, rows }
    }
}

impl CodeTable {
    /// The row for this status, or else the one for any. None: unlisted.
    pub fn meaning(&self, operation: Asked, http: Option<u16>, code: &Code) -> Option<Meaning> {
        let fits =
            |row: &&Row| row.operation == operation && row.field == code.field && row.code == code.value;
        let exact = self.rows.iter().filter(fits).find(|row| row.http.is_some() && row.http == http);
        exact.or_else(|| self.rows.iter().filter(fits).find(|row| row.http.is_none())).map(|row| row.class)
    }

    pub(super) fn problem(&self) -> Option<String> {
        let mut seen = BTreeSet::new();
        let twice =
            self.rows.iter().find(|row| !seen.insert((row.operation, row.http, &row.field, &row.code)))?;
        Some(format!(
            "codes.rows has {} {} twice for {:?}, expected one meaning",
            twice.field, twice.code, twice.operation
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &str) -> CodeTable {
        toml::from_str(&format!("version = 1\nrows = [{rows}]")).expect("TOML")
    }

    fn code(field: &str, value: &str) -> Code {
        Code { field: field.into(), value: value.into() }
    }

    #[test]
    fn a_code_means_what_its_row_says_and_nothing_without_one() {
        let table = table(
            r#"{ operation = "disburse", http = 500, field = "code", code = "BUSY", class = "retryable" },
               { operation = "disburse", field = "code", code = "BUSY", class = "unknown" }"#,
        );
        let meaning = |http, code: Code| table.meaning(Asked::Disburse, http, &code);
        assert_eq!(meaning(Some(500), code("code", "BUSY")), Some(Meaning::Retryable));
        assert_eq!(meaning(Some(503), code("code", "BUSY")), Some(Meaning::Unknown));
        assert_eq!(meaning(None, code("code", "BUSY")), Some(Meaning::Unknown));
        assert_eq!(meaning(Some(500), code("code", "BUSY_TOO")), None);
        assert_eq!(meaning(Some(500), code("status", "BUSY")), None);
        assert_eq!(table.meaning(Asked::QueryStatus, Some(500), &code("code", "BUSY")), None);
    }

    #[test]
    fn codes_that_mean_the_same_share_a_line() {
        let table = table(r#"{ field = "reason", code = ["A", "B"], class = "terminal" }"#);
        assert_eq!(table.rows.len(), 4, "two codes of two operations");
        for operation in [Asked::Disburse, Asked::QueryStatus] {
            assert_eq!(table.meaning(operation, Some(200), &code("reason", "B")), Some(Meaning::Terminal));
        }
    }

    #[test]
    fn one_code_with_two_meanings_is_refused() {
        let row = r#"{ operation = "disburse", http = 200, field = "s", code = "A", class = "success" }"#;
        assert!(table(&format!("{row}, {row}")).problem().expect("twice").contains("s A twice"));
        assert_eq!(table(row).problem(), None);
    }
}
