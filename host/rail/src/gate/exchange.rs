//! One request on its way out and its reply on its way in, with what the host sees of both.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use form::{FilledRequest, StepClass};
use http::{HeaderName, HeaderValue, Method, Request, Response};

use super::carrier::Carrier;
use super::failure::NoWholeReply;
use super::send_progress::SendProgress;
use super::wire::SendPermit;
use crate::limits::Limits;
use payment::plain;
use verdict::witness::{Denial, Exchange, Witness};

/// What every request says of us.
const USER_AGENT: &str = concat!("symphony-rail-host/", env!("CARGO_PKG_VERSION"));

/// A whole reply.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl HttpReply {
    /// All of it in one piece, for a digest: status, headers, an empty line, body.
    pub(crate) fn whole(&self) -> Vec<u8> {
        let mut whole = format!("{}\n", self.status).into_bytes();
        for (name, value) in &self.headers {
            whole.extend_from_slice(format!("{name}: {value}\n").as_bytes());
        }
        whole.push(b'\n');
        whole.extend_from_slice(&self.body);
        whole
    }
}

/// What is the same for all calls of a rail.
#[derive(Debug)]
pub(crate) struct Gate {
    pub carrier: Carrier,
    pub limits: Limits,
}

/// What belongs to one call, and is there also after it was cancelled.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    permit: SendPermit,
    sent: Vec<SentRequest>,
    denied: Vec<Denial>,
}

#[derive(Debug)]
struct SentRequest {
    step: String,
    class: StepClass,
    progress: Arc<SendProgress>,
    whole: bool,
    retry_after_seconds: Option<u32>,
    token_is_fresh: Option<bool>,
}

impl CallLog {
    pub(crate) fn new(permit: SendPermit) -> Self {
        Self { permit, ..Self::default() }
    }

    pub(crate) fn witness(&self) -> Witness {
        let exchange = |sent: &SentRequest| Exchange {
            step: sent.step.clone(),
            class: sent.class,
            left: sent.progress.left(),
            status: sent.progress.status(),
            whole: sent.whole,
            retry_after_seconds: sent.retry_after_seconds,
            token_is_fresh: sent.token_is_fresh,
        };
        Witness { exchanges: self.sent.iter().map(exchange).collect(), denied: self.denied.clone() }
    }

    /// The first refusal by each rule is remembered: many by one rule hide none by another.
    pub(crate) fn deny(&mut self, denied: Denial) {
        if self.denied.iter().all(|known| known.rule != denied.rule) {
            self.denied.push(Denial { why: plain(&denied.why).into_owned(), ..denied });
        }
    }

    /// A request begins to leave.
    fn begin(&mut self, step: &str, class: StepClass, token_is_fresh: Option<bool>) -> Arc<SendProgress> {
        let progress = Arc::new(SendProgress::default());
        self.sent.push(SentRequest {
            step: step.to_owned(),
            class,
            progress: progress.clone(),
            whole: false,
            retry_after_seconds: None,
            token_is_fresh,
        });
        progress
    }

    /// Something came of which no request of ours is known.
    pub(crate) fn arrived(&mut self, step: &str, status: u16) {
        let progress = self.begin(step, StepClass::Read, None);
        progress.left_whole();
        progress.answered(status);
        if let Some(sent) = self.sent.last_mut() {
            sent.whole = true;
        }
    }

    /// A mock plays a request that arrives, and answers where it is told a status.
    pub(crate) fn play(&mut self, step: &str, class: StepClass, status: Option<u16>) -> Result<(), Denial> {
        let progress = self.begin(step, class, None);
        if let Err(NoWholeReply::Denied(denied)) = self.permit.may_begin() {
            self.deny(denied.clone());
            return Err(denied);
        }
        progress.left_whole();
        if let Some(status) = status {
            progress.answered(status);
            if let Some(sent) = self.sent.last_mut() {
                sent.whole = true;
            }
        }
        Ok(())
    }
}

impl Gate {
    /// Sends one request. An error says in words why there is no whole reply; the `CallLog` knows what left.
    pub(crate) async fn send(
        &self,
        call_log: &mut CallLog,
        class: StepClass,
        written: FilledRequest,
        token_is_fresh: Option<bool>,
    ) -> Result<HttpReply, String> {
        let limit = self.limits.request_kib as usize * 1024;
        if written.body.len() > limit {
            return Err(format!("the request has more than {} KiB", self.limits.request_kib));
        }
        let (step, target) = (written.step.clone(), written.target.clone());
        let request = request(written)?;
        let progress = call_log.begin(&step, class, token_is_fresh);
        let bytes_max = self.limits.response_kib as usize * 1024;
        let reply =
            self.carrier.exchange(&step, &target, request, bytes_max, &progress, &call_log.permit).await;
        match reply {
            Ok(reply) => {
                if let Some(sent) = call_log.sent.last_mut() {
                    sent.whole = true;
                    sent.retry_after_seconds = retry_after(&reply);
                }
                self.readable(reply)
            }
            Err(NoWholeReply::Denied(denied)) => {
                let why = denied.why.clone();
                call_log.deny(denied);
                Err(why)
            }
            Err(NoWholeReply::Unreachable(why) | NoWholeReply::TooLarge(why) | NoWholeReply::Broken(why)) => {
                Err(why)
            }
        }
    }

    fn readable(&self, reply: Response<Bytes>) -> Result<HttpReply, String> {
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
            return Err(format!("the reply's headers have more than {} KiB", self.limits.header_kib));
        }
        // Bytes that have to be unpacked first are read differently by everybody who unpacks them.
        let is_packed = |(name, value): &(String, String)| name == "content-encoding" && value != "identity";
        if headers.iter().any(is_packed) {
            return Err("the reply is compressed; expected no content-encoding".to_owned());
        }
        Ok(HttpReply { status: reply.status().as_u16(), headers, body: reply.into_body() })
    }
}

/// What leaves: the form as it was filled in, with what is HTTP's own around it.
fn request(written: FilledRequest) -> Result<Request<Bytes>, String> {
    let method = Method::from_bytes(written.method.as_bytes()).map_err(|error| error.to_string())?;
    let mut request = Request::new(Bytes::from(written.body));
    *request.method_mut() = method.clone();
    *request.uri_mut() = written.path.parse().map_err(|error| format!("no path: {error}"))?;
    let length = request.body().len();
    let lines = request.headers_mut();
    for (name, value) in written.headers {
        let name: HeaderName = name.parse().map_err(|_| format!("header {name:?} has no name"))?;
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| format!("header {name} has characters that are not allowed in headers"))?;
        value.set_sensitive(true);
        lines.append(name, value);
    }
    let own = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
    lines.insert(http::header::HOST, own(&written.target.authority())?);
    lines.insert(http::header::USER_AGENT, own(USER_AGENT)?);
    lines.insert(http::header::ACCEPT_ENCODING, own("identity")?);
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
