//! A rail's codes as data: what each of them means, by operation, HTTP status and field, and what several of them mean together.
//! Nothing is matched by parts of a word, and what is not listed means nothing.

use std::collections::BTreeSet;

use serde::Deserialize;

/// What a code means for the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    Success,
    Pending,
    /// The rail has heard of it: pending where nothing says more, and no word against what does.
    Received,
    /// The rail does not know the key. In a question only.
    NotFound,
    Unknown,
    /// Not executed, and the key is still free.
    Retryable,
    /// The money did not move and will not.
    Terminal,
    /// The same, for a reason that a person should look at.
    TerminalReview,
    /// Something of ours: float, credentials, configuration.
    Hold,
    /// Something of ours that gets worse with every try: a wrong PIN, a blocked account. Only a person goes on.
    Stop,
}

/// What is known of the money, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Paid,
    NotPaid,
    NotFound,
    Open,
}

impl Side {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::NotPaid => "not paid",
            Self::NotFound => "not found",
            Self::Open => "open",
        }
    }
}

impl Meaning {
    /// Its name in the rail's file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Pending => "pending",
            Self::Received => "received",
            Self::NotFound => "not-found",
            Self::Unknown => "unknown",
            Self::Retryable => "retryable",
            Self::Terminal => "terminal",
            Self::TerminalReview => "terminal-review",
            Self::Hold => "hold",
            Self::Stop => "stop",
        }
    }

    pub fn side(self) -> Side {
        match self {
            Self::Success => Side::Paid,
            Self::NotFound => Side::NotFound,
            Self::Pending | Self::Received | Self::Unknown => Side::Open,
            Self::Retryable | Self::Hold | Self::Stop | Self::Terminal | Self::TerminalReview => {
                Side::NotPaid
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Disburse,
    QueryStatus,
}

impl Operation {
    pub const ALL: [Self; 2] = [Self::Disburse, Self::QueryStatus];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disburse => "disburse",
            Self::QueryStatus => "query-status",
        }
    }
}

/// A code that the rail gave, and the fact as which it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    pub field: String,
    pub value: String,
}

impl Code {
    pub fn new(field: &str, value: impl Into<String>) -> Self {
        Self { field: field.to_owned(), value: value.into() }
    }
}

/// The field under which the reply's HTTP status is looked up where nothing else was read.
pub const HTTP: &str = "http";
/// The code of a row for any other code.
const ANY: &str = "*";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub operation: Operation,
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
    /// Which of several refusals counts: that of the first field.
    pub precedence: Vec<String>,
    /// Facts that say why and never what: without another one beside them they decide nothing.
    pub reasons: Option<Vec<String>>,
    pub success_needs: Needs,
    pub refusal_needs: Needs,
}

/// Facts without which there is no verdict of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Needs {
    pub disburse: Vec<String>,
    pub query_status: Vec<String>,
}

impl Needs {
    fn of(&self, operation: Operation) -> &[String] {
        match operation {
            Operation::Disburse => &self.disburse,
            Operation::QueryStatus => &self.query_status,
        }
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.disburse.iter().chain(&self.query_status)
    }
}

