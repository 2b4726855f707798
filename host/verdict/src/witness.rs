//! What the host itself saw. "Nothing was sent" is its knowledge, and nobody's claim.

use form::StepClass;

/// How much of a request was handed to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    /// No byte of it, so the rail cannot have seen it.
    Nothing,
    /// The head of the request was handed to the connection: nothing, a part or all of it may have left.
    Headers,
    /// The body too.
    Body,
}

impl Sent {
    /// Its name in the record of an attempt.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Headers => "headers",
            Self::Body => "body",
        }
    }
}

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Its name in the rail file.
    pub step: String,
    /// What the request can do. Only `Money` moves money.
    pub class: StepClass,
    /// How much of it was handed to the network.
    pub left: Sent,
    /// Set when the head of a reply was read, whether or not its body followed.
    pub status: Option<u16>,
    /// The whole reply was read.
    pub whole: bool,
    /// Seconds from `Retry-After`, where the reply had it, as a number or a date.
    pub retry_after_seconds: Option<u32>,
    /// Whether the token that it carried was fetched within the same call.
    pub token_is_fresh: Option<bool>,
}

/// All requests of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Witness {
    /// In the order in which they were made, with those that bring tokens.
    pub exchanges: Vec<Exchange>,
    /// What was kept from leaving or not believed: the first by each rule.
    pub denied: Vec<Denial>,
}

/// Something that did not leave, or was not believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The rule that stopped it.
    pub rule: GateRule,
    /// One sentence, safe to show.
    pub why: String,
}

impl Denial {
    /// Takes `why` as it is: the caller makes sure that it may be shown.
    pub fn new(rule: GateRule, why: impl Into<String>) -> Self {
        Self { rule, why: why.into() }
    }
}

/// Why something did not leave, or was not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GateRule {
    /// A name led to an address that may not be dialled.
    Address,
    /// The lease does not last long enough.
    Lease,
    /// The adapter read the opposite of what the host did.
    Reading,
    /// The component may not speak any more.
    Revoked,
    /// The adapter gave a value that the rail file does not allow.
    Variable,
}

impl GateRule {
    /// Every rule, in the order of their names.
    pub const ALL: [Self; 5] = [Self::Address, Self::Lease, Self::Reading, Self::Revoked, Self::Variable];

    /// Its name in metrics and records. Never changes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Lease => "lease",
            Self::Reading => "reading",
            Self::Revoked => "revoked",
            Self::Variable => "variable",
        }
    }

    /// Whether an adapter that does this to payments of two participants may not be trusted with the next one until a person has
    /// looked. With those of one it may be that participant's doing, who is not to stop a rail for all others.
    pub fn is_offence(self) -> bool {
        matches!(self, Self::Reading | Self::Variable)
    }
}

impl Witness {
    /// The request that could have moved money, if it was made. There are two where the rail asked for an answer first: the last
    /// one of which something left.
    pub fn money(&self) -> Option<&Exchange> {
        let money = || self.exchanges.iter().rev().filter(|exchange| exchange.class == StepClass::Money);
        money().find(|exchange| exchange.left != Sent::Nothing).or_else(|| money().next())
    }

    /// For the record: of each request the step, what left and the status of the reply.
    pub fn record(&self) -> String {
        let one = |exchange: &Exchange| {
            let status = exchange.status.map(|status| format!(" {status}")).unwrap_or_default();
            let whole = if exchange.status.is_some() && !exchange.whole { " broken off" } else { "" };
            format!("{} {}{status}{whole}", exchange.step, exchange.left.as_str())
        };
        self.exchanges.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// How much of it left.
    pub fn money_left(&self) -> Sent {
        self.money().map_or(Sent::Nothing, |exchange| exchange.left)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_name_of_its_own() {
        let names: BTreeSet<_> = GateRule::ALL.iter().map(|rule| rule.as_str()).collect();
        assert_eq!(names.len(), GateRule::ALL.len());
    }
}
