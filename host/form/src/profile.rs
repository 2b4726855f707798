//! Signatures over a whole request, by the profiles that rails publish. Pure: what is signed, byte for byte, and how the result is
//! written.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use crate::file::DigestStyle;
use crate::request::RequestTarget;

/// A request as far as it is written: all but its signatures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsigned<'r> {
    pub method: &'r str,
    pub target: &'r RequestTarget,
    /// With its query.
    pub path: &'r str,
    pub headers: &'r [(String, String)],
}

/// Derived components that RFC 9421 names and a request of ours has.
const DERIVED: [&str; 5] = ["@method", "@target-uri", "@authority", "@path", "@query"];
/// What draft-cavage names besides headers.
const REQUEST_TARGET: &str = "(request-target)";

impl Unsigned<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a component of RFC 9421.
    fn component(&self, name: &str) -> Option<String> {
        let (path, query) = self.path.split_once('?').unwrap_or((self.path, ""));
        Some(match name {
            "@method" => self.method.to_owned(),
            "@target-uri" => format!("{}://{}{}", self.target.scheme, self.target.authority(), self.path),
            "@authority" => self.target.authority().to_lowercase(),
            "@path" => path.to_owned(),
            "@query" => format!("?{query}"),
            _ => self.header(name)?.trim().to_owned(),
        })
    }
}

/// What draft-cavage signs: a line each, without a line end after the last. The error names what is not in the request.
pub(crate) fn cavage_text(request: &Unsigned<'_>, headers: &[String]) -> Result<String, String> {
    let line = |name: &String| {
        let value = match name.as_str() {
            REQUEST_TARGET => Some(format!("{} {}", request.method.to_lowercase(), request.path)),
            "host" => Some(request.target.authority()),
            _ => request.header(name).map(str::to_owned),
        };
        value.map(|value| format!("{name}: {value}")).ok_or_else(|| name.clone())
    };
    Ok(headers.iter().map(line).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

pub(crate) fn cavage_header(key_id: &str, algorithm: &str, headers: &[String], signature: &[u8]) -> String {
    format!(
        "keyId=\"{key_id}\",algorithm=\"{algorithm}\",headers=\"{}\",signature=\"{}\"",
        headers.join(" "),
        STANDARD.encode(signature)
    )
}

/// The parameters of a signature by RFC 9421.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageParameters<'p> {
    pub components: &'p [String],
    pub key_id: &'p str,
    pub created: DateTime<Utc>,
    pub expires: Option<u32>,
    pub tag: Option<&'p str>,
    pub alg: Option<&'p str>,
}

impl MessageParameters<'_> {
    /// As they are signed, and as they stand after the label in `signature-input`.
    pub(crate) fn written(&self) -> String {
        let components: Vec<String> = self.components.iter().map(|name| format!("\"{name}\"")).collect();
        let created = self.created.timestamp();
        let mut written = format!("({});created={created}", components.join(" "));
        if let Some(seconds) = self.expires {
            written += &format!(";expires={}", created + i64::from(seconds));
        }
        for (name, value) in [("keyid", Some(self.key_id)), ("alg", self.alg), ("tag", self.tag)] {
            if let Some(value) = value {
                written += &format!(";{name}=\"{value}\"");
            }
        }
        written
    }

    /// The signature base. The error names what is not in the request.
    pub(crate) fn base(&self, request: &Unsigned<'_>) -> Result<String, String> {
        let mut base = String::new();
        for name in self.components {
            let value = request.component(name).ok_or_else(|| name.clone())?;
            base += &format!("\"{name}\": {value}\n");
        }
        base += &format!("\"@signature-params\": {}", self.written());
        Ok(base)
    }
}

/// What a JWS signs, and what stands before its signature. `header` is the protected header, written.
pub(crate) fn jws_input(header: &[u8], body: &[u8], is_encoded: bool) -> (Vec<u8>, String) {
    let protected = URL_SAFE_NO_PAD.encode(header);
    let mut input = format!("{protected}.").into_bytes();
    match is_encoded {
        true => input.extend_from_slice(URL_SAFE_NO_PAD.encode(body).as_bytes()),
        false => input.extend_from_slice(body),
    }
    (input, protected)
}

pub(crate) fn jws_detached(protected: &str, signature: &[u8]) -> String {
    format!("{protected}..{}", URL_SAFE_NO_PAD.encode(signature))
}

pub(crate) fn body_digest(style: DigestStyle, body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    match style {
        DigestStyle::ContentDigest => format!("sha-256=:{}:", STANDARD.encode(digest)),
        DigestStyle::Digest => format!("SHA-256={}", STANDARD.encode(digest)),
        DigestStyle::Hex => hex::encode(digest),
    }
}

