//! Amounts, read exactly and never through a float.

use iso_currency::Currency;
use serde_json::Value;

use super::violation::Violation;

/// An amount in canonical form: digits, and exactly as many decimals as its currency has. Never a float.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Money {
    amount: String,
    currency: String,
}

/// More than any currency's money supply in its smallest unit.
const DIGITS_MAX: usize = 24;

impl Money {
    /// Reads an amount, given as a text or as a JSON number, and its currency. Says all that is wrong.
    pub fn read(amount: Option<&Value>, currency: Option<&Value>) -> Result<Self, Vec<Violation>> {
        let written = match amount {
            Some(Value::String(text)) => Ok(text.clone()),
            // With arbitrary precision a number is kept as it was written.
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(_) => Err("must be a text or a number".to_owned()),
            None => Err("is missing".to_owned()),
        };
        let parsed = written.as_deref().map_err(String::clone).and_then(Decimal::parse);
        let known = match currency {
            Some(Value::String(code)) => decimals_of(code).map(|decimals| (code.clone(), decimals)),
            Some(_) => Err("must be a text".to_owned()),
            None => Err("is missing".to_owned()),
        };
        match (parsed, known) {
            (Ok(decimal), Ok((currency, decimals))) => match decimal.with_decimals(decimals) {
                Some(amount) => Ok(Self { amount, currency }),
                None => Err(vec![Violation::new(
                    "amount",
                    format!("has {} decimals, {currency} has {decimals}", decimal.decimals.len()),
                )]),
            },
            (amount, currency) => {
                let amount = amount.err().map(|problem| Violation::new("amount", problem));
                let currency = currency.err().map(|problem| Violation::new("currency", problem));
                Err(amount.into_iter().chain(currency).collect())
            }
        }
    }

    /// Digits, then a point and as many decimals as the currency has: `10.50`, or `500` where it has none.
    pub fn amount(&self) -> &str {
        &self.amount
    }

    /// Code of ISO 4217, three capital letters.
    pub fn currency(&self) -> &str {
        &self.currency
    }
}

/// How many decimals amounts in a currency have; none where it is no currency.
pub fn decimals(code: &str) -> Option<usize> {
    decimals_of(code).ok()
}

fn decimals_of(code: &str) -> Result<usize, String> {
    // Not repeated: it may be anything, a payee's number in the wrong column among it.
    if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err("must be three capital letters, as in ISO 4217".to_owned());
    }
    let currency = Currency::from_code(code).ok_or_else(|| format!("{code} is not an ISO 4217 currency"))?;
    currency
        .exponent()
        .map(usize::from)
        .ok_or_else(|| format!("{code} has no minor unit in ISO 4217, so nothing can be paid in it"))
}

/// Whether two amounts are equal in value, whatever their number of decimals. A text that is no plain amount equals nothing.
pub fn same_amount(left: &str, right: &str) -> bool {
    let value = |text: &str| {
        let decimal = Decimal::parse(text).ok()?;
        Some((decimal.whole.to_owned(), decimal.decimals.trim_end_matches('0').to_owned()))
    };
    matches!((value(left), value(right)), (Some(left), Some(right)) if left == right)
}

struct Decimal<'a> {
    /// Without leading zeros, empty for zero.
    whole: &'a str,
    decimals: &'a str,
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let (whole, decimals) = match text.split_once('.') {
            Some((_, "")) => return Err("must not end with a point".to_owned()),
            Some(parts) => parts,
            None => (text, ""),
        };
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(decimals) {
            return Err("must be a plain decimal: digits, at most one point, no sign, no exponent".to_owned());
        }
        let whole = whole.trim_start_matches('0');
        if whole.len() + decimals.len() > DIGITS_MAX {
            return Err(format!("must have at most {DIGITS_MAX} digits"));
        }
        if whole.is_empty() && decimals.bytes().all(|byte| byte == b'0') {
            return Err("must be greater than zero".to_owned());
        }
        Ok(Self { whole, decimals })
    }

    fn with_decimals(&self, decimals: usize) -> Option<String> {
        if self.decimals.len() > decimals {
            return None;
        }
        let whole = if self.whole.is_empty() { "0" } else { self.whole };
        Some(match decimals {
            0 => whole.to_owned(),
            _ => format!("{whole}.{:0<decimals$}", self.decimals),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(amount: &str, currency: &str) -> Result<Money, Vec<Violation>> {
        let amount: Value = serde_json::from_str(amount).expect("JSON");
        Money::read(Some(&amount), Some(&Value::String(currency.to_owned())))
    }

    #[test]
    fn an_amount_gets_exactly_the_decimals_of_its_currency() {
        for (amount, currency, canonical) in [
            ("\"10\"", "ZMW", "10.00"),
            ("\"10.5\"", "ZMW", "10.50"),
            ("10.05", "ZMW", "10.05"),
            ("500", "UGX", "500"),
            ("\"0007.125\"", "KWD", "7.125"),
            ("0.01", "EUR", "0.01"),
            ("123456789012345678901.23", "EUR", "123456789012345678901.23"),
        ] {
            assert_eq!(read(amount, currency).expect(amount).amount(), canonical);
        }
    }

    #[test]
    fn what_is_no_exact_amount_is_refused() {
        for amount in [
            "\"1e3\"",
            "1e3",
            "-1",
            "\"+1\"",
            "0",
            "\"0.00\"",
            "\"\"",
            "\"1,5\"",
            "\".5\"",
            "\"5.\"",
            "\"1 000\"",
            "null",
            "true",
        ] {
            assert!(read(amount, "ZMW").is_err(), "{amount}");
        }
        assert!(read("\"10.005\"", "ZMW").is_err(), "a third decimal");
        assert!(read("\"10.0\"", "UGX").is_err(), "a decimal where the currency has none");
        assert!(read("1", "zmw").is_err() && read("1", "ZZZ").is_err() && read("1", "XAU").is_err());
    }

    #[test]
    fn amounts_are_compared_by_value_and_never_by_float() {
        assert!(same_amount("5.00", "5") && same_amount("0.10", "0.1") && same_amount("007", "7"));
        assert!(!same_amount("5.00", "5.01") && !same_amount("5", "5e0") && !same_amount("", ""));
        assert!(!same_amount("0.30000000000000004", "0.3"));
    }
}
