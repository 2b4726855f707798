//! Exact amounts, as the contract carries them: `10.00`, never 10.0.

use serde_json::Number;

use crate::Money;

impl Money {
    /// How many decimals the amount has, which are those of its currency.
    pub fn decimals(&self) -> usize {
        self.amount.split_once('.').map_or(0, |(_, decimals)| decimals.len())
    }

    /// The amount in the currency's smallest unit: `10.00` is 1000.
    pub fn minor_units(&self) -> Option<u128> {
        self.amount.replacen('.', "", 1).parse().ok()
    }

    /// The shortest form of the same amount: `10.50` is `10.5`, `10.00` is `10`.
    pub fn shortest(&self) -> &str {
        match self.amount.contains('.') {
            true => self.amount.trim_end_matches('0').trim_end_matches('.'),
            false => &self.amount,
        }
    }

    /// The amount as a JSON number, digit for digit.
    pub fn number(&self) -> Option<Number> {
        self.amount.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(amount: &str) -> Money {
        Money { amount: amount.to_owned(), currency: "ZMW".to_owned() }
    }

    #[test]
    fn amounts_change_their_form_and_never_their_value() {
        for (amount, decimals, minor, shortest) in [
            ("10.00", 2, 1000, "10"),
            ("10.50", 2, 1050, "10.5"),
            ("0.01", 2, 1, "0.01"),
            ("500", 0, 500, "500"),
            ("90071992547409.93", 2, 9_007_199_254_740_993, "90071992547409.93"),
        ] {
            let money = money(amount);
            assert_eq!(money.decimals(), decimals);
            assert_eq!(money.minor_units(), Some(minor));
            assert_eq!(money.shortest(), shortest);
            assert_eq!(money.number().map(|number| number.to_string()).as_deref(), Some(amount));
        }
    }
}
