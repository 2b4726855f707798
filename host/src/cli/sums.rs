//! How many payments, and how much money, per rail and currency. Amounts are added as whole numbers of the smallest unit.

use std::collections::BTreeMap;

use payment::Money;
use serde::Serialize;

use terminal::print::table;

#[derive(Debug, Default)]
pub(super) struct Sums {
    by_rail: BTreeMap<(String, String), Sum>,
}

#[derive(Debug)]
struct Sum {
    payments: u64,
    /// None once it is more than can be counted.
    minor: Option<u128>,
    decimals: usize,
}

/// A sum as it is told.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct CurrencySum {
    pub rail: String,
    /// Empty where payments say no amount that could be added.
    pub currency: String,
    pub payments: u64,
    pub amount: String,
}

impl Sums {
    /// Takes in a payment; one without a sound amount is counted and adds nothing.
    pub(super) fn add(&mut self, rail: &str, money: Option<&Money>) {
        let currency = money.map(Money::currency).unwrap_or_default();
        let sum = self.by_rail.entry((rail.to_owned(), currency.to_owned())).or_insert_with(|| Sum {
            payments: 0,
            minor: Some(0),
            decimals: money
                .map_or(0, |money| money.amount().split_once('.').map_or(0, |(_, part)| part.len())),
        });
        sum.payments += 1;
        if let Some(money) = money {
            let digits = money.amount().replace('.', "");
            sum.minor = sum
                .minor
                .zip(digits.parse().ok())
                .and_then(|(sum, more): (u128, u128)| sum.checked_add(more));
        }
    }

    pub(super) fn told(&self) -> Vec<CurrencySum> {
        let told = |((rail, currency), sum): (&(String, String), &Sum)| CurrencySum {
            rail: rail.clone(),
            currency: currency.clone(),
            payments: sum.payments,
            amount: if currency.is_empty() { String::new() } else { sum.amount() },
        };
        self.by_rail.iter().map(told).collect()
    }

    /// For people; empty if there is nothing.
    pub(super) fn table(&self) -> String {
        let rows: Vec<_> = self
            .told()
            .into_iter()
            .map(|sum| match sum.currency.is_empty() {
                true => vec![sum.rail, sum.payments.to_string(), "unknown".to_owned(), "?".to_owned()],
                false => vec![sum.rail, sum.payments.to_string(), sum.amount, sum.currency],
            })
            .collect();
        if rows.is_empty() {
            String::new()
        } else {
            table(&["rail", "payments", "amount", "currency"], &rows)
        }
    }
}

impl Sum {
    fn amount(&self) -> String {
        let Some(minor) = self.minor else { return "too much to count".to_owned() };
        let digits = format!("{minor:0>width$}", width = self.decimals + 1);
        match self.decimals {
            0 => digits,
            decimals => {
                let (whole, part) = digits.split_at(digits.len() - decimals);
                format!("{whole}.{part}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn money(amount: &str, currency: &str) -> Money {
        Money::read(Some(&json!(amount)), Some(&json!(currency))).expect("it is money")
    }

    #[test]
    fn sums_are_exact_and_apart_by_rail_and_currency() {
        let mut sums = Sums::default();
        for _ in 0..10 {
            sums.add("mtn", Some(&money("0.10", "ZMW")));
        }
        sums.add("mtn", Some(&money("0.05", "ZMW")));
        sums.add("mtn", Some(&money("500", "UGX")));
        sums.add("bank", Some(&money("9007199254740993.01", "EUR")));
        sums.add("bank", Some(&money("0.01", "EUR")));
        sums.add("bank", None);
        let told: Vec<_> = sums
            .told()
            .into_iter()
            .map(|sum| format!("{} {} {} {}", sum.rail, sum.currency, sum.payments, sum.amount))
            .collect();
        assert_eq!(told, ["bank  1 ", "bank EUR 2 9007199254740993.02", "mtn UGX 1 500", "mtn ZMW 11 1.05"]);
    }
}
