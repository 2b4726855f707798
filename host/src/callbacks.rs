//! What rails tell us unasked: `POST` or `PUT /callbacks/RAIL/OUTBOX_ID/PROOF`, or `/callbacks/RAIL` of a rail that names the payment
//! in the body.
//!
//! One that the rail signed, as its file says, and that is about this payment is a reply: a final word in it is kept, and settles the
//! payment at its next turn. Anything else is a hint: the question that is due later is asked now. What arrives decides nothing at
//! once, and nothing here writes a verdict.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use form::callback::Callback;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::time::timeout;
use uuid::Uuid;

use crate::faults::{self, CrashPoint};
use crate::listen::{self, Page, page};
use crate::observe::Metrics;
use crate::outbox::complete::{Completion, MoneyMoved, Outcome, Proof, State};
use crate::outbox::lease::{CalledPayment, Executor, Held};
use crate::outbox::{Database, Error};
use crate::outcome::{self, Class, Decision};
use crate::payment::{Instruction, KeyForm, Origin, RailKey};
use crate::rail::{Attempt, Loaded, Rail, Rails, Sandbox};

/// Longer ones are not read.
const BODY_BYTES_MAX: usize = 64 * 1024;
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// So many hexadecimal digits of a key find its payment, or very few others.
const PREFIX_DIGITS: usize = 12;

/// What becomes of a callback, for those who count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// It was signed and final: it is kept, and settles the payment.
    Kept,
    /// The payment is asked about now.
    Taken,
    /// There is nothing to ask: it is being called about, has its verdict, or was never sent.
    Idle,
    /// No address that we gave out, or not signed by the rail.
    Forged,
    /// The database could not be told.
    Failed,
}

impl Hint {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Taken => "taken",
            Self::Idle => "idle",
            Self::Forged => "forged",
            Self::Failed => "failed",
        }
    }
}

struct Desk {
    rails: BTreeMap<String, Arc<Rail>>,
    sandbox: Arc<Sandbox>,
    executor: Executor,
    metrics: Arc<Metrics>,
}

/// A callback, whole.
struct Called {
    headers: Vec<(String, String)>,
    body: Bytes,
}

/// Takes callbacks for as long as it is polled.
pub async fn serve(
    listener: TcpListener,
    database: &Database,
    sandbox: Arc<Sandbox>,
    rails: &Rails,
    metrics: Arc<Metrics>,
) -> Infallible {
    let rails = rails.all().into_iter().map(|rail| (rail.name.clone(), rail)).collect();
    let executor = Executor::new(database, "callbacks".to_owned(), 2);
    let desk = Arc::new(Desk { rails, sandbox, executor, metrics });
    listen::answer(listener, move |request| {
        let desk = desk.clone();
        async move { desk.answer(request).await }
    })
    .await
}

impl Desk {
    async fn answer(&self, request: Request<Incoming>) -> Response<Page> {
        let uri = request.uri().clone();
        let path: Vec<&str> = uri.path().split('/').collect();
        let (rail, address) = match path[..] {
            ["", "callbacks", rail, outbox_id, proof] => (rail, Some((outbox_id, proof))),
            ["", "callbacks", rail] => (rail, None),
            _ => return page(StatusCode::NOT_FOUND, ""),
        };
        if !matches!(*request.method(), Method::POST | Method::PUT) {
            return page(StatusCode::METHOD_NOT_ALLOWED, "");
        }
        let headers = plain_headers(request.headers());
        let body = timeout(BODY_WITHIN, Limited::new(request.into_body(), BODY_BYTES_MAX).collect()).await;
        let Ok(Ok(body)) = body else { return page(StatusCode::PAYLOAD_TOO_LARGE, "") };
        let called = Called { headers, body: body.to_bytes() };
        let hint = match self.take(rail, address, called).await {
            Ok(hint) => hint,
            Err(error) => {
                tracing::warn!(rail, %error, "a callback was not taken: {error}");
                Hint::Failed
            }
        };
        self.metrics.called_back(rail, hint);
        // A caller who guesses learns nothing but that the address is wrong.
        page(
            match hint {
                Hint::Kept | Hint::Taken | Hint::Idle => StatusCode::OK,
                Hint::Forged => StatusCode::NOT_FOUND,
                Hint::Failed => StatusCode::SERVICE_UNAVAILABLE,
            },
            "",
        )
    }

