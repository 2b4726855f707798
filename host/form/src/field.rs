//! Which texts may stand in a field of the form, and how they are written. A text that does not fit refuses the payment that it
//! came with; it is never changed into one that does.

use payment::is_unsafe;
use serde::Deserialize;

/// A field as the rail file writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FieldFile {
    /// What the text is; `text` where it is left out.
    pub kind: FieldKind,
    /// Characters that a text may have. Needed for a text without `values`, and allowed nowhere else.
    pub chars: Option<Chars>,
    /// Characters besides those.
    pub also: String,
    /// The least number of characters; 1 where it is left out.
    pub min: Option<usize>,
    /// The greatest number of characters: 1 to 10 000. Needed wherever `chars` is.
    pub max: Option<usize>,
    /// Of phone numbers: the country code, without a plus sign.
    pub country: Option<String>,
    /// Instead of characters and lengths: all texts that are allowed.
    pub values: Vec<String>,
    /// A payment may leave it out.
    pub optional: bool,
}

/// What the text of a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldKind {
    /// A text of certain characters and a certain length, or one of a list.
    #[default]
    Text,
    /// A phone number: E.164 digits with the country code, with or without a plus sign.
    Msisdn,
    /// A bank's code by ISO 9362.
    Bic,
}

/// A set of characters. All but the last two are ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Chars {
    /// 0 to 9.
    Digits,
    /// A to Z and a to z.
    Letters,
    /// A to Z, a to z and 0 to 9.
    Alnum,
    /// Capital letters and digits.
    Upper,
    /// What banks take in texts: letters, digits, blanks and `/-?:().,'+`.
    Swift,
    /// Visible characters and blanks.
    Ascii,
    /// Letters and digits of any alphabet.
    Words,
    /// Anything that is shown, of any alphabet.
    Text,
}

/// How a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// As it is; of phone numbers the international one, without a plus sign.
    Plain,
    /// Of phone numbers: without the country code.
    National,
    /// Of phone numbers: 0 and the national number.
    Local,
    /// Of phone numbers: with a plus sign.
    Plus,
}

impl Writing {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "national" => Some(Self::National),
            "local" => Some(Self::Local),
            "plus" => Some(Self::Plus),
            _ => None,
        }
    }
}

/// A field, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// A payment may leave it out.
    pub optional: bool,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Text { chars: Chars, also: String, min: usize, max: usize },
    Values(Vec<String>),
    Msisdn { country: String },
    Bic,
}

/// Longer texts are no field of a payment.
const CHARS_MAX: usize = 10_000;

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

