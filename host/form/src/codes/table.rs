//! A table of codes as it is written, and the row of one code.

use serde::Deserialize;

use super::meaning::{Code, Meaning, Operation};

/// The code of a row for any other code.
const ANY: &str = "*";

/// What one code means in replies of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The operation whose replies it is for.
    pub operation: Operation,
    /// Any status where it is left out.
    pub http: Option<u16>,
    /// Name of the fact that the code stands in, or `http`.
    pub field: String,
    /// The rail's code, compared as a whole and with its case. `*` is any code without a row of its own.
    pub code: String,
    /// What the code means for the payment.
    pub class: Meaning,
}

/// `[codes]` of a rail file: what each code of the rail means. A code without a row means nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "CodeFile")]
pub struct CodeTable {
    /// Raised with every change, and recorded with what it decided.
    pub version: u32,
    /// One for each operation, field and code; a line of the file may be several of them.
    pub rows: Vec<Row>,
    /// Which of several refusals counts: that of the first field.
    pub precedence: Vec<String>,
    /// Facts that say why and never what: without another one beside them they decide nothing.
    pub reasons: Option<Vec<String>>,
    /// Facts without which a reply is no success. Replies to steps before the payment need none.
    pub success_needs: Needs,
    /// Facts without which a reply is no refusal. Replies to steps before the payment need none.
    pub refusal_needs: Needs,
}

/// Facts without which there is no verdict of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Needs {
    /// Names of facts in the reply to the request that pays.
    pub disburse: Vec<String>,
    /// Names of facts in the reply to a question.
    pub query_status: Vec<String>,
}

impl Needs {
    pub(super) fn of(&self, operation: Operation) -> &[String] {
        match operation {
            Operation::Disburse => &self.disburse,
            Operation::QueryStatus => &self.query_status,
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &String> {
        self.disburse.iter().chain(&self.query_status)
    }
}

/// The table as it is written: codes that mean the same share a line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeFile {
    version: u32,
    rows: Vec<TableRow>,
    #[serde(default)]
    precedence: Vec<String>,
    reasons: Option<Vec<String>>,
    #[serde(default)]
    success_needs: Needs,
    #[serde(default)]
    refusal_needs: Needs,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableRow {
    /// Both where it is left out.
    operation: Option<Operation>,
    http: Option<u16>,
    field: OneOrMany,
    code: OneOrMany,
    class: Meaning,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "field and code are a text, a whole number, or a list of these")]
enum OneOrMany {
    One(Word),
    Many(Vec<Word>),
}

/// Rails number their codes, too.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Number(i64),
}

impl Word {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

impl OneOrMany {
    fn list(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one.text()],
            Self::Many(many) => many.into_iter().map(Word::text).collect(),
        }
    }
}

impl From<CodeFile> for CodeTable {
    fn from(file: CodeFile) -> Self {
        let mut rows = Vec::new();
        for TableRow { operation, http, field, code, class } in file.rows {
            let (fields, codes) = (field.list(), code.list());
            for operation in operation.map_or(Operation::ALL.to_vec(), |one| vec![one]) {
                for field in &fields {
                    rows.extend(codes.iter().map(|code| Row {
                        operation,
                        http,
                        field: field.clone(),
                        code: code.clone(),
                        class,
                    }));
                }
            }
        }
        let CodeFile { version, precedence, reasons, success_needs, refusal_needs, .. } = file;
        Self { version, rows, precedence, reasons, success_needs, refusal_needs }
    }
}

impl CodeTable {
    /// The row for this status, or else the one for any; then the row for any other code. None: unlisted.
    pub fn meaning(&self, operation: Operation, http: Option<u16>, code: &Code) -> Option<Meaning> {
        let find = |value: &str, http: Option<u16>| {
            let fits = |row: &&Row| {
                row.operation == operation && row.field == code.field && row.code == value && row.http == http
            };
            self.rows.iter().find(fits).map(|row| row.class)
        };
        let exact = |value: &str| http.and_then(|_| find(value, http)).or_else(|| find(value, None));
        exact(&code.value).or_else(|| exact(ANY))
    }
}
