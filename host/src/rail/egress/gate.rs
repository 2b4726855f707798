//! One request through the gate: rules, secrets, wire, witness, and the reply made safe to show to the adapter.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{HeaderName, HeaderValue, Method, Request, Response};
use secrecy::SecretString;
use url::Url;

use super::carrier::Carrier;
use super::fill::{self, Handle, Veil};
use super::places::Message;
use super::rules::{self, Class, Endpoint, Operation};
use super::trail::Trail;
use super::wire::{self, Departure};
use super::witness::{Denied, Exchange, Rule, Witness};
use crate::payment::{Instruction, plain};
use crate::rail::limits::Limits;

/// What the adapter is told instead of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    Denied(String),
    NotSent(String),
    MaybeSent(String),
    Limit(String),
}

/// A request as the adapter wrote it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A reply as the adapter may see it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What is the same for all calls of a rail.
#[derive(Debug)]
pub(crate) struct Gate {
    pub endpoints: Vec<Endpoint>,
    pub carrier: Carrier,
    pub limits: Limits,
}

/// What belongs to one call.
#[derive(Debug)]
pub(crate) struct Passage {
    pub operation: Operation,
    /// None while the adapter describes itself: nothing may leave then.
    pub instruction: Option<Arc<Instruction>>,
    pub departure: Departure,
    sent: Vec<Sent>,
    denied: Vec<Denied>,
}

#[derive(Debug)]
struct Sent {
    endpoint: String,
    class: Class,
    trail: Arc<Trail>,
    whole: bool,
    retry_after_seconds: Option<u32>,
    token_is_fresh: Option<bool>,
}

/// Headers that are the host's own.
const OWN_HEADERS: [&str; 8] = [
    "host",
    "content-length",
    "connection",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "proxy-authorization",
];
impl Passage {
    pub(crate) fn new(
        operation: Operation,
        instruction: Option<Arc<Instruction>>,
        departure: Departure,
    ) -> Self {
        Self { operation, instruction, departure, sent: Vec::new(), denied: Vec::new() }
    }

    /// What was seen so far; also after the call was cancelled.
    pub(crate) fn witness(&self) -> Witness {
        let exchange = |sent: &Sent| Exchange {
            endpoint: sent.endpoint.clone(),
            class: sent.class,
            left: sent.trail.left(),
            status: sent.trail.status(),
            whole: sent.whole,
            retry_after_seconds: sent.retry_after_seconds,
            token_is_fresh: sent.token_is_fresh,
        };
        Witness { exchanges: self.sent.iter().map(exchange).collect(), denied: self.denied.clone() }
    }

    /// The first refusal by each rule is remembered: many by one rule hide none by another.
    fn deny(&mut self, denied: Denied) -> Failure {
        let Denied { rule, why } = denied;
        // Methods and headers in it are the adapter's words.
        let why = plain(&why).into_owned();
        if self.denied.iter().all(|known| known.rule != rule) {
            self.denied.push(Denied { rule, why: why.clone() });
        }
        Failure::Denied(why)
    }
}

impl Gate {
    /// Sends one request. Answers with the endpoint it went to, the secrets it carried, and the raw reply.
    pub(crate) async fn pass(
        &self,
        passage: &mut Passage,
        handles: &[Handle],
        token_is_fresh: impl Fn(&[String]) -> Option<bool>,
        outgoing: Outgoing,
    ) -> Result<Passed<'_>, Failure> {
        let Admitted { endpoint, request, used, composed } = match self.admit(passage, handles, &outgoing) {
            Ok(admitted) => admitted,
            Err(Refused::Rule(denied)) => return Err(passage.deny(denied)),
            Err(Refused::Limit(why)) => return Err(Failure::Limit(why)),
        };
        let trail = Arc::new(Trail::default());
        passage.sent.push(Sent {
            endpoint: endpoint.name.clone(),
            class: endpoint.class,
            trail: trail.clone(),
            whole: false,
            retry_after_seconds: None,
            token_is_fresh: token_is_fresh(&used),
        });
        let bytes_max = self.limits.response_kib as usize * 1024;
        let reply = self.carrier.exchange(endpoint, request, bytes_max, &trail, &passage.departure).await;
        match reply {
            Ok(reply) => {
                if let Some(sent) = passage.sent.last_mut() {
                    sent.whole = true;
                    sent.retry_after_seconds = retry_after(&reply);
                }
                Ok(Passed { endpoint, used, composed, reply: self.readable(reply)? })
            }
            Err(wire::Failure::Denied(denied)) => Err(passage.deny(denied)),
            Err(wire::Failure::Unreachable(why)) => Err(Failure::NotSent(why)),
            Err(wire::Failure::TooLarge(why)) => Err(Failure::Limit(why)),
            Err(wire::Failure::Broken(why)) => Err(match trail.left() {
                super::Left::Nothing => Failure::NotSent(why),
                _ => Failure::MaybeSent(why),
            }),
        }
    }

    fn admit(
        &self,
        passage: &Passage,
        handles: &[Handle],
        outgoing: &Outgoing,
    ) -> Result<Admitted<'_>, Refused> {
        let Some(instruction) = &passage.instruction else {
            return Err(refused(Rule::Describing, "nothing may be sent while an adapter describes itself"));
        };
        if passage.sent.len() >= self.limits.exchanges as usize {
            return Err(Refused::Limit(format!("one call has {} requests", self.limits.exchanges)));
        }
        if outgoing.body.len() > self.limits.request_kib as usize * 1024 {
            return Err(Refused::Limit(format!("a request has at most {} KiB", self.limits.request_kib)));
        }
        let header_bytes: usize = outgoing.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if header_bytes > self.limits.header_kib as usize * 1024 || outgoing.headers.len() > 100 {
            return Err(Refused::Limit(format!(
                "headers have at most {} KiB in 100 lines",
                self.limits.header_kib
            )));
        }
        if let Some((name, _)) = outgoing
            .headers
            .iter()
            .find(|(name, _)| OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()))
        {
            return Err(refused(Rule::Header, format!("header {name} is the host's own")));
        }
        let url = Url::parse(&outgoing.url)
            .map_err(|error| refused(Rule::Form, format!("the URL cannot be read: {error}")))?;
        if handles.iter().any(|handle| outgoing.url.contains(&handle.text)) {
            return Err(refused(Rule::Secret, "a secret does not belong in a URL"));
        }
        let money_was_sent = passage.sent.iter().any(|sent| sent.class == Class::Money);
        let message = Message::new(&outgoing.method, &outgoing.headers, &outgoing.body);
        let endpoint =
            rules::admit(&self.endpoints, passage.operation, money_was_sent, instruction, &url, &message)
                .map_err(Refused::Rule)?;
        let filled = fill::fill(endpoint, handles, &outgoing.headers, &outgoing.body)
            .map_err(|why| refused(Rule::Secret, why))?;
        let request =
            request(endpoint, &url, filled.headers, filled.body).map_err(|why| refused(Rule::Form, why))?;
        Ok(Admitted { endpoint, request, used: filled.used, composed: filled.composed })
    }

    fn readable(&self, reply: Response<Bytes>) -> Result<Reply, Failure> {
        let headers: Vec<(String, String)> = reply
            .headers()
            .iter()
            .filter(|(name, _)| *name != http::header::SET_COOKIE)
            .map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > self.limits.header_kib as usize * 1024 {
            return Err(Failure::Limit(format!(
                "the reply's headers have more than {} KiB",
                self.limits.header_kib
            )));
        }
        Ok(Reply { status: reply.status().as_u16(), headers, body: reply.into_body().to_vec() })
    }
}

