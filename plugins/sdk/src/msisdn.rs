//! Phone numbers as mobile rails want them: E.164 digits, with the country's own length.

/// How many digits follow the country code, by country code: the numbering plans of the markets where MTN and Airtel pay.
const NATIONAL_DIGITS: [(&str, &[usize]); 28] = [
    ("27", &[9]),
    ("46", &[7, 8, 9]),
    ("56", &[9]),
    ("211", &[9]),
    ("224", &[9]),
    ("225", &[10]),
    ("227", &[8]),
    ("229", &[8, 10]),
    ("231", &[7, 8, 9]),
    ("233", &[9]),
    ("234", &[10]),
    ("235", &[8]),
    ("237", &[9]),
    ("241", &[7, 8]),
    ("242", &[9]),
    ("243", &[9]),
    ("245", &[7, 9]),
    ("248", &[7]),
    ("249", &[9]),
    ("250", &[9]),
    ("254", &[9]),
    ("255", &[9]),
    ("256", &[9]),
    ("258", &[9]),
    ("260", &[9]),
    ("261", &[9]),
    ("265", &[7, 9]),
    ("268", &[8]),
];

/// A number with its country code known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Msisdn<'t> {
    digits: &'t str,
    country: usize,
}

impl<'t> Msisdn<'t> {
    /// Reads `260961234567` or `+260961234567`, for the given country code. A prefix of an operator decides nothing: numbers
    /// move between operators.
    pub fn read(text: &'t str, country: &str) -> Result<Self, String> {
        let digits = text.strip_prefix('+').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("must be digits that begin with the country code {country}"));
        }
        let Some(national) = digits.strip_prefix(country) else {
            return Err(format!("must begin with the country code {country}"));
        };
        let lengths = NATIONAL_DIGITS.iter().find(|(code, _)| *code == country).map(|(_, lengths)| *lengths);
        let fits = match lengths {
            Some(lengths) => lengths.contains(&national.len()),
            None => (4..=15 - country.len()).contains(&national.len()),
        };
        if !fits {
            let expected = lengths.map_or_else(
                || format!("4 to {}", 15 - country.len()),
                |lengths| lengths.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
            );
            return Err(format!("must have {expected} digits after {country}, has {}", national.len()));
        }
        Ok(Self { digits, country: country.len() })
    }

    /// With the country code, without a plus sign.
    pub fn international(&self) -> &'t str {
        self.digits
    }

    /// Without the country code.
    pub fn national(&self) -> &'t str {
        &self.digits[self.country..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_in_both_forms() {
        for text in ["260961234567", "+260961234567"] {
            let number = Msisdn::read(text, "260").expect("a number of Zambia");
            assert_eq!((number.international(), number.national()), ("260961234567", "961234567"));
        }
    }

    #[test]
    fn what_is_wrong_with_a_number_is_said() {
        for (text, problem) in [
            ("", "must be digits"),
            ("call me", "must be digits"),
            ("26096123456٧", "must be digits"),
            ("0961234567", "must begin with the country code 260"),
            ("26096123456", "must have 9 digits after 260, has 8"),
            ("2609612345678", "has 10"),
        ] {
            let refused = Msisdn::read(text, "260").expect_err(text);
            assert!(refused.contains(problem), "{refused}");
        }
        assert!(Msisdn::read("22901234567", "229").is_ok() && Msisdn::read("2290123456789", "229").is_ok());
        assert!(Msisdn::read("99912345", "999").is_ok(), "a country without a row is held to E.164 alone");
    }
}
