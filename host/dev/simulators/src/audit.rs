//! A ledger against somebody's books, payment by payment.

use std::collections::HashMap;

use crate::Entry;

/// What the books say of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Booked {
    Paid,
    NotPaid,
    /// Nobody knows, and the books say so.
    Unresolved,
    /// There is no verdict.
    Open,
}

impl Booked {
    /// By the words of the outbox.
    pub fn of(state: Option<&str>, money_moved: Option<&str>) -> Self {
        match (state, money_moved) {
            (Some("DISPATCHED"), _) => Self::Paid,
            (Some("FAILED"), Some("no")) => Self::NotPaid,
            (Some("FAILED"), _) => Self::Unresolved,
            _ => Self::Open,
        }
    }
}

/// How two books differ. All zero: they agree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Paid by the rail.
    pub paid: usize,
    /// Paid more than once.
    pub doubled: usize,
    /// Paid by one of the two and not by the other.
    pub disagreed: usize,
    /// Without a verdict.
    pub lost: usize,
    /// In the ledger alone.
    pub orphaned: usize,
    /// Asked for with another payee or amount under the same key.
    pub conflicting: usize,
}

impl Audit {
    /// `books` are by the rail's form of the key.
    pub fn of(ledger: &[Entry], books: &HashMap<String, Booked>) -> Self {
        let mut audit = Self::default();
        let known: HashMap<&str, &Entry> = ledger.iter().map(|entry| (entry.key.as_str(), entry)).collect();
        for (key, booked) in books {
            let executions = known.get(key.as_str()).map_or(0, |entry| entry.executions);
            audit.paid += usize::from(executions > 0);
            audit.doubled += usize::from(executions > 1);
            match booked {
                Booked::Paid => audit.disagreed += usize::from(executions == 0),
                Booked::NotPaid => audit.disagreed += usize::from(executions > 0),
                Booked::Unresolved => {}
                Booked::Open => audit.lost += 1,
            }
        }
        audit.orphaned = ledger.iter().filter(|entry| !books.contains_key(&entry.key)).count();
        audit.conflicting = ledger.iter().filter(|entry| entry.conflicting > 0).count();
        audit
    }

    pub fn agrees(&self) -> bool {
        self.doubled + self.disagreed + self.lost + self.orphaned + self.conflicting == 0
    }

    /// Several rails together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            paid: self.paid + other.paid,
            doubled: self.doubled + other.doubled,
            disagreed: self.disagreed + other.disagreed,
            lost: self.lost + other.lost,
            orphaned: self.orphaned + other.orphaned,
            conflicting: self.conflicting + other.conflicting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, executions: u32) -> Entry {
        Entry {
            key: key.to_owned(),
            payee: String::new(),
            amount: String::new(),
            currency: String::new(),
            arrived_at: chrono::DateTime::UNIX_EPOCH,
            requests: 1,
            conflicting: 0,
            questions: 0,
            note: String::new(),
            executions,
            state: String::new(),
        }
    }

    #[test]
    fn every_way_to_differ_is_counted() {
        let ledger = [entry("a", 1), entry("b", 2), entry("c", 1), entry("d", 0), entry("stranger", 1)];
        let books = [
            ("a", Booked::Paid),
            ("b", Booked::Paid),
            ("c", Booked::NotPaid),
            ("d", Booked::Paid),
            ("e", Booked::Open),
        ];
        let books = books.into_iter().map(|(key, booked)| (key.to_owned(), booked)).collect();
        let audit = Audit::of(&ledger, &books);
        assert_eq!(audit, Audit { paid: 3, doubled: 1, disagreed: 2, lost: 1, orphaned: 1, conflicting: 0 });
        assert!(!audit.agrees());
        let fine = HashMap::from([
            ("a".to_owned(), Booked::Paid),
            ("x".to_owned(), Booked::NotPaid),
            ("y".to_owned(), Booked::Unresolved),
        ]);
        assert!(Audit::of(&ledger[..1], &fine).agrees());
    }
}