impl Field {
    /// `key` is the field's place in the rail file, for messages.
    pub(crate) fn read(key: &str, file: &FieldFile) -> Result<Self, String> {
        let is_text = file.kind == FieldKind::Text;
        let given = |what: &str, is_given: bool| match is_given {
            true => Err(format!("{key}.{what} is not allowed for this kind of field")),
            false => Ok(()),
        };
        if !is_text || !file.values.is_empty() {
            given("chars", file.chars.is_some())?;
            given("also", !file.also.is_empty())?;
            given("min", file.min.is_some())?;
            given("max", file.max.is_some())?;
        }
        if file.kind != FieldKind::Msisdn {
            given("country", file.country.is_some())?;
        }
        let rule = match file.kind {
            FieldKind::Bic => Rule::Bic,
            FieldKind::Msisdn => {
                let country = file.country.clone().unwrap_or_default();
                if !(1..=3).contains(&country.len()) || !country.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(format!(
                        "{key}.country is {country:?}, expected the country code of phone numbers, such as 260"
                    ));
                }
                Rule::Msisdn { country }
            }
            FieldKind::Text if !file.values.is_empty() => Rule::Values(file.values.clone()),
            FieldKind::Text => {
                let chars = file.chars.ok_or_else(|| {
                    format!(
                        "{key}.chars is missing, expected digits, letters, alnum, upper, swift, ascii, words or text"
                    )
                })?;
                let (min, max) = (file.min.unwrap_or(1), file.max.unwrap_or(0));
                if max == 0 || max > CHARS_MAX || min > max {
                    return Err(format!("{key}.max is {max}, expected 1 to {CHARS_MAX}, not below min"));
                }
                if file.also.contains(is_unsafe) {
                    return Err(format!("{key}.also holds a character that is never sent"));
                }
                Rule::Text { chars, also: file.also.clone(), min, max }
            }
        };
        Ok(Self { optional: file.optional, rule })
    }

    /// The normal form of a text, or what is wrong with it. The text itself is not repeated: it may be a payee's.
    pub fn check(&self, text: &str) -> Result<String, String> {
        match &self.rule {
            Rule::Values(values) => match values.iter().any(|value| value == text) {
                true => Ok(text.to_owned()),
                false => Err(format!("must be one of {}", values.join(", "))),
            },
            Rule::Msisdn { country } => msisdn(text, country),
            Rule::Bic => match is_bic(text) {
                true => Ok(text.to_owned()),
                false => Err("must be a BIC: 8 or 11 capital letters and digits".to_owned()),
            },
            Rule::Text { chars, also, min, max } => {
                let count = text.chars().take(max + 1).count();
                if !(*min..=*max).contains(&count) {
                    return Err(match min == max {
                        true => format!("must have {max} characters"),
                        false => format!("must have {min} to {max} characters"),
                    });
                }
                match text.chars().find(|char| !chars.contain(*char) && !also.contains(*char)) {
                    None => Ok(text.to_owned()),
                    Some(_) if also.is_empty() => Err(format!("must be {}", chars.told())),
                    Some(_) => Err(format!("must be {}, and {also:?}", chars.told())),
                }
            }
        }
    }

    /// How a normal form is written. None: this field is not written so.
    pub(crate) fn write(&self, normal: &str, writing: Writing) -> Option<String> {
        match (&self.rule, writing) {
            (_, Writing::Plain) => Some(normal.to_owned()),
            (Rule::Msisdn { country }, writing) => {
                let national = normal.strip_prefix(country.as_str())?;
                Some(match writing {
                    Writing::National | Writing::Plain => national.to_owned(),
                    Writing::Local => format!("0{national}"),
                    Writing::Plus => format!("+{normal}"),
                })
            }
            _ => None,
        }
    }

    /// Whether a text that fits may hold this character.
    pub(crate) fn may_hold(&self, char: char) -> bool {
        match &self.rule {
            Rule::Values(values) => values.iter().any(|value| value.contains(char)),
            Rule::Msisdn { .. } => char.is_ascii_digit() || char == '+',
            Rule::Bic => Chars::Upper.contain(char),
            Rule::Text { chars, also, .. } => chars.contain(char) || also.contains(char),
        }
    }

    /// The longest text that fits.
    pub(crate) fn chars_max(&self) -> usize {
        match &self.rule {
            Rule::Text { max, .. } => *max,
            Rule::Values(values) => {
                values.iter().map(|value| value.chars().count()).max().unwrap_or_default()
            }
            Rule::Msisdn { .. } | Rule::Bic => 16,
        }
    }

    pub(crate) fn is_msisdn(&self) -> bool {
        matches!(self.rule, Rule::Msisdn { .. })
    }

    /// Any text of some characters, as opposed to one of a list.
    pub fn is_free(&self) -> bool {
        !matches!(self.rule, Rule::Values(_))
    }

    /// A text that fits, for worked examples.
    pub(crate) fn example(&self) -> String {
        match &self.rule {
            Rule::Values(values) => values[0].clone(),
            Rule::Msisdn { country } => {
                let digits = lengths(country).map_or(9, |lengths| lengths[0]);
                format!("{country}{}", &"9612345678901"[..digits])
            }
            Rule::Bic => "AAAAZMLX".to_owned(),
            Rule::Text { chars, min, max, .. } => {
                let pattern = match chars {
                    Chars::Digits => "1234567890",
                    Chars::Upper => "ABC123",
                    Chars::Letters => "Example",
                    Chars::Alnum => "Ex4mple",
                    Chars::Swift | Chars::Ascii | Chars::Words | Chars::Text => "Example",
                };
                let count = pattern.len().clamp(*min, *max);
                pattern.chars().cycle().take(count).collect()
            }
        }
    }

    /// What may stand there, in words, for an approver.
    pub(crate) fn told(&self) -> String {
        match &self.rule {
            Rule::Values(values) => format!("one of {}", values.join(", ")),
            Rule::Msisdn { country } => format!("a phone number of {country}"),
            Rule::Bic => "a BIC".to_owned(),
            Rule::Text { chars, also, min, max } => {
                let also = if also.is_empty() { String::new() } else { format!(" and {also:?}") };
                format!("{min} to {max} characters: {}{also}", chars.told())
            }
        }
    }
}

impl Chars {
    fn contain(self, char: char) -> bool {
        match self {
            Self::Digits => char.is_ascii_digit(),
            Self::Letters => char.is_ascii_alphabetic(),
            Self::Alnum => char.is_ascii_alphanumeric(),
            Self::Upper => char.is_ascii_uppercase() || char.is_ascii_digit(),
            Self::Swift => char.is_ascii_alphanumeric() || " /-?:().,'+".contains(char),
            Self::Ascii => char == ' ' || char.is_ascii_graphic(),
            Self::Words => char.is_alphanumeric(),
            Self::Text => !is_unsafe(char) && !matches!(char, '\u{fffe}' | '\u{ffff}'),
        }
    }