/// The table as it is written: codes that mean the same share a line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeFile {
    version: u32,
    rows: Vec<Line>,
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
struct Line {
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
        for Line { operation, http, field, code, class } in file.rows {
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

/// What all facts of a reply mean together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// None: nothing that the table knows.
    pub meaning: Option<Meaning>,
    /// The code that decided.
    pub code: Option<Code>,
    /// Why it is not more than that.
    pub why: Option<&'static str>,
    /// A fact says by itself that it is the rail's last word.
    pub is_final: bool,
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

    /// One class of all facts. Caution wins: what is unknown stays so, what is pending is not yet decided, and what contradicts
    /// itself is unknown.
    pub fn judge(&self, operation: Operation, http: u16, facts: &[Code]) -> Judged {
        self.judge_with(operation, http, facts, true)
    }

    /// The same of a step before the payment, whose yes is none to the payment and needs none of its facts.
    pub fn judge_prepared(&self, http: u16, facts: &[Code]) -> Judged {
        self.judge_with(Operation::Disburse, http, facts, false)
    }

    fn judge_with(&self, operation: Operation, http: u16, facts: &[Code], of_payment: bool) -> Judged {
        if facts.is_empty() {
            let code = Code::new(HTTP, http.to_string());
            let meaning = self.meaning(operation, Some(http), &code);
            return Judged { meaning, code: meaning.map(|_| code), why: None, is_final: false };
        }
        let listed: Vec<(&Code, Meaning)> = facts
            .iter()
            .filter_map(|code| Some((code, self.meaning(operation, Some(http), code)?)))
            .collect();
        let unlisted = facts.iter().find(|code| self.meaning(operation, Some(http), code).is_none());
        let first =
            |meaning: Meaning| listed.iter().find(|(_, found)| *found == meaning).map(|(code, _)| *code);
        let judged = |meaning: Meaning, code: &Code| Judged {
            meaning: Some(meaning),
            code: Some(code.clone()),
            why: None,
            is_final: false,
        };
        let open = |why, code: Option<&Code>| Judged {
            meaning: Some(Meaning::Unknown),
            code: code.cloned(),
            why: Some(why),
            is_final: false,
        };
        if let Some(code) = first(Meaning::Unknown) {
            return judged(Meaning::Unknown, code);
        }
        if let Some(code) = first(Meaning::Pending) {
            return judged(Meaning::Pending, code);
        }
        let decided: Vec<(&Code, Meaning)> =
            listed.iter().filter(|(_, meaning)| *meaning != Meaning::Received).copied().collect();
        let Some((code, meaning)) = decided.first().copied() else {
            return match first(Meaning::Received) {
                Some(code) => judged(Meaning::Pending, code),
                None => Judged { meaning: None, code: unlisted.cloned(), why: None, is_final: false },
            };
        };
        if decided.iter().all(|(code, _)| self.is_reason(&code.field)) {
            return match first(Meaning::Received) {
                Some(received) => judged(Meaning::Pending, received),
                None => open("a reason without a status", Some(code)),
            };
        }
        if decided.iter().any(|(_, other)| other.side() != meaning.side()) {
            return open("its facts contradict each other", Some(code));
        }
        let lacks = |needs: &Needs| {
            of_payment
                && needs.of(operation).iter().any(|need| decided.iter().all(|(code, _)| code.field != *need))
        };
        match meaning.side() {
            Side::Paid if unlisted.is_some() => open("a code beside it is not listed", unlisted),
            Side::Paid if lacks(&self.success_needs) => {
                open("a fact is missing that a success needs", Some(code))
            }
            Side::Paid => judged(Meaning::Success, self.foremost(&decided).0),
            Side::NotFound if unlisted.is_some() => open("a code beside it is not listed", unlisted),
            Side::NotFound => judged(Meaning::NotFound, code),
            _ if lacks(&self.refusal_needs) => open("a fact is missing that a refusal needs", Some(code)),
            _ => self.refused(&decided, unlisted),
        }
    }

    /// All of it says no. A reason that nobody knows leaves it a no for a person to look at, if something else says so plainly.
    fn refused(&self, decided: &[(&Code, Meaning)], unlisted: Option<&Code>) -> Judged {
        let is_plain =
            decided.iter().any(|(_, meaning)| matches!(meaning, Meaning::Terminal | Meaning::TerminalReview));
        let (meaning, code) = match unlisted {
            Some(code) if is_plain => (Meaning::TerminalReview, code),
            Some(code) => (Meaning::Unknown, code),
            None => {
                let (code, meaning) = self.foremost(decided);
                (meaning, code)
            }
        };
        Judged { meaning: Some(meaning), code: Some(code.clone()), why: None, is_final: is_plain }
    }

    fn is_reason(&self, field: &str) -> bool {
        self.reasons.iter().flatten().any(|reason| reason == field)
    }

    /// Of the field that goes first; of several codes of that field the one that asks for the most care.
    fn foremost<'c>(&self, decided: &[(&'c Code, Meaning)]) -> (&'c Code, Meaning) {
        let rank =
            |code: &Code| self.precedence.iter().position(|field| *field == code.field).unwrap_or(usize::MAX);
        let by_care = |(code, meaning): &(&Code, Meaning)| (rank(code), std::cmp::Reverse(*meaning));
        *decided.iter().min_by_key(|found| by_care(found)).expect("there is at least one")
    }

    /// `facts` are the names under which the file's steps read anything.
    pub(crate) fn problem(&self, facts: &BTreeSet<String>) -> Option<String> {
        let mut seen = BTreeSet::new();
        if let Some(row) =
            self.rows.iter().find(|row| !seen.insert((row.operation, row.http, &row.field, &row.code)))
        {
            return Some(format!(
                "codes.rows has {} {} twice for {}, expected one meaning",
                row.field,
                row.code,
                row.operation.as_str()
            ));
        }
        let misplaced = |row: &&Row| row.operation == Operation::Disburse && row.class == Meaning::NotFound;
        if let Some(row) = self.rows.iter().find(misplaced) {
            return Some(format!(
                "codes.rows calls {} {} not-found for disburse, expected that for query-status only",
                row.field, row.code
            ));
        }
        if let Some(problem) = self.rows.iter().filter(|row| row.field == HTTP).find_map(Row::http_problem) {
            return Some(problem);
        }
        let known = |field: &String| field == HTTP || facts.contains(field);
        if let Some(row) = self.rows.iter().find(|row| !known(&row.field)) {
            return Some(format!(
                "codes.rows has the field {:?}, expected http or a fact that a step reads: {}",
                row.field,
                facts.iter().cloned().collect::<Vec<_>>().join(", ")
            ));
        }
        let needs =
            self.success_needs.all().chain(self.refusal_needs.all()).chain(self.reasons.iter().flatten());
        if let Some(field) = self.precedence.iter().chain(needs).find(|field| !facts.contains(*field)) {
            return Some(format!("codes names {field:?}, expected a fact that a step reads"));
        }
        let absent = facts.iter().find(|fact| !self.precedence.contains(fact));
        if facts.len() > 1
            && let Some(fact) = absent
        {
            return Some(format!("codes.precedence lacks {fact:?}, expected every fact in its order"));
        }
        let refusing: BTreeSet<&String> =
            self.rows.iter().filter(|row| row.class.side() == Side::NotPaid).map(|row| &row.field).collect();
        if self.reasons.is_none() && refusing.iter().filter(|field| *field != &HTTP).count() > 1 {
            return Some(
                "codes.reasons is missing, expected the facts that say why and never what, such as [\"reason\"], or []"
                    .to_owned(),
            );
        }
        None
    }
}