/// Whether a name can be signed by RFC 9421 here, besides headers of the request.
pub(crate) fn is_derived(name: &str) -> bool {
    DERIVED.contains(&name)
}

/// The same of draft-cavage.
pub(crate) fn is_cavage_own(name: &str) -> bool {
    matches!(name, REQUEST_TARGET | "host")
}

/// A text that may stand between quotation marks in a header without being escaped.
pub(crate) fn is_quotable(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| (byte == b' ' || byte.is_ascii_graphic()) && !matches!(byte, b'"' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> RequestTarget {
        RequestTarget { scheme: "https".to_owned(), host: "example.com".to_owned(), port: 443 }
    }

    fn header(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Appendix B.2.5 of RFC 9421, but for the query, which our components leave out.
    #[test]
    fn a_signature_base_is_that_of_the_rfc() {
        let (target, headers) = (
            target(),
            [header("date", "Tue, 20 Apr 2021 02:07:55 GMT"), header("content-type", "application/json")],
        );
        let request =
            Unsigned { method: "POST", target: &target, path: "/foo?param=Value&Pet=dog", headers: &headers };
        let components = names(&["date", "@authority", "content-type"]);
        let parameters = MessageParameters {
            components: &components,
            key_id: "test-shared-secret",
            created: DateTime::from_timestamp(1_618_884_473, 0).expect("a time"),
            expires: None,
            tag: None,
            alg: None,
        };
        assert_eq!(
            parameters.base(&request).expect("all is there"),
            "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@authority\": example.com\n\"content-type\": application/json\n\
             \"@signature-params\": (\"date\" \"@authority\" \"content-type\");created=1618884473;keyid=\"test-shared-secret\""
        );
        let derived = names(&["@method", "@target-uri", "@path", "@query"]);
        let base =
            MessageParameters { components: &derived, ..parameters }.base(&request).expect("all is there");
        assert!(base.starts_with(
            "\"@method\": POST\n\"@target-uri\": https://example.com/foo?param=Value&Pet=dog\n\"@path\": /foo\n\"@query\": ?param=Value&Pet=dog\n"
        ));
        let missing = names(&["digest"]);
        assert_eq!(
            MessageParameters { components: &missing, ..parameters }.base(&request),
            Err("digest".to_owned())
        );
    }

    /// Appendix C.3 of draft-cavage-http-signatures-12.
    #[test]
    fn a_signing_string_is_that_of_the_draft() {
        let target = target();
        let headers = [
            header("date", "Sun, 05 Jan 2014 21:31:40 GMT"),
            header("content-type", "application/json"),
            header("digest", "SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="),
            header("content-length", "18"),
        ];
        let request =
            Unsigned { method: "POST", target: &target, path: "/foo?param=value&pet=dog", headers: &headers };
        let signed = names(&["(request-target)", "host", "date", "content-type", "digest", "content-length"]);
        assert_eq!(
            cavage_text(&request, &signed).expect("all is there"),
            "(request-target): post /foo?param=value&pet=dog\nhost: example.com\ndate: Sun, 05 Jan 2014 21:31:40 GMT\n\
             content-type: application/json\ndigest: SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=\ncontent-length: 18"
        );
        assert_eq!(
            body_digest(DigestStyle::Digest, b"{\"hello\": \"world\"}"),
            "SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="
        );
        assert_eq!(
            body_digest(DigestStyle::ContentDigest, b"{\"hello\": \"world\"}"),
            "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"
        );
    }

    /// The example of RFC 7797, section 4.
    #[test]
    fn a_detached_jws_is_that_of_the_rfc() {
        let (input, protected) = jws_input(br#"{"alg":"HS256"}"#, b"$.02", true);
        assert_eq!(String::from_utf8(input).expect("ASCII"), "eyJhbGciOiJIUzI1NiJ9.JC4wMg");
        assert_eq!(protected, "eyJhbGciOiJIUzI1NiJ9");
        let (input, protected) = jws_input(br#"{"alg":"HS256","b64":false,"crit":["b64"]}"#, b"$.02", false);
        assert_eq!(
            String::from_utf8(input).expect("ASCII"),
            "eyJhbGciOiJIUzI1NiIsImI2NCI6ZmFsc2UsImNyaXQiOlsiYjY0Il19.$.02"
        );
        assert!(
            jws_detached(&protected, b"x")
                .starts_with("eyJhbGciOiJIUzI1NiIsImI2NCI6ZmFsc2UsImNyaXQiOlsiYjY0Il19..")
        );
    }
}
