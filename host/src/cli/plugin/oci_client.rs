//! As much of the OCI distribution protocol as a component needs: blobs and manifests, in and out.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use crate::https;

/// One request and its whole reply.
const WITHIN: Duration = Duration::from_secs(120);
/// Of a reply that is no blob.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Who pushes and pulls, where the registry asks; and which one may be told.
const REGISTRY: &str = "RAILHOST_REGISTRY";
const USER: &str = "RAILHOST_REGISTRY_USER";
const PASSWORD: &str = "RAILHOST_REGISTRY_PASSWORD";

/// `REGISTRY/NAME:TAG` or `REGISTRY/NAME@sha256:DIGEST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub registry: String,
    pub name: String,
    /// Or a digest.
    pub tag: String,
}

impl Reference {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text:?} is not a reference, expected REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST")
        };
        let (registry, rest) = text.split_once('/').ok_or_else(wrong)?;
        let (name, tag) = match rest.split_once('@') {
            Some((name, digest)) => (name, digest),
            None => rest.rsplit_once(':').ok_or_else(wrong)?,
        };
        let is_name = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-/".contains(&byte))
                && !text.split('/').any(|part| part.is_empty() || part.starts_with('.'))
        };
        let is_digest = tag.strip_prefix("sha256:").is_some_and(|digits| {
            digits.len() == 64
                && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        });
        let is_tag = !tag.is_empty()
            && tag.len() <= 128
            && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let is_host = !registry.is_empty()
            && registry.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
        match is_host && is_name(name) && (is_digest || is_tag && !rest.contains('@')) {
            true => Ok(Self { registry: registry.to_owned(), name: name.to_owned(), tag: tag.to_owned() }),
            false => Err(wrong()),
        }
    }

    pub(super) fn is_digest(&self) -> bool {
        self.tag.starts_with("sha256:")
    }

    pub(super) fn with_digest(&self, digest: &str) -> String {
        format!("{}/{}@{digest}", self.registry, self.name)
    }
}

pub(super) struct RegistryClient {
    registry: String,
    base: Url,
    name: String,
    /// What the registry accepted last.
    authorization: Mutex<Option<HeaderValue>>,
}

impl RegistryClient {
    pub(super) fn new(reference: &Reference, plain_http: bool) -> anyhow::Result<Self> {
        let host = reference.registry.split(':').next().unwrap_or_default();
        let is_local = matches!(host, "localhost" | "127.0.0.1") || reference.registry.starts_with("[::1]");
        let scheme = if plain_http || is_local { "http" } else { "https" };
        let base =
            Url::parse(&format!("{scheme}://{}/", reference.registry)).context("the registry's address")?;
        let (registry, name) = (reference.registry.clone(), reference.name.clone());
        Ok(Self { registry, base, name, authorization: Mutex::default() })
    }

