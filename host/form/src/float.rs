//! The float: what is left to pay from, as the rail says.

use serde::Deserialize;

use crate::json::Json;

/// `[float.CURRENCY]` of a rail file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloatFile {
    /// A step of class balance.
    pub step: String,
    /// A JSON pointer to the amount in its reply.
    pub value: String,
    /// A JSON pointer to its currency, where the reply names it: another one is no answer.
    pub currency: Option<String>,
    /// It is in the rail's own unit, as `amount.minor` has it, and not in that of the currency.
    #[serde(default)]
    pub minor: bool,
    /// A character that groups the digits: `37,600.00`.
    #[serde(default)]
    pub grouped_by: Option<char>,
    /// Below it nothing is paid.
    pub floor: Option<String>,
    /// Seconds from one look at the balance to the next: 1 or more, 60 where it is left out.
    #[serde(default = "FloatFile::every_default")]
    pub every_seconds: u32,
}

impl FloatFile {
    fn every_default() -> u32 {
        60
    }

    pub(crate) fn check(&self, currency: &str) -> Result<(), String> {
        let key = |at: &str| format!("float.{currency}.{at}");
        for (at, pointer) in [("value", Some(&self.value)), ("currency", self.currency.as_ref())] {
            if pointer.is_some_and(|pointer| !pointer.starts_with('/')) {
                return Err(format!(
                    "{} is {:?}, expected a JSON pointer",
                    key(at),
                    pointer.unwrap_or(&self.value)
                ));
            }
        }
        if self.grouped_by.is_some_and(|char| char.is_ascii_digit() || matches!(char, '.' | '-')) {
            return Err(format!(
                "{} is a digit, a point or a sign; expected a grouping character",
                key("grouped_by")
            ));
        }
        if self.every_seconds == 0 {
            return Err(format!("{} is 0, expected a second or more", key("every_seconds")));
        }
        match &self.floor {
            Some(floor) if minor(floor, currency).is_none() => {
                Err(format!("{} is {floor:?}, expected an amount such as 5000.00", key("floor")))
            }
            _ => Ok(()),
        }
    }

    /// What the reply says is left, in the currency's smallest unit. It may be nothing, or less.
    pub(crate) fn read(&self, currency: &str, units: Option<u32>, body: &[u8]) -> Result<i128, String> {
        let reply = Json::read(body).map_err(|error| format!("the reply {error}"))?;
        let text = |pointer: &str| match reply.at(pointer) {
            Some(Json::Text(text) | Json::Number(text)) => Some(text.clone()),
            _ => None,
        };
        if let Some(pointer) = &self.currency {
            match text(pointer) {
                Some(found) if found == currency => {}
                found => {
                    return Err(format!(
                        "the reply is about {}, expected {currency}",
                        found.unwrap_or_default()
                    ));
                }
            }
        }
        let said = text(&self.value).ok_or_else(|| format!("the reply has no amount at {}", self.value))?;
        let digits: String = said.chars().filter(|char| Some(*char) != self.grouped_by).collect();
        let (sign, digits) = digits.strip_prefix('-').map_or((1, digits.as_str()), |rest| (-1, rest));
        let read = match units.filter(|_| self.minor) {
            None => minor(digits, currency),
            Some(units) => of_units(digits, units, currency),
        };
        read.map(|minor| sign * minor).ok_or_else(|| format!("{said:?} is not an amount of {currency}"))
    }

    /// The floor in the currency's smallest unit.
    pub fn floor_minor(&self, currency: &str) -> Option<i128> {
        minor(self.floor.as_deref()?, currency)
    }
}

/// So many of the rail's units, of which `units` are one of the currency.
fn of_units(digits: &str, units: u32, currency: &str) -> Option<i128> {
    let whole: i128 = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let cents = 10_i128.checked_pow(u32::try_from(payment::decimals(currency)?).ok()?)?;
    whole.checked_mul(cents)?.checked_div(i128::from(units))
}

/// Decimals beyond those of the currency are cut off: a balance is not rounded up.
fn minor(text: &str, currency: &str) -> Option<i128> {
    let decimals = payment::decimals(currency)?;
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(rest) {
        return None;
    }
    let cents: String = rest.chars().chain(std::iter::repeat('0')).take(decimals).collect();
    format!("{whole}{cents}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_is_read_digit_for_digit() {
        let plain: FloatFile =
            toml::from_str("step = \"b\"\nvalue = \"/availableBalance\"\ncurrency = \"/currency\"")
                .expect("TOML");
        let grouped: FloatFile =
            toml::from_str("step = \"b\"\nvalue = \"/data/balance\"\ngrouped_by = \",\"").expect("TOML");
        let of_plain = |body: &str| plain.read("ZMW", None, body.as_bytes());
        let in_units: FloatFile = toml::from_str("step = \"b\"\nvalue = \"/b\"\nminor = true").expect("TOML");
        assert_eq!(in_units.read("ZMW", Some(100), br#"{"b": 10000}"#), Ok(10_000));
        assert_eq!(in_units.read("ZMW", Some(1000), br#"{"b": "10000"}"#), Ok(1_000));
        assert!(in_units.read("ZMW", Some(100), br#"{"b": "100.00"}"#).is_err());
        assert_eq!(of_plain(r#"{"availableBalance": "1000", "currency": "ZMW"}"#), Ok(100_000));
        assert_eq!(of_plain(r#"{"availableBalance": 12.345, "currency": "ZMW"}"#), Ok(1_234));
        assert_eq!(of_plain(r#"{"availableBalance": "-0.5", "currency": "ZMW"}"#), Ok(-50));
        assert_eq!(grouped.read("ZMW", None, br#"{"data": {"balance": "37,600.00"}}"#), Ok(3_760_000));
        for bad in [
            r#"{"availableBalance": "37,600.00", "currency": "ZMW"}"#,
            r#"{"availableBalance": "1000", "currency": "EUR"}"#,
            r#"{"availableBalance": true, "currency": "ZMW"}"#,
            r#"{"currency": "ZMW"}"#,
            "<html>",
        ] {
            assert!(of_plain(bad).is_err(), "{bad}");
        }
    }
}
