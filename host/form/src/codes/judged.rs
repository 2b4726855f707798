//! One class of all facts of a reply. Caution wins.

use super::meaning::{Code, HTTP, Meaning, Operation, Side};
use super::table::{CodeTable, Needs};

/// What all facts of a reply mean together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeReading {
    /// None: nothing that the table knows.
    pub meaning: Option<Meaning>,
    /// The code that decided.
    pub code: Option<Code>,
    /// Why it is not more than that.
    pub why: Option<&'static str>,
    /// A fact says by itself that it is the rail's last word.
    pub is_final: bool,
}

impl CodeReading {
    fn of(meaning: Meaning, code: &Code) -> Self {
        Self { meaning: Some(meaning), code: Some(code.clone()), why: None, is_final: false }
    }

    fn open(why: &'static str, code: Option<&Code>) -> Self {
        Self { meaning: Some(Meaning::Unknown), code: code.cloned(), why: Some(why), is_final: false }
    }

    fn nothing(unlisted: Option<&Code>) -> Self {
        Self { meaning: None, code: unlisted.cloned(), why: None, is_final: false }
    }
}

/// The facts of a reply, by whether the table knows them.
struct Sorted<'c> {
    listed: Vec<(&'c Code, Meaning)>,
    /// The first one.
    unlisted: Option<&'c Code>,
}

impl<'c> Sorted<'c> {
    fn first(&self, meaning: Meaning) -> Option<&'c Code> {
        self.listed.iter().find(|(_, found)| *found == meaning).map(|(code, _)| *code)
    }

    /// Those that say more than that the rail has heard of the payment.
    fn decided(&self) -> Vec<(&'c Code, Meaning)> {
        self.listed.iter().filter(|(_, meaning)| *meaning != Meaning::Received).copied().collect()
    }
}

impl CodeTable {
    /// One class of all facts. Caution wins: what is unknown stays so, what is pending is not yet decided, and what contradicts
    /// itself is unknown.
    pub fn judge(&self, operation: Operation, http: u16, facts: &[Code]) -> CodeReading {
        self.judge_with(operation, http, facts, true)
    }

    /// The same of a step before the payment, whose yes is none to the payment and needs none of its facts.
    pub fn judge_prepared(&self, http: u16, facts: &[Code]) -> CodeReading {
        self.judge_with(Operation::Disburse, http, facts, false)
    }

    fn judge_with(&self, operation: Operation, http: u16, facts: &[Code], of_payment: bool) -> CodeReading {
        if facts.is_empty() {
            return self.judge_status(operation, http);
        }
        let sorted = self.sort(operation, http, facts);
        for undecided in [Meaning::Unknown, Meaning::Pending] {
            if let Some(code) = sorted.first(undecided) {
                return CodeReading::of(undecided, code);
            }
        }
        let received = sorted.first(Meaning::Received).map(|code| CodeReading::of(Meaning::Pending, code));
        let decided = sorted.decided();
        let Some((code, meaning)) = decided.first().copied() else {
            return received.unwrap_or_else(|| CodeReading::nothing(sorted.unlisted));
        };
        if decided.iter().all(|(code, _)| self.is_reason(&code.field)) {
            return received.unwrap_or_else(|| CodeReading::open("a reason without a status", Some(code)));
        }
        if decided.iter().any(|(_, other)| other.side() != meaning.side()) {
            return CodeReading::open("its facts contradict each other", Some(code));
        }
        self.judge_decided(&decided, sorted.unlisted, of_payment.then_some(operation))
    }

    /// By the HTTP status, where the reply has no fact.
    fn judge_status(&self, operation: Operation, http: u16) -> CodeReading {
        let code = Code::new(HTTP, http.to_string());
        let meaning = self.meaning(operation, Some(http), &code);
        CodeReading { meaning, code: meaning.map(|_| code), why: None, is_final: false }
    }

    fn sort<'c>(&self, operation: Operation, http: u16, facts: &'c [Code]) -> Sorted<'c> {
        let mut sorted = Sorted { listed: Vec::new(), unlisted: None };
        for code in facts {
            match self.meaning(operation, Some(http), code) {
                Some(meaning) => sorted.listed.push((code, meaning)),
                None => sorted.unlisted = sorted.unlisted.or(Some(code)),
            }
        }
        sorted
    }

    /// All of `decided` is on one side. `needs_of`: whose needed facts have to be there; none before the payment.
    fn judge_decided(
        &self,
        decided: &[(&Code, Meaning)],
        unlisted: Option<&Code>,
        needs_of: Option<Operation>,
    ) -> CodeReading {
        let lacks = |needs: &Needs| {
            let needed = needs_of.map_or(&[][..], |operation| needs.of(operation));
            needed.iter().any(|need| decided.iter().all(|(code, _)| code.field != *need))
        };
        let (code, meaning) = decided[0];
        match meaning.side() {
            Side::Paid | Side::NotFound if unlisted.is_some() => {
                CodeReading::open("a code beside it is not listed", unlisted)
            }
            Side::Paid if lacks(&self.success_needs) => {
                CodeReading::open("a fact is missing that a success needs", Some(code))
            }
            Side::Paid => CodeReading::of(Meaning::Success, self.foremost(decided).0),
            Side::NotFound => CodeReading::of(Meaning::NotFound, code),
            _ if lacks(&self.refusal_needs) => {
                CodeReading::open("a fact is missing that a refusal needs", Some(code))
            }
            _ => self.judge_refusal(decided, unlisted),
        }
    }

    /// All of it says no. A reason that nobody knows leaves it a no for a person to look at, if something else says so plainly.
    fn judge_refusal(&self, decided: &[(&Code, Meaning)], unlisted: Option<&Code>) -> CodeReading {
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
        CodeReading { meaning: Some(meaning), code: Some(code.clone()), why: None, is_final: is_plain }
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
}
