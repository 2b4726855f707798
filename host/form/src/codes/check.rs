//! A table that means two things, or none, is refused.

use std::collections::BTreeSet;

use super::meaning::{HTTP, Meaning, Operation, Side};
use super::table::{CodeTable, Row};

impl CodeTable {
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
