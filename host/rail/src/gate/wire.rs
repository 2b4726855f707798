//! One exchange with a rail, and the connections that are kept for the next one. They are never shared with another rail.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use form::RequestTarget;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::dial::{Connection, Dialer, WholeBody};
use super::failure::NoWholeReply;
use super::send_progress::SendProgress;
use crate::limits::Timeouts;
use crate::revoked::Revoked;
use faults::{self, CrashPoint, crash_point};
use verdict::digest::Digest;
use verdict::witness::{Denial, GateRule};

/// A connection that waits longer than this is not trusted to be alive.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Connections kept per rail and host; more are closed after use.
const KEPT_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Wire {
    dialer: Dialer,
    timeouts: Timeouts,
    idle: Mutex<HashMap<Peer, Vec<Connection>>>,
}

/// Whom a connection leads to. One that was opened without TLS never carries what was meant for one with it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Peer {
    scheme: String,
    host: String,
    port: u16,
}

impl Peer {
    fn of(target: &RequestTarget) -> Self {
        Self { scheme: target.scheme.clone(), host: target.host.clone(), port: target.port }
    }
}

/// Why nobody can say where the reply ends: without a length the end of the connection would be its end, and with two lengths
/// readers differ.
fn misframed(reply: &Response<Incoming>) -> Option<String> {
    let is_bodiless = reply.status() == 204 || reply.status() == 304;
    let lengths = reply.headers().get_all(http::header::CONTENT_LENGTH).iter().count();
    let codings = reply.headers().get_all(http::header::TRANSFER_ENCODING).iter().count();
    let chunked = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    if !reply.headers().get_all(http::header::TRANSFER_ENCODING).iter().all(chunked) {
        return Some("the reply has an unsupported transfer-encoding".to_owned());
    }
    match lengths + codings {
        1 => None,
        0 if is_bodiless => None,
        0 => Some("the reply does not say how long it is".to_owned()),
        _ => Some("the reply gives its length twice".to_owned()),
    }
}

impl Wire {
    pub(crate) fn new(dialer: Dialer, timeouts: Timeouts) -> Self {
        Self { dialer, timeouts, idle: Mutex::default() }
    }

    /// Sends a request and reads the whole reply. Nothing begins to leave unless `permit` allows it.
    pub(crate) async fn exchange(
        &self,
        target: &RequestTarget,
        request: Request<Bytes>,
        response_bytes_max: usize,
        progress: &SendProgress,
        permit: &SendPermit,
    ) -> Result<Response<Bytes>, NoWholeReply> {
        let (parts, body) = request.into_parts();
        let mut connection = match self.kept(target) {
            Some(connection) => connection,
            None => self.dial(target).await?,
        };
        loop {
            permit.may_begin()?;
            let whole = WholeBody { data: Some(body.clone()), polled: progress.body() };
            let request = Request::from_parts(parts.clone(), whole);
            let before = progress.hand_over(&connection.written);
            crash_point(CrashPoint::BeforeFirstByte);
            let send = connection.sender.send_request(request);
            let send = faults::sending(CrashPoint::RequestSent, send);
            let reply = timeout(self.timeouts.first_byte(), send).await;
            let wrote = connection.written.load(Ordering::Acquire) > before;
            match reply {
                Ok(Ok(reply)) => {
                    progress.answered(reply.status().as_u16());
                    crash_point(CrashPoint::StatusSeen);
                    if let Some(why) = misframed(&reply) {
                        return Err(NoWholeReply::Broken(why));
                    }
                    let reply = self.read(reply, response_bytes_max).await?;
                    crash_point(CrashPoint::ReplyRead);
                    self.keep(target, connection);
                    return Ok(reply);
                }
                // The server had closed a connection that we kept: not a byte went out, another one may carry it.
                Ok(Err(_)) if !wrote && connection.used => {
                    progress.hand_back();
                    connection = self.dial(target).await?;
                }
                Ok(Err(error)) => {
                    if !wrote {
                        progress.hand_back();
                    }
                    return Err(NoWholeReply::Broken(format!("the connection failed: {error}")));
                }
                Err(_) => {
                    return Err(NoWholeReply::Broken(format!(
                        "no reply within {} ms",
                        self.timeouts.first_byte_ms
                    )));
                }
            }
        }
    }

    /// Boxed: what a handshake needs is not kept for as long as the reply takes.
    async fn dial(&self, target: &RequestTarget) -> Result<Connection, NoWholeReply> {
        Box::pin(self.dialer.dial(target)).await
    }

    async fn read(
        &self,
        reply: Response<Incoming>,
        bytes_max: usize,
    ) -> Result<Response<Bytes>, NoWholeReply> {
        let (parts, mut body) = reply.into_parts();
        let mut whole = Vec::new();
        loop {
            let frame = timeout(self.timeouts.idle(), body.frame()).await.map_err(|_| {
                NoWholeReply::Broken(format!("the reply paused for more than {} ms", self.timeouts.idle_ms))
            })?;
            match frame {
                None => return Ok(Response::from_parts(parts, whole.into())),
                Some(Err(error)) => {
                    return Err(NoWholeReply::Broken(format!("the reply broke off: {error}")));
                }
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if whole.len() + data.len() > bytes_max {
                        return Err(NoWholeReply::TooLarge(format!(
                            "the reply has more than {bytes_max} bytes"
                        )));
                    }
                    whole.extend_from_slice(&data);
                }
            }
        }
    }

    fn kept(&self, target: &RequestTarget) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let list = idle.get_mut(&Peer::of(target))?;
        while let Some(connection) = list.pop() {
            if connection.since.elapsed() < IDLE_MAX && connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, target: &RequestTarget, mut connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        connection.since = Instant::now();
        connection.used = true;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let list = idle.entry(Peer::of(target)).or_default();
        if list.len() < KEPT_MAX {
            list.push(connection);
        }
    }
}

/// Whether a request may still begin to leave.
#[derive(Debug, Clone, Default)]
pub(crate) struct SendPermit {
    /// The lease does not outlast what begins after this moment.
    pub before: Option<Instant>,
    /// The component that speaks, and those that may not.
    pub component: Option<(Digest, Arc<Revoked>)>,
}

impl SendPermit {
    pub(super) fn may_begin(&self) -> Result<(), NoWholeReply> {
        let denied = |rule, why: &str| Err(NoWholeReply::Denied(Denial::new(rule, why)));
        if self.before.is_some_and(|end| Instant::now() >= end) {
            return denied(GateRule::Lease, "the lease does not last long enough for a request");
        }
        if self.component.as_ref().is_some_and(|(digest, revoked)| revoked.contains(digest)) {
            return denied(GateRule::Revoked, "its component was revoked in the meantime");
        }
        Ok(())
    }
}