    async fn take(&self, name: &str, address: Option<(&str, &str)>, called: Called) -> Result<Hint, Error> {
        let Some(rail) = self.rails.get(name) else { return Ok(Hint::Forged) };
        let loaded = rail.current();
        let signed = loaded
            .form
            .callback
            .as_ref()
            .filter(|callback| rail.is_signed(callback, &called.headers, &called.body));
        let outbox_id = match address {
            Some((outbox_id, proof)) => match Uuid::parse_str(outbox_id) {
                Ok(outbox_id) if rail.vouches(outbox_id, proof) => Some(outbox_id),
                _ => return Ok(Hint::Forged),
            },
            // Whoever may name any payment has to be the rail.
            None => match signed.filter(|callback| callback.is_named_by_body()) {
                Some(callback) => self.named(name, callback, &called.body).await?,
                None => return Ok(Hint::Forged),
            },
        };
        let Some(outbox_id) = outbox_id else { return Ok(Hint::Idle) };
        if let Some(callback) = signed
            && self.hear(name, &loaded, callback, outbox_id, called).await?
        {
            self.executor.hint(name, outbox_id).await?;
            return Ok(Hint::Kept);
        }
        let hint = self.executor.hint(name, outbox_id);
        Ok(match faults::sending(CrashPoint::HintSent, hint).await? {
            true => Hint::Taken,
            false => Hint::Idle,
        })
    }

    /// The payment that a body names by its key.
    async fn named(&self, rail: &str, callback: &Callback, body: &[u8]) -> Result<Option<Uuid>, Error> {
        let Some((said, form)) = callback.named(body) else { return Ok(None) };
        let digits: String = said.chars().filter(|char| *char != '-').take(PREFIX_DIGITS).collect();
        let prefix = digits.to_ascii_lowercase();
        if prefix.len() != PREFIX_DIGITS || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let found = self.executor.payments_of_key(rail, &prefix).await?;
        Ok(found.into_iter().find(|outbox_id| is_named(*outbox_id, &said, form)))
    }

    /// Reads and judges what the rail signed; true where it is a final word that is news, and is kept.
    async fn hear(
        &self,
        rail: &str,
        loaded: &Loaded,
        callback: &Callback,
        outbox_id: Uuid,
        called: Called,
    ) -> Result<bool, Error> {
        let Some(payment) = self.executor.called_payment(rail, outbox_id).await? else { return Ok(false) };
        let Some(instruction) = instruction(outbox_id, &payment) else { return Ok(false) };
        let token = token(&called.body);
        let attempt = loaded
            .hear(&self.sandbox, callback, Arc::new(instruction.clone()), called.headers, called.body)
            .await;
        let decision = outcome::query(&attempt.heard, &attempt.witness).without(&instruction.destination);
        let Some(outcome) = verdict(&decision, &payment, &attempt) else { return Ok(false) };
        let completion = Completion { held: Held { outbox_id, lease_token: token }, outcome };
        if self.executor.record_callback(&completion).await? {
            self.metrics.late_answers.inc();
        }
        Ok(true)
    }
}

/// What is kept of a decision: a final word, unless it is known already.
fn verdict(decision: &Decision, payment: &CalledPayment, attempt: &Attempt) -> Option<Outcome> {
    let (state, money_moved) = match decision.class {
        Class::Success => (State::Dispatched, MoneyMoved::Yes),
        Class::Terminal => (State::Failed, MoneyMoved::No),
        Class::TerminalReview => (State::Failed, MoneyMoved::Unknown),
        _ => return None,
    };
    let is_known = match state {
        State::Dispatched => payment.state == "DISPATCHED",
        _ => payment.state == "FAILED" && payment.money_moved == "no",
    };
    (!is_known).then(|| Outcome {
        money_moved: Some(money_moved),
        rail_reference: decision.rail_reference.clone(),
        rail_code: decision.rail_code.clone(),
        error_code: decision.error_code.map(|code| code.as_str().to_owned()),
        error_message: decision.message.clone(),
        proof: Proof { adapter_digest: Some(*attempt.digest.as_bytes()), ..Proof::default() },
        ..Outcome::new(state)
    })
}

fn instruction(outbox_id: Uuid, payment: &CalledPayment) -> Option<Instruction> {
    let origin = Origin {
        outbox_id,
        instruction_id: payment.instruction_id.clone(),
        participant_id: payment.participant_id.clone(),
        sequence_id: payment.sequence_id.unsigned_abs(),
    };
    Instruction::read(origin, payment.payload.get(), 1).ok()
}

/// Whether a rail's text is the key of this payment. Rails change its case.
fn is_named(outbox_id: Uuid, said: &str, form: KeyForm) -> bool {
    RailKey::of(outbox_id).form(form).eq_ignore_ascii_case(said)
}

/// The same for the same words, so that they are kept once.
fn token(body: &[u8]) -> Uuid {
    let digest: [u8; 32] = Sha256::digest(body).into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

fn plain_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}
