//! Exact amounts, as the contract carries them: `10.00`, never 10.0.

use std::cmp::Ordering;

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

    /// Why it does not lie between two amounts of the same currency; either may be left out.
    pub fn out_of_bounds(&self, least: Option<&str>, most: Option<&str>) -> Option<String> {
        match (least, most) {
            (Some(least), _) if compare(&self.amount, least).is_lt() => {
                Some(format!("must be {least} or more"))
            }
            (_, Some(most)) if compare(&self.amount, most).is_gt() => Some(format!("must be {most} or less")),
            _ => None,
        }
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

/// Which of two decimal numbers is greater, whatever their length.
fn compare(left: &str, right: &str) -> Ordering {
    let parts = |text: &str| {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        (whole.trim_start_matches('0').to_owned(), decimals.trim_end_matches('0').to_owned())
    };
    let ((left, left_decimals), (right, right_decimals)) = (parts(left), parts(right));
    (left.len(), left, left_decimals).cmp(&(right.len(), right, right_decimals))
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

    #[test]
    fn bounds_are_compared_by_value() {
        for (amount, least, most, within) in [
            ("9.99", Some("10"), None, false),
            ("10.00", Some("10"), Some("10.0"), true),
            ("10.01", None, Some("10"), false),
            ("9.00", None, Some("10.00"), true),
            ("0.05", Some("0.5"), None, false),
        ] {
            assert_eq!(money(amount).out_of_bounds(least, most).is_none(), within, "{amount}");
        }
    }
}
