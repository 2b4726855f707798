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

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub operation: Asked,
    /// Any status where it is left out.
    pub http: Option<u16>,
    pub field: String,
    pub code: String,
    pub class: Meaning,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeTable {
    /// Raised with every change, and recorded with what it decided.
    pub version: u32,
    pub rows: Vec<Row>,
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
    fn one_code_with_two_meanings_is_refused() {
        let row = r#"{ operation = "disburse", http = 200, field = "s", code = "A", class = "success" }"#;
        assert!(table(&format!("{row}, {row}")).problem().expect("twice").contains("s A twice"));
        assert_eq!(table(row).problem(), None);
    }
}
