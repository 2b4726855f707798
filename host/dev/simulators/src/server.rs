//! Connections and what happens on them.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::fault::{Fault, FaultKind};
use crate::ledger::Question;
use crate::line::ClientConnection;
use crate::options::RecordedRequest;
use crate::order::ReceivedPayment;
use crate::rail::{Ask, RailRequest, SimulatedReply};
use crate::script::{Plan, Says};
use crate::world::World;
use crate::{callback, control};

const BODY_BYTES_MAX: usize = 1 << 20;

/// What is done instead of replying, or with the reply.
enum Delivery {
    Whole,
    Truncated,
    Close,
    Reset,
    Hang,
}

impl World {
    fn record(&self, asked: &RailRequest, reply: &SimulatedReply, delivery: &Delivery) {
        let Some(recorded) = &self.recorded else { return };
        let reply = matches!(delivery, Delivery::Whole).then(|| reply.body.clone());
        let request = String::from_utf8_lossy(&asked.body).into_owned();
        recorded.lock().unwrap_or_else(PoisonError::into_inner).push(RecordedRequest { request, reply });
    }

    async fn answer(self: &Arc<Self>, asked: &RailRequest) -> (SimulatedReply, Delivery) {
        match self.rail.read(asked, &self.tokens) {
            Err(reply) => (reply, Delivery::Whole),
            Ok(Ask::Session) => self.open().await,
            Ok(Ask::Pay(order)) => self.pay(order).await,
            Ok(Ask::Status(key)) => self.ask(&key).await,
            Ok(Ask::Balance(currency)) => (self.rail.balance(&currency, &self.float()), Delivery::Whole),
            Ok(Ask::Payee(payee)) => (self.rail.payee(&payee), Delivery::Whole),
            Ok(Ask::Keys) => (self.rail.keys(), Delivery::Whole),
        }
    }

    async fn open(&self) -> (SimulatedReply, Delivery) {
        let script = self.script();
        let fault = script.session_fault(&self.seed);
        if let Some(fault) = fault.filter(|fault| fault.before) {
            return self.spoil(fault, None).await;
        }
        self.ledger().sessions += 1;
        let reply = self.rail.session(&self.tokens.issue(), self.tokens.lifetime);
        match fault {
            Some(fault) => self.spoil(fault, Some(reply)).await,
            None => (reply, Delivery::Whole),
        }
    }

    async fn pay(self: &Arc<Self>, order: Box<ReceivedPayment>) -> (SimulatedReply, Delivery) {
        let script = self.script();
        let plan =
            || script.plan(&order).or_else(|| self.rail.plan(&order).map(Arc::new)).unwrap_or_default();
        let Some(arrival) = self.ledger().arrive(&order, plan) else {
            return (
                SimulatedReply::new(507, "text/plain", "the simulator's books are full\n"),
                Delivery::Whole,
            );
        };
        let fault = Plan::fault(&arrival.plan.pay, arrival.number, &self.seed, &order.key);
        if let Some(fault) = fault.filter(|fault| fault.before) {
            return self.spoil(fault, None).await;
        }
        let known = self.ledger().take(&order.key, self.forgetful);
        if !known {
            callback::announce(self, &order, &arrival.plan.call);
        }
        let reply = match known && !self.forgetful {
            true => self.rail.duplicate(&order),
            // What cannot be found is taken all the same.
            false => match arrival.plan.at(Duration::ZERO) {
                Says::Missing => self.rail.accepted(&order, &Says::Pending(None)),
                says => self.rail.accepted(&order, says),
            },
        };
        match fault {
            Some(fault) => self.spoil(fault, Some(reply)).await,
            None => (reply, Delivery::Whole),
        }
    }

    async fn ask(&self, key: &str) -> (SimulatedReply, Delivery) {
        let Some(Question { plan, number, found }) = self.ledger().ask(key) else {
            return (self.rail.not_found(), Delivery::Whole);
        };
        let reply = match found {
            None | Some((_, Says::Missing)) => self.rail.not_found(),
            Some((order, says)) => self.rail.status(&order, &says),
        };
        match Plan::fault(&plan.ask, number, &self.seed, key) {
            Some(fault) => self.spoil(fault, Some(reply)).await,
            None => (reply, Delivery::Whole),
        }
    }

