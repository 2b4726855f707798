//! What the host itself saw. "Nothing was sent" is its knowledge, never the adapter's claim.

use super::rules::Class;

/// How much of a request was handed to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    Nothing,
    /// At least a byte, perhaps all.
    Headers,
    /// The body too.
    Body,
}

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The name of the endpoint in the rail's file.
    pub endpoint: String,
    pub class: Class,
    pub left: Left,
    /// Set when the head of a reply was read, whether or not its body followed.
    pub status: Option<u16>,
    /// The whole reply was read.
    pub whole: bool,
    /// Seconds from `Retry-After`, where the reply had it as a number.
    pub retry_after_seconds: Option<u32>,
    /// Whether the token that it carried was fetched within the same call.
    pub token_is_fresh: Option<bool>,
}

/// All requests of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Witness {
    pub exchanges: Vec<Exchange>,
    /// What the gate refused: the first by each rule.
    pub denied: Vec<Denied>,
}

/// A request that the gate did not let out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    pub rule: Rule,
    /// One sentence, safe to show.
    pub why: String,
}

impl Denied {
    pub(super) fn new(rule: Rule, why: impl Into<String>) -> Self {
        Self { rule, why: why.into() }
    }
}

/// The rules of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A name led to an address that may not be dialled.
    Address,
    /// The amount is missing, stands there twice, or is not the instruction's.
    Amount,
    Currency,
    /// Nothing may leave while an adapter describes itself.
    Describing,
    /// The rail's file has no such endpoint.
    Endpoint,
    /// It cannot be written as a request.
    Form,
    /// A header that is the host's own.
    Header,
    /// The payment's key, as the amount.
    Key,
    /// The lease does not last long enough.
    Lease,
    /// Money moves from `disburse` only.
    MoneyElsewhere,
    Payee,
    /// The component may not speak any more.
    Revoked,
    /// One attempt moves money once.
    SecondPayment,
    /// A secret where the rail's file does not place it.
    Secret,
}

impl Rule {
    pub const ALL: [Self; 14] = [
        Self::Address,
        Self::Amount,
        Self::Currency,
        Self::Describing,
        Self::Endpoint,
        Self::Form,
        Self::Header,
        Self::Key,
        Self::Lease,
        Self::MoneyElsewhere,
        Self::Payee,
        Self::Revoked,
        Self::SecondPayment,
        Self::Secret,
    ];

    /// Its name in metrics and records. Never changes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Amount => "amount",
            Self::Currency => "currency",
            Self::Describing => "describing",
            Self::Endpoint => "endpoint",
            Self::Form => "form",
            Self::Header => "header",
            Self::Key => "key",
            Self::Lease => "lease",
            Self::MoneyElsewhere => "money-elsewhere",
            Self::Payee => "payee",
            Self::Revoked => "revoked",
            Self::SecondPayment => "second-payment",
            Self::Secret => "secret",
        }
    }

    /// Whether an adapter that does this may not be trusted with the next payment until a person has looked.
    pub fn is_tampering(self) -> bool {
        matches!(
            self,
            Self::Amount
                | Self::Currency
                | Self::Key
                | Self::MoneyElsewhere
                | Self::Payee
                | Self::SecondPayment
                | Self::Secret
        )
    }
}

impl Witness {
    /// The one request that could have moved money, if it was made.
    pub fn money(&self) -> Option<&Exchange> {
        self.exchanges.iter().find(|exchange| exchange.class == Class::Money)
    }

    /// How much of it left.
    pub fn money_left(&self) -> Left {
        self.money().map_or(Left::Nothing, |exchange| exchange.left)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
        assert_eq!(names.len(), Rule::ALL.len());
    }
}
