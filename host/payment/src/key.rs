//! The idempotency key at the rail, made by `Instruction::read` (`lib.rs`). It is not the caller's key, and not a cryptographic key.

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// SHA-256 of the outbox id in its lower-case, hyphenated text form. The only key under which a rail may hear of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RailKey([u8; 32]);

/// The published ways to write it down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyForm {
    /// 64 hexadecimal digits.
    Hex,
    /// The first 32 of them.
    Hex32,
    /// The first 16 bytes with the bits of UUID version 4 and of the RFC variant set.
    Uuid,
    /// The digest as a number, its last decimal digits: 20 to 64 of them.
    Digits(u8),
    /// The same in capital letters: 14 to 54 of them.
    Letters(u8),
    /// The same in digits and capital letters: 13 to 49 of them.
    Alnum(u8),
}

/// With fewer characters two payments could get the same key. Each minimum keeps 64 bits or more; no maximum is beyond the digest.
const DIGITS: std::ops::RangeInclusive<u8> = 20..=64;
const LETTERS: std::ops::RangeInclusive<u8> = 14..=54;
const ALNUM: std::ops::RangeInclusive<u8> = 13..=49;

impl KeyForm {
    /// Reads `hex`, `hex32`, `uuid`, `digits20`, `letters14`, `alnum16`.
    pub fn parse(text: &str) -> Option<Self> {
        let counted = |prefix: &str, range: std::ops::RangeInclusive<u8>| {
            let count = text.strip_prefix(prefix)?;
            let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
            count.parse().ok().filter(|count| is_number && range.contains(count))
        };
        match text {
            "hex" => Some(Self::Hex),
            "hex32" => Some(Self::Hex32),
            "uuid" => Some(Self::Uuid),
            _ => counted("digits", DIGITS)
                .map(Self::Digits)
                .or_else(|| counted("letters", LETTERS).map(Self::Letters))
                .or_else(|| counted("alnum", ALNUM).map(Self::Alnum)),
        }
    }
}

/// As a rail file writes it.
impl std::fmt::Display for KeyForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hex => f.write_str("hex"),
            Self::Hex32 => f.write_str("hex32"),
            Self::Uuid => f.write_str("uuid"),
            Self::Digits(count) => write!(f, "digits{count}"),
            Self::Letters(count) => write!(f, "letters{count}"),
            Self::Alnum(count) => write!(f, "alnum{count}"),
        }
    }
}

impl RailKey {
    /// Makes the key of a payment. The same id gives the same key in every attempt and on every host.
    pub fn of(outbox_id: Uuid) -> Self {
        Self::of_text(&outbox_id.hyphenated().to_string())
    }

    fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Its first hexadecimal digits: they are the same in all forms that have such digits, and find the payment or very few others.
    pub fn prefix(&self) -> String {
        hex::encode(&self.0[..Self::PREFIX_DIGITS / 2])
    }

    /// Of [`Self::prefix`].
    pub const PREFIX_DIGITS: usize = 12;

    /// Writes the key in one of its forms; hexadecimal digits are in lower case.
    pub fn form(&self, form: KeyForm) -> String {
        match form {
            KeyForm::Hex => hex::encode(self.0),
            KeyForm::Hex32 => hex::encode(&self.0[..16]),
            KeyForm::Uuid => {
                let mut first = [0; 16];
                first.copy_from_slice(&self.0[..16]);
                Builder::from_random_bytes(first).into_uuid().hyphenated().to_string()
            }
            KeyForm::Digits(count) => self.last_digits(b"0123456789", count),
            KeyForm::Letters(count) => self.last_digits(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", count),
            KeyForm::Alnum(count) => self.last_digits(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", count),
        }
    }

    /// The digest as one large number, written with these digits.
    fn last_digits(&self, digits: &[u8], count: u8) -> String {
        let (mut number, base) = (self.0, digits.len() as u32);
        let mut last = Vec::with_capacity(count.into());
        for _ in 0..count {
            let mut rest = 0;
            for byte in &mut number {
                let value = rest * 256 + u32::from(*byte);
                (*byte, rest) = ((value / base) as u8, value % base);
            }
            last.push(char::from(digits[rest as usize]));
        }
        last.into_iter().rev().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_and_its_forms_are_the_published_ones() {
        for (text, hex, uuid) in [
            (
                "test",
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                "9f86d081-884c-4d65-9a2f-eaa0c55ad015",
            ),
            (
                "42",
                "73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049",
                "73475cb4-0a56-4e8d-a8a0-45ced110137e",
            ),
            (
                "00000000-0000-4000-8000-000000000001",
                "11e594f481958c10e3015d0bf0447a22f068a8a647f475df15ce2c7ab4b8f3f1",
                "11e594f4-8195-4c10-a301-5d0bf0447a22",
            ),
        ] {
            let key = RailKey::of_text(text);
            assert_eq!(key.form(KeyForm::Hex), hex);
            assert_eq!(key.form(KeyForm::Hex32), hex[..32]);
            assert_eq!(key.form(KeyForm::Uuid), uuid);
        }
    }

    /// Computed with Python: `int(hashlib.sha256(b"test").hexdigest(), 16)`, its last digits in base 10, 26 and 36.
    #[test]
    fn a_key_of_few_characters_is_the_end_of_the_number() {
        let key = RailKey::of_text("test");
        assert_eq!(key.form(KeyForm::Digits(20)), "68957390607644363272");
        assert_eq!(key.form(KeyForm::Letters(14)), "VEBUVQOKBEGNDW");
        assert_eq!(key.form(KeyForm::Alnum(16)), "U4QCWQOOIDYTQ9ZC");
    }

    #[test]
    fn a_form_that_holds_too_little_of_the_key_is_not_known() {
        assert_eq!(KeyForm::parse("digits20"), Some(KeyForm::Digits(20)));
        for text in ["digits19", "digits65", "letters13", "alnum12", "digits", "hex64", "digits+20", ""] {
            assert_eq!(KeyForm::parse(text), None, "{text}");
        }
    }
}