    async fn spoil(&self, fault: &Fault, reply: Option<SimulatedReply>) -> (SimulatedReply, Delivery) {
        *self.ledger().faults.entry(fault.name()).or_default() += 1;
        let reply = reply.unwrap_or_else(|| SimulatedReply::empty(503));
        match &fault.kind {
            FaultKind::Close => (reply, Delivery::Close),
            FaultKind::Reset => (reply, Delivery::Reset),
            FaultKind::Hang => (reply, Delivery::Hang),
            FaultKind::Truncate(None) => (reply, Delivery::Truncated),
            FaultKind::Truncate(Some(status)) => {
                (SimulatedReply::new(*status, reply.content_type, reply.body), Delivery::Truncated)
            }
            FaultKind::Html(status) => (SimulatedReply::html(*status), Delivery::Whole),
            FaultKind::Empty(status) => (SimulatedReply::empty(*status), Delivery::Whole),
            FaultKind::Busy(retry_after) => {
                (SimulatedReply { retry_after: *retry_after, ..self.rail.busy() }, Delivery::Whole)
            }
            FaultKind::Stranger(code) => {
                let says = Says::Failed { variant: None, code: code.clone() };
                (self.rail.status(&ReceivedPayment::somebody_elses(), &says), Delivery::Whole)
            }
            FaultKind::Refuse(status, code) => (self.rail.refused(*status, code), Delivery::Whole),
            FaultKind::Slow(pause) => {
                tokio::time::sleep(*pause).await;
                (reply, Delivery::Whole)
            }
        }
    }
}

pub(crate) async fn serve(listener: TcpListener, world: Arc<World>, tls: Option<Arc<ServerConfig>>) {
    let tls = tls.map(TlsAcceptor::from);
    // They end with the server.
    let mut talks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = talks.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (world, tls) = (world.clone(), tls.clone());
        talks.spawn(async move {
            // A reply is one write; waiting for more would only make it late.
            stream.set_nodelay(true).ok();
            let line = ClientConnection::new(stream);
            match tls {
                None => converse(line.clone(), line, world).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(line.clone()).await {
                        converse(stream, line, world).await;
                    }
                }
            }
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, line: ClientConnection, world: Arc<World>) {
    let service = service_fn(|request| exchange(request, &world, &line));
    // A connection that is cut on purpose ends with an error.
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
}

/// The connection ends here, on purpose.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cut on purpose")
    }
}

impl std::error::Error for Cut {}

type Body = BoxBody<Bytes, Cut>;

async fn exchange(
    request: Request<Incoming>,
    world: &Arc<World>,
    line: &ClientConnection,
) -> Result<Response<Body>, Cut> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|_| Cut)?.to_bytes();
    let asked = RailRequest {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(ToOwned::to_owned),
        headers: head.headers,
        body: body.to_vec(),
    };
    let (reply, delivery) = match control::answer(world, &asked) {
        Some(reply) => (reply, Delivery::Whole),
        None => {
            let (reply, delivery) = world.answer(&asked).await;
            world.record(&asked, &reply, &delivery);
            (reply, delivery)
        }
    };
    match delivery {
        Delivery::Whole => Ok(written(&reply, whole(reply.body.clone()))),
        Delivery::Truncated => Ok(truncated(&reply)),
        Delivery::Close => Err(Cut),
        Delivery::Reset => {
            line.will_reset();
            Err(Cut)
        }
        Delivery::Hang => std::future::pending().await,
    }
}

fn whole(body: String) -> Body {
    Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {}).boxed()
}

fn written(reply: &SimulatedReply, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = reply.status;
    if !reply.content_type.is_empty() {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    }
    if let Some(seconds) = reply.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Promises the whole reply and sends half of it.
fn truncated(reply: &SimulatedReply) -> Response<Body> {
    // A rail whose reply has no body still has to break off somewhere.
    let full = if reply.body.is_empty() { "{\"status\":" } else { &reply.body };
    let half = Bytes::copy_from_slice(&full.as_bytes()[..full.len().div_ceil(2)]);
    let frames = stream::iter([Ok(Frame::data(half)), Err(Cut)]);
    let mut response = written(reply, BodyExt::boxed(StreamBody::new(frames)));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(full.len().max(2)));
    response
}