struct Admitted<'g> {
    endpoint: &'g Endpoint,
    request: Request<Bytes>,
    used: Vec<String>,
    composed: Vec<SecretString>,
}

pub(crate) struct Passed<'g> {
    pub endpoint: &'g Endpoint,
    /// The names of the secrets it carried.
    pub used: Vec<String>,
    /// What was put together from them.
    pub composed: Vec<SecretString>,
    pub reply: Reply,
}

enum Refused {
    Rule(Denied),
    Limit(String),
}

fn refused(rule: Rule, why: impl Into<String>) -> Refused {
    Refused::Rule(Denied::new(rule, why))
}

/// What leaves: the adapter's message with what is the host's own around it.
fn request(
    endpoint: &Endpoint,
    url: &Url,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
) -> Result<Request<Bytes>, String> {
    let method = Method::from_bytes(endpoint.method.as_bytes()).map_err(|error| error.to_string())?;
    let authority = match url.port() {
        Some(port) => format!("{}:{port}", endpoint.target.host),
        None => endpoint.target.host.clone(),
    };
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = method.clone();
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    *request.uri_mut() = target.parse().map_err(|error| format!("no path: {error}"))?;
    let length = request.body().len();
    let lines = request.headers_mut();
    for (name, value) in headers {
        let name: HeaderName = name.parse().map_err(|_| format!("header {name:?} has no name"))?;
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| format!("header {name} has characters that headers have not"))?;
        value.set_sensitive(true);
        lines.append(name, value);
    }
    let own = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
    lines.insert(http::header::HOST, own(&authority)?);
    // Also for an empty body: rails refuse a POST that does not say its length.
    if length > 0 || method != Method::GET {
        lines.insert(http::header::CONTENT_LENGTH, length.into());
    }
    Ok(request)
}

/// In seconds, or as a date, which is counted from the reply's own: the rail's clock may not be ours.
fn retry_after(reply: &Response<Bytes>) -> Option<u32> {
    let text = |name: HeaderName| reply.headers().get(name)?.to_str().ok();
    let date = |text: &str| DateTime::parse_from_rfc2822(text).ok().map(|date| date.to_utc());
    let asked = text(http::header::RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(seconds);
    }
    let now = text(http::header::DATE).and_then(date).unwrap_or_else(Utc::now);
    Some((date(asked)? - now).num_seconds().clamp(0, u32::MAX.into()) as u32)
}

/// The reply without any secret in it.
pub(crate) fn scrubbed(mut reply: Reply, veils: &[&Veil]) -> Reply {
    reply.body = fill::scrub(reply.body, veils);
    for (_, value) in &mut reply.headers {
        *value = fill::scrub_text(value, veils);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_until_a_date_by_the_clock_of_the_rail() {
        let asked = |pause: &str, date: Option<&str>| {
            let mut reply = Response::new(Bytes::new());
            reply.headers_mut().insert(http::header::RETRY_AFTER, pause.parse().expect("a header"));
            if let Some(date) = date {
                reply.headers_mut().insert(http::header::DATE, date.parse().expect("a header"));
            }
            retry_after(&reply)
        };
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(asked("7", None), Some(7));
        assert_eq!(asked("Sun, 06 Nov 1994 08:51:37 GMT", Some(date)), Some(120));
        assert_eq!(asked(date, Some("Sun, 06 Nov 1994 08:51:37 GMT")), Some(0), "it is past");
        assert_eq!(asked(date, None), Some(0), "by our own clock, where the rail does not tell its own");
        assert_eq!(asked("soon", Some(date)), None);
    }
}