impl Row {
    /// A status of HTTP may be that of a gateway, which knows nothing of the payment.
    fn http_problem(&self) -> Option<String> {
        let Row { operation, code, class, .. } = self;
        let Some(status) = code.parse::<u16>().ok().filter(|status| (100..600).contains(status)) else {
            return Some(format!("codes.rows has the http code {code:?}, expected a status such as 429"));
        };
        let may_be = match (operation, class) {
            (_, Meaning::Unknown) => true,
            (_, Meaning::Pending | Meaning::Received) => (200..300).contains(&status) || status == 409,
            (
                Operation::Disburse,
                Meaning::Retryable | Meaning::Hold | Meaning::Stop | Meaning::TerminalReview,
            ) => status >= 400,
            _ => false,
        };
        (!may_be).then(|| {
            format!(
                "codes.rows calls the http status {status} of {} {}, expected that of a fact in the reply",
                operation.as_str(),
                class.as_str()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &str) -> CodeTable {
        toml::from_str(&format!("version = 1\nprecedence = [\"reason\", \"status\"]\nrows = [{rows}]"))
            .expect("TOML")
    }

    const ROWS: &str = r#"
        { field = "status", code = "PAID", class = "success" },
        { field = "status", code = "OPEN", class = "pending" },
        { field = "status", code = "HEARD", class = "received" },
        { field = "status", code = "FAILED", class = "terminal-review" },
        { operation = "query-status", field = "status", code = "NONE", class = "not-found" },
        { field = "reason", code = "NO_PAYEE", class = "terminal" },
        { field = "reason", code = "NO_FLOAT", class = "hold" },
        { field = "reason", code = "LOST", class = "unknown" },
        { field = "reason", code = "TWICE", class = "pending" },
        { operation = "disburse", field = "http", code = "202", class = "pending" }"#;

    fn judge(facts: &[(&str, &str)]) -> (Option<Meaning>, Option<String>) {
        let facts: Vec<_> = facts.iter().map(|(field, value)| Code::new(field, *value)).collect();
        let judged = table(ROWS).judge(Operation::QueryStatus, 200, &facts);
        (judged.meaning, judged.code.map(|code| code.value))
    }

    #[test]
    fn a_code_means_what_its_row_says_and_nothing_without_one() {
        let table = table(
            r#"{ operation = "disburse", http = 500, field = "code", code = "BUSY", class = "retryable" },
               { operation = "disburse", field = "code", code = "BUSY", class = "unknown" },
               { operation = "disburse", http = 400, field = "code", code = "*", class = "terminal-review" }"#,
        );
        let meaning = |http, field, value| table.meaning(Operation::Disburse, http, &Code::new(field, value));
        assert_eq!(meaning(Some(500), "code", "BUSY"), Some(Meaning::Retryable));
        assert_eq!(meaning(Some(503), "code", "BUSY"), Some(Meaning::Unknown));
        assert_eq!(meaning(Some(400), "code", "BUSY"), Some(Meaning::Unknown), "a row of its own goes first");
        assert_eq!(meaning(Some(400), "code", "ODD"), Some(Meaning::TerminalReview));
        assert_eq!(meaning(None, "code", "BUSY"), Some(Meaning::Unknown));
        assert_eq!(meaning(Some(500), "code", "BUSY_TOO"), None);
        assert_eq!(meaning(Some(500), "status", "BUSY"), None);
        assert_eq!(table.meaning(Operation::QueryStatus, Some(500), &Code::new("code", "BUSY")), None);
    }

    #[test]
    fn several_facts_make_one_class_and_caution_wins() {
        let some = |meaning, code: &str| (Some(meaning), Some(code.to_owned()));
        for (facts, wanted) in [
            (&[("status", "PAID")][..], some(Meaning::Success, "PAID")),
            (&[("status", "FAILED"), ("reason", "NO_PAYEE")], some(Meaning::Terminal, "NO_PAYEE")),
            (&[("status", "FAILED"), ("reason", "NO_FLOAT")], some(Meaning::Hold, "NO_FLOAT")),
            (&[("reason", "NO_PAYEE"), ("reason", "NO_FLOAT")], some(Meaning::Hold, "NO_FLOAT")),
            (&[("status", "FAILED"), ("reason", "ODD")], some(Meaning::TerminalReview, "ODD")),
            (&[("status", "FAILED"), ("reason", "TWICE")], some(Meaning::Pending, "TWICE")),
            (&[("status", "FAILED"), ("reason", "LOST")], some(Meaning::Unknown, "LOST")),
            (&[("status", "PAID"), ("reason", "NO_PAYEE")], some(Meaning::Unknown, "PAID")),
            (&[("status", "PAID"), ("reason", "ODD")], some(Meaning::Unknown, "ODD")),
            (&[("status", "PAID"), ("reason", "TWICE")], some(Meaning::Pending, "TWICE")),
            (&[("status", "HEARD")], some(Meaning::Pending, "HEARD")),
            (&[("status", "HEARD"), ("reason", "NO_PAYEE")], some(Meaning::Terminal, "NO_PAYEE")),
            (&[("status", "NONE")], some(Meaning::NotFound, "NONE")),
            (&[("status", "NONE"), ("reason", "NO_PAYEE")], some(Meaning::Unknown, "NONE")),
            (&[("reason", "NO_FLOAT"), ("status", "ODD")], some(Meaning::Unknown, "ODD")),
            (&[("status", "ODD")], (None, Some("ODD".to_owned()))),
        ] {
            assert_eq!(judge(facts), wanted, "{facts:?}");
        }
        let empty = table(ROWS).judge(Operation::Disburse, 202, &[]);
        assert_eq!(empty.meaning, Some(Meaning::Pending));
        assert_eq!(table(ROWS).judge(Operation::Disburse, 200, &[]).meaning, None);
        let mut strict = table(ROWS);
        strict.success_needs.query_status = vec!["status".to_owned(), "reason".to_owned()];
        strict.refusal_needs.query_status = vec!["status".to_owned()];
        let alone =
            |field, value| strict.judge(Operation::QueryStatus, 200, &[Code::new(field, value)]).meaning;
        assert_eq!(alone("status", "PAID"), Some(Meaning::Unknown));
        assert_eq!(alone("reason", "NO_PAYEE"), Some(Meaning::Unknown));
        assert_eq!(alone("status", "FAILED"), Some(Meaning::TerminalReview));
    }

    #[test]
    fn a_table_that_means_two_things_or_none_is_refused() {
        let facts = BTreeSet::from(["status".to_owned(), "reason".to_owned()]);
        let row = r#"{ field = "status", code = "A", class = "success" }"#;
        for (rows, problem) in [
            (format!("{row}, {row}"), "status A twice"),
            (r#"{ field = "stauts", code = "A", class = "success" }"#.to_owned(), "the field \"stauts\""),
            (r#"{ field = "http", code = "200", class = "success" }"#.to_owned(), "the http status 200 of disburse success"),
            (r#"{ operation = "query-status", field = "http", code = "404", class = "not-found" }"#.to_owned(), "the http status 404"),
            (r#"{ field = "http", code = "*", class = "terminal" }"#.to_owned(), "the http code \"*\""),
            (r#"{ field = "status", code = "A", class = "terminal" }, { field = "reason", code = "B", class = "hold" }"#.to_owned(), "codes.reasons is missing"),
            (r#"{ field = "status", code = "A", class = "not-found" }"#.to_owned(), "not-found for disburse"),
        ] {
            let found = table(&rows).problem(&facts).expect("a problem");
            assert!(found.contains(problem), "{found}");
        }
        assert_eq!(table(row).problem(&facts), None);
        let more = BTreeSet::from(["status".to_owned(), "reason".to_owned(), "code".to_owned()]);
        assert!(table(row).problem(&more).expect("a problem").contains("precedence lacks \"code\""));
    }
}
