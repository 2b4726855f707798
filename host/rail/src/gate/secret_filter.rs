//! Finds secrets again in what comes back, in the spellings that a rail may give them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use memchr::memmem;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde_json::Value;

/// What is shown instead of a secret that a rail sent back.
const SCRUBBED: &str = "[secret]";
/// Shorter values are found everywhere by chance: the four digits of a PIN stand in one transaction id of a thousand, and a
/// reply that is altered there is misread. A PIN leaves encrypted, so that nobody sends it back in clear.
const SCRUBBED_CHARS_MIN: usize = 8;

/// The ways in which a secret may be written down, to find it again: plain, as JSON, in base64 and its variants, in hexadecimal
/// digits, percent-encoded.
#[derive(Debug)]
pub(crate) struct SecretFilter(Vec<SecretSlice<u8>>);

impl SecretFilter {
    pub(crate) fn over<'s>(secrets: impl IntoIterator<Item = &'s SecretString>) -> Self {
        let mut forms: Vec<Vec<u8>> = Vec::new();
        for secret in secrets {
            let plain = secret.expose_secret();
            if plain.chars().count() < SCRUBBED_CHARS_MIN {
                continue;
            }
            let json = Value::from(plain).to_string();
            let json = json[1..json.len() - 1].to_owned();
            let written = [
                plain.to_owned(),
                json.replace('/', "\\/"),
                json,
                STANDARD.encode(plain),
                STANDARD_NO_PAD.encode(plain),
                URL_SAFE.encode(plain),
                URL_SAFE_NO_PAD.encode(plain),
                hex::encode(plain),
                hex::encode_upper(plain),
                utf8_percent_encode(plain, NON_ALPHANUMERIC).to_string(),
            ];
            for form in written.map(String::into_bytes) {
                if !forms.contains(&form) {
                    forms.push(form);
                }
            }
        }
        // The longest first, so that a part of one does not hide the rest of it.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Self(forms.into_iter().map(SecretSlice::from).collect())
    }

    fn forms(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(ExposeSecret::expose_secret)
    }
}

/// Whether any of the secrets is there.
pub(crate) fn holds_secret(bytes: &[u8], secret_filters: &[&SecretFilter]) -> bool {
    secret_filters
        .iter()
        .flat_map(|secret_filter| secret_filter.forms())
        .any(|form| memmem::find(bytes, form).is_some())
}

/// Without any of the secrets.
pub(crate) fn scrub_text(text: &str, secret_filters: &[&SecretFilter]) -> String {
    if text.len() < SCRUBBED_CHARS_MIN || !holds_secret(text.as_bytes(), secret_filters) {
        return text.to_owned();
    }
    let mut clean = text.as_bytes().to_vec();
    for form in secret_filters.iter().flat_map(|secret_filter| secret_filter.forms()) {
        if memmem::find(&clean, form).is_some() {
            clean = replace(&clean, form, SCRUBBED.as_bytes());
        }
    }
    String::from_utf8(clean).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn replace(within: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(within.len());
    let mut from = 0;
    for at in memmem::find_iter(within, what) {
        replaced.extend_from_slice(&within[from..at]);
        replaced.extend_from_slice(by);
        from = at + what.len();
    }
    replaced.extend_from_slice(&within[from..]);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_come_back_in_any_spelling() {
        let secret = SecretString::from("pa\"ss/w?rd");
        let secret_filter = SecretFilter::over([&secret]);
        for spelled in [
            "pa\"ss/w?rd".to_owned(),
            "pa\\\"ss/w?rd".to_owned(),
            "pa\\\"ss\\/w?rd".to_owned(),
            STANDARD.encode("pa\"ss/w?rd"),
            URL_SAFE_NO_PAD.encode("pa\"ss/w?rd"),
            hex::encode("pa\"ss/w?rd"),
            "pa%22ss%2Fw%3Frd".to_owned(),
        ] {
            let text = format!("it is {spelled}.");
            assert!(holds_secret(text.as_bytes(), &[&secret_filter]), "{spelled}");
            assert_eq!(scrub_text(&text, &[&secret_filter]), "it is [secret].", "{spelled}");
        }
        assert!(!holds_secret(b"pa ss/w?rd", &[&secret_filter]));
    }

    #[test]
    fn a_reply_is_not_altered_where_it_holds_the_digits_of_a_pin_by_chance() {
        let secrets = ["4711", "0090", "1234567"].map(SecretString::from);
        let reply = r#"{"id":"11e594f44711958c","code":"DP00900001001","reference":"1234567"}"#;
        assert_eq!(scrub_text(reply, &[&SecretFilter::over(&secrets)]), reply);
        let eight = SecretString::from("12345678");
        assert_eq!(scrub_text("is 12345678", &[&SecretFilter::over([&eight])]), "is [secret]");
    }
}
