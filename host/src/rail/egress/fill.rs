//! Secrets in place of their handles, where the rail's file allows it, and out of sight again in what comes back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde_json::Value;

use super::places::{self, Place};
use super::rules::{Endpoint, SecretEncoding};

/// A handle that was given to the adapter in this call, and what it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    pub text: String,
    /// The name of the secret or token.
    pub name: String,
    pub value: SecretString,
}

/// Headers and body with every handle replaced by its value; the list of names that were used. A handle in a place that
/// the rail's file does not name for it is refused.
pub(crate) fn fill(
    endpoint: &Endpoint,
    handles: &[Handle],
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Filled, String> {
    let mut filled = Filled {
        headers: Vec::with_capacity(headers.len()),
        body: body.to_vec(),
        used: Vec::new(),
        composed: Vec::new(),
    };
    for (name, value) in headers {
        let within: Vec<&Handle> = handles.iter().filter(|handle| value.contains(&handle.text)).collect();
        let place = Place::Header(name.to_ascii_lowercase());
        let mut value = value.clone();
        for handle in &within {
            match encoding(endpoint, handle, &place) {
                None => return Err(format!("{} does not belong in header {name}", handle.name)),
                Some(SecretEncoding::Basic) if !value.starts_with("Basic ") => {
                    return Err(format!("header {name} expects Basic and handles after it"));
                }
                Some(_) => value = value.replace(&handle.text, handle.value.expose_secret()),
            }
            filled.used.push(handle.name.clone());
        }
        let basic = |handle: &&&Handle| encoding(endpoint, handle, &place) == Some(SecretEncoding::Basic);
        if within.iter().any(|handle| basic(&handle)) {
            let encoded = STANDARD.encode(&value["Basic ".len()..]);
            value = format!("Basic {encoded}");
            filled.composed.push(encoded.into());
        }
        filled.headers.push((name.clone(), value));
    }
    for handle in handles {
        let times = count(&filled.body, handle.text.as_bytes());
        if times > 0 {
            let allowed = in_allowed_places(endpoint, handle, body)?;
            if times != allowed {
                return Err(format!("{} stands in the body where it does not belong", handle.name));
            }
            let value = Value::from(handle.value.expose_secret()).to_string();
            filled.body =
                replace(&filled.body, handle.text.as_bytes(), &value.as_bytes()[1..value.len() - 1]);
            filled.used.push(handle.name.clone());
        }
    }
    Ok(filled)
}

#[derive(Debug)]
pub(crate) struct Filled {
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Names of the secrets and tokens that it carries.
    pub used: Vec<String>,
    /// Texts in which secrets are no longer to be found as they are.
    pub composed: Vec<SecretString>,
}

fn encoding(endpoint: &Endpoint, handle: &Handle, place: &Place) -> Option<SecretEncoding> {
    let same = |at: &Place| match (at, place) {
        (Place::Header(left), Place::Header(right)) => left.eq_ignore_ascii_case(right),
        (left, right) => left == right,
    };
    endpoint
        .secrets
        .iter()
        .find(|rule| rule.of.contains(&handle.name) && same(&rule.at))
        .map(|rule| rule.encoding)
}

/// How often the handle stands in the body where the rail's file allows it.
fn in_allowed_places(endpoint: &Endpoint, handle: &Handle, body: &[u8]) -> Result<usize, String> {
    let pointers =
        endpoint.secrets.iter().filter(|rule| rule.of.contains(&handle.name)).filter_map(
            |rule| match &rule.at {
                Place::Json(pointer) => Some(pointer),
                _ => None,
            },
        );
    let mut times = 0;
    for pointer in pointers {
        if let Some(Value::String(text)) = places::json(body)?.pointer(pointer) {
            times += text.matches(&handle.text).count();
        }
    }
    Ok(times)
}

/// What is shown instead of a secret that a rail sent back.
const SCRUBBED: &str = "[secret]";
/// Shorter values are found everywhere by chance: the four digits of a PIN stand in one transaction id of a thousand, and a
/// reply that is altered there is misread. A PIN leaves encrypted, so that nobody sends it back in clear.
const SCRUBBED_CHARS_MIN: usize = 8;

/// The ways in which a secret may be written down, to find it again: plain, as JSON, in base64.
#[derive(Debug)]
pub(crate) struct Veil(Vec<SecretSlice<u8>>);

impl Veil {
    pub(crate) fn over<'s>(secrets: impl IntoIterator<Item = &'s SecretString>) -> Self {
        let mut forms: Vec<Vec<u8>> = Vec::new();
        for secret in secrets {
            let plain = secret.expose_secret();
            if plain.chars().count() < SCRUBBED_CHARS_MIN {
                continue;
            }
            let json = Value::from(plain).to_string();
            let written = [
                plain.as_bytes().to_vec(),
                json.as_bytes()[1..json.len() - 1].to_vec(),
                STANDARD.encode(plain).into(),
            ];
            for form in written {
                if !forms.contains(&form) {
                    forms.push(form);
                }
            }
        }
        Self(forms.into_iter().map(SecretSlice::from).collect())
    }
}

