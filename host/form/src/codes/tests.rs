use std::collections::BTreeSet;

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
    let alone = |field, value| strict.judge(Operation::QueryStatus, 200, &[Code::new(field, value)]).meaning;
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