    /// Puts a blob there, unless it is there already.
    pub(super) async fn put_blob(&self, digest: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        let known =
            self.ask(Method::HEAD, self.url(&format!("blobs/{digest}"))?, &[], Bytes::new(), 0).await?;
        if known.status() == StatusCode::OK {
            return Ok(());
        }
        let begun =
            self.ask(Method::POST, self.url("blobs/uploads/")?, &[], Bytes::new(), ANSWER_BYTES_MAX).await?;
        let begun = expect(begun, StatusCode::ACCEPTED, "to take a blob")?;
        let place = begun.headers().get(LOCATION).and_then(|place| place.to_str().ok());
        let mut place =
            self.base.join(place.ok_or_else(|| anyhow!("the registry does not say where blobs go"))?)?;
        if place.origin() != self.base.origin() {
            bail!("the registry sends blobs elsewhere, to {}", place.host_str().unwrap_or_default());
        }
        place.query_pairs_mut().append_pair("digest", digest);
        let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))];
        let put = self.ask(Method::PUT, place, &kind, bytes.into(), ANSWER_BYTES_MAX).await?;
        expect(put, StatusCode::CREATED, "to keep a blob").map(drop)
    }

    pub(super) async fn put_manifest(
        &self,
        tag: &str,
        media_type: &'static str,
        bytes: Vec<u8>,
    ) -> anyhow::Result<()> {
        let kind = [(CONTENT_TYPE, HeaderValue::from_static(media_type))];
        let put = self
            .ask(Method::PUT, self.url(&format!("manifests/{tag}"))?, &kind, bytes.into(), ANSWER_BYTES_MAX)
            .await?;
        expect(put, StatusCode::CREATED, "to keep the manifest").map(drop)
    }

    pub(super) async fn manifest(
        &self,
        tag: &str,
        media_type: &'static str,
        bytes_max: usize,
    ) -> anyhow::Result<Bytes> {
        let wanted = [(ACCEPT, HeaderValue::from_static(media_type))];
        let got = self
            .ask(Method::GET, self.url(&format!("manifests/{tag}"))?, &wanted, Bytes::new(), bytes_max)
            .await?;
        expect(got, StatusCode::OK, "to give the manifest").map(Response::into_body)
    }

    pub(super) async fn blob(&self, digest: &str, bytes_max: usize) -> anyhow::Result<Bytes> {
        let got = self
            .ask(Method::GET, self.url(&format!("blobs/{digest}"))?, &[], Bytes::new(), bytes_max)
            .await?;
        expect(got, StatusCode::OK, "to give a blob").map(Response::into_body)
    }

    fn url(&self, rest: &str) -> anyhow::Result<Url> {
        Ok(self.base.join(&format!("v2/{}/{rest}", self.name))?)
    }

    /// Asks, and once more with a proof of who asks where the registry wants one.
    async fn ask(
        &self,
        method: Method,
        url: Url,
        headers: &[(http::HeaderName, HeaderValue)],
        body: Bytes,
        bytes_max: usize,
    ) -> anyhow::Result<Response<Bytes>> {
        let mut known = self.authorization.lock().await;
        let send = async |authorization: Option<HeaderValue>| {
            let mut headers = headers.to_vec();
            headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
            exchange(method.clone(), &url, headers, body.clone(), bytes_max).await
        };
        let answer = send(known.clone()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || known.is_some() {
            return Ok(answer);
        }
        let wanted = answer.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        *known = Some(self.authorize(wanted.unwrap_or_default()).await?);
        send(known.clone()).await
    }

    /// A proof of who asks, of the kind that the registry wants: a password, or a token that is given for one.
    async fn authorize(&self, wanted: &str) -> anyhow::Result<HeaderValue> {
        // A password is for the registry that it was given for, and for no other that somebody names.
        let is_known = std::env::var(REGISTRY).is_ok_and(|registry| registry == self.registry);
        let basic = match (std::env::var(USER), std::env::var(PASSWORD)) {
            (Ok(user), Ok(password)) if is_known => {
                Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
            }
            _ => None,
        };
        let secret = |text: String| {
            let mut value = HeaderValue::from_str(&text).context("the registry's token")?;
            value.set_sensitive(true);
            Ok::<_, anyhow::Error>(value)
        };
        let Some(parameters) = wanted.strip_prefix("Bearer ") else {
            if basic.is_some() && self.base.scheme() != "https" && !is_loopback(&self.base) {
                bail!("the registry wants a password without TLS, expected https");
            }
            return secret(basic.ok_or_else(|| {
                anyhow!(
                    "the registry requires a login: set {REGISTRY} to {}, {USER} and {PASSWORD}",
                    self.registry
                )
            })?);
        };
        let parameter = |name: &str| {
            let found =
                parameters.split(',').find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='));
            found.map(|text| text.trim_matches('"').to_owned())
        };
        let mut realm = Url::parse(
            &parameter("realm").ok_or_else(|| anyhow!("the registry does not say where tokens are"))?,
        )?;
        for name in ["service", "scope"] {
            if let Some(value) = parameter(name) {
                realm.query_pairs_mut().append_pair(name, &value);
            }
        }
        if realm.scheme() != "https" && basic.is_some() && !is_loopback(&realm) {
            bail!("tokens are given out at {realm}, expected https");
        }
        let headers =
            basic.map(secret).transpose()?.map(|value| (AUTHORIZATION, value)).into_iter().collect();
        let given = exchange(Method::GET, &realm, headers, Bytes::new(), ANSWER_BYTES_MAX).await?;
        let given = expect(given, StatusCode::OK, "to give a token")?;
        let given: serde_json::Value =
            serde_json::from_slice(given.body()).context("the registry's token")?;
        let token = given["token"].as_str().or(given["access_token"].as_str());
        secret(format!("Bearer {}", token.ok_or_else(|| anyhow!("the registry gives no token"))?))
    }
}

fn is_loopback(url: &Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

fn expect(answer: Response<Bytes>, status: StatusCode, what: &str) -> anyhow::Result<Response<Bytes>> {
    match answer.status() == status {
        true => Ok(answer),
        false => Err(refused(what, &answer)),
    }
}

fn refused(what: &str, answer: &Response<Bytes>) -> anyhow::Error {
    let said: String = String::from_utf8_lossy(answer.body()).chars().take(300).collect();
    anyhow!("the registry refuses {what}: HTTP {} {}", answer.status().as_u16(), payment::plain(&said))
}

async fn exchange(
    method: Method,
    url: &Url,
    headers: Vec<(http::HeaderName, HeaderValue)>,
    body: Bytes,
    bytes_max: usize,
) -> anyhow::Result<Response<Bytes>> {
    let told = format!("{method} at the registry {}", url.host_str().unwrap_or_default());
    let mut request = Request::builder().method(method).uri(url.as_str());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(body)?;
    timeout(WITHIN, https::send(request, https::tls(None, None)?, bytes_max))
        .await
        .with_context(|| format!("{told}: no answer within {} s", WITHIN.as_secs()))?
        .context(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_a_registry_a_name_and_a_tag_or_a_digest() {
        let digest = format!("sha256:{}", "a1".repeat(32));
        let tagged = Reference::parse("registry.example:5000/rails/mtn:1.0").expect("sound");
        assert_eq!(
            (tagged.registry.as_str(), tagged.name.as_str(), tagged.tag.as_str()),
            ("registry.example:5000", "rails/mtn", "1.0")
        );
        assert!(!tagged.is_digest());
        let pinned = Reference::parse(&format!("localhost:5000/mtn@{digest}")).expect("sound");
        assert!(pinned.is_digest());
        assert_eq!(pinned.with_digest("sha256:x"), "localhost:5000/mtn@sha256:x");
        for bad in [
            "mtn",
            "r/mtn",
            "r/MTN:1",
            "r/../x:1",
            "r/mtn@sha256:short",
            "r/mtn@1.0",
            "/mtn:1",
            "r/mtn:",
            "r/a//b:1",
        ] {
            assert!(Reference::parse(bad).is_err(), "{bad}");
        }
    }
}
