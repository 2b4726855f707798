//! One request, one whole reply. What may leave, and where to, is decided by the host's gate.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::symphony::rail::http as wire;

pub use wire::Failure;

impl Failure {
    /// For people.
    pub fn why(&self) -> &str {
        match self {
            Self::Denied(why) | Self::NotSent(why) | Self::MaybeSent(why) | Self::Limit(why) => why,
        }
    }
}

/// So much of a reply that nobody understands is kept.
const EXCERPT_BYTES: usize = 200;

/// A request under construction.
#[derive(Debug, Clone)]
pub struct Request(wire::Request);

impl Request {
    pub fn new(method: &str, url: impl Into<String>) -> Self {
        Self(wire::Request {
            method: method.to_owned(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
        })
    }

    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.headers.push((name.to_owned(), value.into()));
        self
    }

    /// `Authorization: Bearer`, with the handle of a token.
    #[must_use]
    pub fn bearer(self, handle: &str) -> Self {
        self.header("authorization", format!("Bearer {handle}"))
    }

    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.0.body = body.into();
        self.header("content-type", content_type)
    }

    /// A JSON body. The types of an adapter's messages always serialise; one that does not is a mistake in the adapter.
    #[must_use]
    pub fn json(self, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("a message of the rail serialises");
        self.body("application/json", body)
    }

    pub fn send(self) -> Result<Response, Failure> {
        wire::send(&self.0).map(Response)
    }
}

/// A whole reply.
#[derive(Debug, Clone)]
pub struct Response(wire::Response);

impl Response {
    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// The first header with this name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0
            .headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0.body)
    }

    /// What it was, for a person to look at: the status and how the body begins.
    pub fn excerpt(&self) -> String {
        let begin = String::from_utf8_lossy(&self.0.body[..self.0.body.len().min(EXCERPT_BYTES)]);
        let begin = begin.split_whitespace().collect::<Vec<_>>().join(" ");
        match begin.is_empty() {
            true => format!("HTTP {} without a body", self.status()),
            false => format!("HTTP {}: {begin}", self.status()),
        }
    }
}