/// Without any of the secrets. What is no UTF-8 is searched all the same.
pub(crate) fn scrub(mut bytes: Vec<u8>, veils: &[&Veil]) -> Vec<u8> {
    for form in veils.iter().flat_map(|veil| &veil.0).map(ExposeSecret::expose_secret) {
        if memmem::find(&bytes, form).is_some() {
            bytes = replace(&bytes, form, SCRUBBED.as_bytes());
        }
    }
    bytes
}

pub(crate) fn scrub_text(text: &str, veils: &[&Veil]) -> String {
    let clean = scrub(text.as_bytes().to_vec(), veils);
    String::from_utf8(clean).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn count(within: &[u8], what: &[u8]) -> usize {
    memmem::find_iter(within, what).count()
}

pub(crate) fn replace(within: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
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
    use super::super::rules::EndpointFile;
    use super::*;

    fn endpoint() -> Endpoint {
        let file: EndpointFile = toml::from_str(
            r#"
            name = "pay"
            method = "POST"
            url = "https://rail.example/pay"
            class = "session"
            secrets = [
              { of = ["api-key"], at = { header = "x-api-key" } },
              { of = ["user", "password"], at = { header = "authorization" }, encoding = "basic" },
              { of = ["pin"], at = { json = "/pin" } },
            ]
            "#,
        )
        .expect("TOML");
        Endpoint::read(&file).expect("sound")
    }

    fn handles() -> Vec<Handle> {
        [("api-key", "k-123456"), ("user", "ada"), ("password", "pa:ss\"word"), ("pin", "12\"34")]
            .map(|(name, value)| Handle {
                text: format!("handle-{name}-"),
                name: name.into(),
                value: value.to_owned().into(),
            })
            .to_vec()
    }

    fn try_fill(headers: &[(&str, &str)], body: &str) -> Result<Filled, String> {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        fill(&endpoint(), &handles(), &headers, body.as_bytes())
    }

    #[test]
    fn handles_become_secrets_where_configuration_says() {
        let filled = try_fill(
            &[
                ("X-Api-Key", "handle-api-key-"),
                ("Authorization", "Basic handle-user-:handle-password-"),
                ("a", "b"),
            ],
            r#"{"pin": "handle-pin-", "x": 1}"#,
        )
        .expect("all are in their places");
        assert_eq!(filled.headers[0].1, "k-123456");
        assert_eq!(filled.headers[1].1, format!("Basic {}", STANDARD.encode("ada:pa:ss\"word")));
        assert_eq!(filled.headers[2].1, "b");
        assert_eq!(filled.body, br#"{"pin": "12\"34", "x": 1}"#);
        assert_eq!(filled.used, ["api-key", "user", "password", "pin"]);
        assert_eq!(filled.headers[1].1, format!("Basic {}", filled.composed[0].expose_secret()));
    }

    #[test]
    fn a_handle_in_any_other_place_is_refused() {
        for (headers, body) in [
            (vec![("x-other", "handle-api-key-")], "{}"),
            (vec![("authorization", "handle-user-:handle-password-")], "{}"),
            (vec![("x-api-key", "handle-pin-")], "{}"),
            (vec![], r#"{"note": "handle-pin-"}"#),
            (vec![], r#"{"pin": "handle-pin-", "note": "handle-pin-"}"#),
            (vec![], "handle-api-key-"),
        ] {
            assert!(try_fill(&headers, body).is_err(), "{headers:?} {body}");
        }
    }

    #[test]
    fn secrets_do_not_come_back() {
        let secret = SecretString::from("pa\"ssword");
        let text =
            format!("plain pa\"ssword, json pa\\\"ssword, base64 {}, rest", STANDARD.encode("pa\"ssword"));
        assert_eq!(
            scrub_text(&text, &[&Veil::over([&secret])]),
            "plain [secret], json [secret], base64 [secret], rest"
        );
    }

    #[test]
    fn a_reply_is_not_altered_where_it_holds_the_digits_of_a_pin_by_chance() {
        let secrets = ["4711", "0090", "1234567"].map(SecretString::from);
        let reply = r#"{"id":"11e594f44711958c","code":"DP00900001001","reference":"1234567"}"#;
        assert_eq!(scrub_text(reply, &[&Veil::over(&secrets)]), reply);
        let eight = SecretString::from("12345678");
        assert_eq!(scrub_text("is 12345678", &[&Veil::over([&eight])]), "is [secret]");
    }
}