    fn told(self) -> &'static str {
        match self {
            Self::Digits => "digits (0 to 9)",
            Self::Letters => "letters (a to z, A to Z)",
            Self::Alnum => "letters and digits (a to z, A to Z, 0 to 9)",
            Self::Upper => "capital letters and digits (A to Z, 0 to 9)",
            Self::Swift => "letters, digits, blanks and /-?:().,'+ (the character set of SWIFT)",
            Self::Ascii => "visible ASCII characters and blanks",
            Self::Words => "letters and digits of any alphabet",
            Self::Text => "text without control characters",
        }
    }
}

fn lengths(country: &str) -> Option<&'static [usize]> {
    NATIONAL_DIGITS.iter().find(|(code, _)| *code == country).map(|(_, lengths)| *lengths)
}

/// `260961234567` or `+260961234567`. A prefix of an operator decides nothing: numbers move between operators.
fn msisdn(text: &str, country: &str) -> Result<String, String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("must be digits that begin with the country code {country}"));
    }
    let Some(national) = digits.strip_prefix(country) else {
        return Err(format!("must begin with the country code {country}"));
    };
    let lengths = lengths(country);
    let fits = match lengths {
        Some(lengths) => lengths.contains(&national.len()),
        None => (4..=15 - country.len()).contains(&national.len()),
    };
    if fits {
        return Ok(digits.to_owned());
    }
    let expected = lengths.map_or_else(
        || format!("4 to {}", 15 - country.len()),
        |lengths| lengths.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
    );
    Err(format!("must have {expected} digits after {country}, has {}", national.len()))
}

/// `[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}([A-Z0-9]{3})?`
fn is_bic(text: &str) -> bool {
    matches!(text.len(), 8 | 11)
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| byte.is_ascii_uppercase() || byte.is_ascii_digit() && !(4..6).contains(&at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(toml: &str) -> Field {
        Field::read("f", &toml::from_str(toml).expect("TOML")).expect("a field")
    }

    #[test]
    fn a_phone_number_is_written_in_four_ways() {
        let field = field("kind = \"msisdn\"\ncountry = \"260\"");
        for text in ["260961234567", "+260961234567"] {
            let normal = field.check(text).expect("a number of Zambia");
            let written = [Writing::Plain, Writing::National, Writing::Local, Writing::Plus]
                .map(|writing| field.write(&normal, writing).expect("written"));
            assert_eq!(written, ["260961234567", "961234567", "0961234567", "+260961234567"]);
        }
        for (text, problem) in [
            ("", "must be digits"),
            ("call me", "must be digits"),
            ("26096123456٧", "must be digits"),
            ("0961234567", "must begin with the country code 260"),
            ("26096123456", "must have 9 digits after 260, has 8"),
        ] {
            assert!(field.check(text).expect_err(text).contains(problem), "{text}");
        }
    }

    #[test]
    fn a_text_is_held_to_its_characters_and_its_length() {
        let account = field("chars = \"alnum\"\nmax = 34");
        assert!(account.check("DE02120300000000202051").is_ok());
        for bad in ["", "12 34", "12-34", "١٢٣", "a\u{202e}b", "x\n", &"1".repeat(35)] {
            assert!(account.check(bad).is_err(), "{bad:?}");
        }
        let note = field("chars = \"text\"\nmax = 5");
        assert!(note.check("Zürüç").is_ok() && note.check("]]><&").is_ok());
        for bad in ["sixsix", "a\u{0}b", "a\u{200f}b", "a\nb", "a\u{fffe}"] {
            assert!(note.check(bad).is_err(), "{bad:?}");
        }
        let words = field("chars = \"words\"\nalso = \" .\"\nmax = 20");
        assert!(words.check("Wages of May.").is_ok() && words.check("it's").is_err());
        let listed = field("values = [\"A\", \"B\"]");
        assert!(listed.check("B").is_ok() && listed.check("b").is_err());
    }

    #[test]
    fn a_field_without_its_bounds_is_refused_with_its_key() {
        for (toml, problem) in [
            ("max = 3", "f.chars is missing"),
            ("chars = \"digits\"", "f.max is 0"),
            ("chars = \"digits\"\nmin = 4\nmax = 3", "f.max is 3"),
            ("kind = \"msisdn\"", "f.country is \"\""),
            ("kind = \"bic\"\nmax = 11", "f.max is not allowed"),
            ("chars = \"digits\"\nmax = 3\ncountry = \"260\"", "f.country is not allowed"),
        ] {
            let refused = Field::read("f", &toml::from_str(toml).expect("TOML")).expect_err(toml);
            assert!(refused.starts_with(problem), "{refused}");
        }
    }
}
