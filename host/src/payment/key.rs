use serde::Deserialize;
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// SHA-256 of the outbox id in its lower-case, hyphenated text form. The only key under which a rail may hear of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RailKey([u8; 32]);

/// The published ways to write it down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyForm {
    /// 64 hexadecimal digits.
    Hex,
    /// The first 32 of them.
    Hex32,
    /// The first 16 bytes with the bits of UUID version 4 and of the RFC variant set.
    Uuid,
}

impl RailKey {
    pub fn of(outbox_id: Uuid) -> Self {
        Self::of_text(&outbox_id.hyphenated().to_string())
    }

    fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    pub fn form(&self, form: KeyForm) -> String {
        match form {
            KeyForm::Hex => hex::encode(self.0),
            KeyForm::Hex32 => hex::encode(&self.0[..16]),
            KeyForm::Uuid => {
                let mut first = [0; 16];
                first.copy_from_slice(&self.0[..16]);
                Builder::from_random_bytes(first).into_uuid().hyphenated().to_string()
            }
        }
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
}
