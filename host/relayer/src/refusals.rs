//! A rail that refuses everybody: a wrong header of ours, a closed bank, an empty float under another name. Each refusal by itself
//! is a verdict on one payment. A run of refusals with one code says something about the rail. One participant alone cannot make a
//! run: it could stop a rail for all others with payees that do not exist. Nor can it end one with refusals of its own.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A run is this many different payees, one after the other, without a payment between them.
pub(crate) const PAYEES_MAX: usize = 8;
/// Codes that are counted at a time. A rail with more codes than this says something else with each.
const CODES_MAX: usize = 16;
/// Of these, at most this many count for one participant: payees of others have to be refused too.
const PAYEES_OF_ONE_MAX: usize = PAYEES_MAX / 2;

/// A final no, as far as it says something about the rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RailRefusal {
    code: String,
    /// Digests: more need not be known here.
    payee: u64,
    participant: u64,
}

impl RailRefusal {
    pub(crate) fn new(code: &str, payee: impl Hash, participant: &str) -> Self {
        Self { code: code.to_owned(), payee: digest(payee), participant: digest(participant) }
    }
}

fn digest(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Refusals since somebody was paid, by their codes.
#[derive(Debug, Default)]
pub(crate) struct Refusals(HashMap<String, RefusalRun>);

/// Refusals with one code.
#[derive(Debug, Default)]
struct RefusalRun {
    /// By participant. Bounded, because a run may go on for ever.
    payees: HashMap<u64, HashSet<u64>>,
}

impl Refusals {
    /// True if by now they say something about the rail.
    pub(crate) fn saw(&mut self, refusal: &RailRefusal) -> bool {
        if !self.0.contains_key(&refusal.code) && self.0.len() >= CODES_MAX {
            return false;
        }
        self.0.entry(refusal.code.clone()).or_default().saw(refusal)
    }

    /// Somebody was paid.
    pub(crate) fn end(&mut self) {
        self.0.clear();
    }
}

impl RefusalRun {
    fn saw(&mut self, refusal: &RailRefusal) -> bool {
        if self.count() < PAYEES_MAX {
            let payees = self.payees.entry(refusal.participant).or_default();
            if payees.len() < PAYEES_OF_ONE_MAX {
                payees.insert(refusal.payee);
            }
        }
        self.count() >= PAYEES_MAX
    }

    fn count(&self) -> usize {
        self.payees.values().map(HashSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(refusals: impl IntoIterator<Item = (&'static str, usize, usize)>) -> bool {
        let mut seen = Refusals::default();
        refusals.into_iter().fold(false, |_, (code, payee, participant)| {
            seen.saw(&RailRefusal::new(code, payee, &participant.to_string()))
        })
    }

    #[test]
    fn many_payees_of_several_participants_speak_of_the_rail() {
        assert!(run((0..8).map(|n| ("CLOSED", n, n % 2))));
        assert!(!run((0..7).map(|n| ("CLOSED", n, n % 2))));
    }

    #[test]
    fn one_participant_cannot_stop_a_rail() {
        assert!(!run((0..1_000).map(|n| ("NO_PAYEE", n, 0))));
        assert!(
            !run((0..1_000).map(|n| ("NO_PAYEE", n, usize::from(n > 997)))),
            "nor with another's bad luck"
        );
    }

    #[test]
    fn one_payee_and_changing_reasons_speak_of_themselves() {
        assert!(!run((0..7).map(|n| ("NO_PAYEE", 0, n % 3))));
        assert!(!run((0..14).map(|n| (["A", "B"][n % 2], n, n))));
    }

    #[test]
    fn a_run_goes_on_beside_refusals_of_other_kinds() {
        let closed = (0..8).map(|n| ("CLOSED", n, n % 2));
        let beside = closed.flat_map(|closed| [("NO_PAYEE", 99, 9), closed]);
        assert!(run(beside));
    }
}
