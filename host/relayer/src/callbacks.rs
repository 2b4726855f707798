//! What rails tell us unasked: `POST` or `PUT /callbacks/RAIL/OUTBOX_ID/PROOF`, or `/callbacks/RAIL` of a rail that names the payment
//! in the body.
//!
//! A callback that the rail signed, as its file says, and that is about this payment is a reply: a final answer in it is kept, and
//! settles the payment at its next turn. Anything else is a hint: the question that is due later is asked now. A callback decides
//! nothing at once, and nothing here writes a verdict.

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

use crate::callback_result::CallbackResult;
use crate::metrics::Metrics;
use faults::{self, CrashPoint};
use observe::listen::{self, Page, page};
use outbox::complete::Completion;
use outbox::lease::{CalledPayment, Executor, LeaseRef};
use outbox::{Database, Error};
use payment::{Instruction, KeyForm, PaymentIds, RailKey};
use rail::{CallReport, Loaded, Rails, Sandbox};
use verdict::answer::CallResult;
use verdict::decision::{Class, Decision};
use verdict::outcome::{CompletionState, MoneyMoved, Outcome, Provenance};

/// Longer ones are not read.
const BODY_BYTES_MAX: usize = 64 * 1024;
const BODY_WITHIN: Duration = Duration::from_secs(10);

struct CallbackServer {
    rails: Arc<Rails>,
    sandbox: Arc<Sandbox>,
    executor: Executor,
    metrics: Arc<Metrics>,
}

/// A callback that may be the rail's, and the payment that its address names.
struct Admitted {
    loaded: Arc<Loaded>,
    outbox_id: Option<Uuid>,
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
    rails: Arc<Rails>,
    metrics: Arc<Metrics>,
) -> Infallible {
    let executor = Executor::new(database, "callbacks".to_owned(), 2);
    let server = Arc::new(CallbackServer { rails, sandbox, executor, metrics });
    listen::answer(listener, move |request| {
        let server = server.clone();
        async move { server.answer(request).await }
    })
    .await
}

impl CallbackServer {
    async fn answer(&self, request: Request<Incoming>) -> Response<Page> {
        let uri = request.uri().clone();
        let path: Vec<&str> = uri.path().split('/').collect();
        let (name, address) = match path[..] {
            ["", "callbacks", rail, outbox_id, proof] => (rail, Some((outbox_id, proof))),
            ["", "callbacks", rail] => (rail, None),
            _ => return page(StatusCode::NOT_FOUND, ""),
        };
        if !matches!(*request.method(), Method::POST | Method::PUT) {
            return page(StatusCode::METHOD_NOT_ALLOWED, "");
        }
        let result = match self.admit(name, address, request.headers()) {
            None => CallbackResult::Forged,
            Some(admitted) => {
                let headers = plain_headers(request.headers());
                let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
                let Ok(Ok(body)) = timeout(BODY_WITHIN, body).await else {
                    return page(StatusCode::PAYLOAD_TOO_LARGE, "");
                };
                let called = Called { headers, body: body.to_bytes() };
                self.take(name, admitted, called).await.unwrap_or_else(|error| {
                    tracing::warn!(rail = name, %error, "a callback was not taken: {error}");
                    CallbackResult::Failed
                })
            }
        };
        self.metrics.called_back(name, result);
        // A caller who guesses learns only that the address is wrong. A callback that could not be used is to be sent again.
        page(
            match result {
                CallbackResult::Kept | CallbackResult::Taken | CallbackResult::Idle => StatusCode::OK,
                CallbackResult::Forged => StatusCode::NOT_FOUND,
                CallbackResult::Vetoed | CallbackResult::Unmatched | CallbackResult::Failed => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            },
            "",
        )
    }

    /// Checks, before the body is read, who may have sent it: an address that we gave out, or a header that may be the rail's
    /// signature.
    fn admit(&self, name: &str, address: Option<(&str, &str)>, headers: &HeaderMap) -> Option<Admitted> {
        let rail = self.rails.get(name)?;
        let loaded = rail.current();
        let outbox_id = match address {
            Some((outbox_id, proof)) => {
                Some(Uuid::parse_str(outbox_id).ok().filter(|outbox_id| rail.vouches(*outbox_id, proof))?)
            }
            // A caller that may name any payment has to be the rail.
            None => {
                let callback =
                    loaded.form.callback.as_ref().filter(|callback| callback.is_named_by_body())?;
                headers.get(callback.verify.header.as_str())?;
                None
            }
        };
        Some(Admitted { loaded, outbox_id })
    }

    async fn take(&self, name: &str, admitted: Admitted, called: Called) -> Result<CallbackResult, Error> {
        let Admitted { loaded, outbox_id } = admitted;
        let signed = loaded
            .form
            .callback
            .as_ref()
            .filter(|callback| loaded.is_signed(callback, &called.headers, &called.body));
        let outbox_id = match (outbox_id, signed) {
            (Some(outbox_id), _) => outbox_id,
            (None, None) => return Ok(CallbackResult::Forged),
            (None, Some(callback)) => match self.named(name, callback, &called.body).await? {
                Some(outbox_id) => outbox_id,
                None if self.executor.callback_is_known(token(&called.body)).await? => {
                    return Ok(CallbackResult::Idle);
                }
                None => {
                    tracing::error!(
                        rail = name,
                        "{name}: a signed callback names a payment that is not known here, and is not kept"
                    );
                    return Ok(CallbackResult::Unmatched);
                }
            },
        };
        let heard = match signed {
            Some(callback) => self.hear(name, &loaded, callback, outbox_id, called).await?,
            None => None,
        };
        if let Some(result) = heard {
            if result == CallbackResult::Kept {
                self.executor.hint(name, outbox_id, true).await?;
            }
            return Ok(result);
        }
        let hint = self.executor.hint(name, outbox_id, false);
        Ok(match faults::sending(CrashPoint::HintSent, hint).await? {
            true => CallbackResult::Taken,
            false => CallbackResult::Idle,
        })
    }

    /// The payment that a body names by its key.
    async fn named(&self, rail: &str, callback: &Callback, body: &[u8]) -> Result<Option<Uuid>, Error> {
        let Some((said, form)) = callback.named(body) else { return Ok(None) };
        let digits: String = said.chars().filter(|char| *char != '-').take(RailKey::PREFIX_DIGITS).collect();
        let prefix = digits.to_ascii_lowercase();
        if prefix.len() != RailKey::PREFIX_DIGITS || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let found = self.executor.payments_of_key(rail, &prefix).await?;
        Ok(found.into_iter().find(|outbox_id| is_named(*outbox_id, &said, form)))
    }

    /// Reads and judges what the rail signed. None where it says nothing new.
    async fn hear(
        &self,
        rail: &str,
        loaded: &Loaded,
        callback: &Callback,
        outbox_id: Uuid,
        called: Called,
    ) -> Result<Option<CallbackResult>, Error> {
        let Some(payment) = self.executor.called_payment(rail, outbox_id).await? else { return Ok(None) };
        let Some(instruction) = instruction(outbox_id, &payment) else { return Ok(None) };
        let token = token(&called.body);
        let payee = instruction.destination.clone();
        let report = loaded
            .read_callback(&self.sandbox, callback, Arc::new(instruction), called.headers, called.body)
            .await;
        let is_vetoed = match &report.heard {
            CallResult::Reading(reading) => reading.veto.is_some(),
            _ => true,
        };
        if is_vetoed {
            self.metrics.calls.vetoed(rail);
            tracing::warn!(rail, payment = %outbox_id, "{rail}: the adapter vetoed a signed callback");
            return Ok(Some(CallbackResult::Vetoed));
        }
        let decision = verdict::judge_query(&report.heard, &report.witness).without(&payee);
        let Some(outcome) = said(&decision, &payment, &report) else { return Ok(None) };
        let completion = Completion { lease: LeaseRef { outbox_id, lease_token: token }, outcome };
        if self.executor.record_callback(&completion).await? {
            self.metrics.writes.late_answers.inc();
        }
        Ok(Some(CallbackResult::Kept))
    }
}

/// What is kept of a decision, unless it is known already: a final answer, and that the rail has the payment.
fn said(decision: &Decision, payment: &CalledPayment, report: &CallReport) -> Option<Outcome> {
    let (state, money_moved) = match decision.class {
        Class::Success => (CompletionState::Dispatched, MoneyMoved::Yes),
        Class::Terminal => (CompletionState::Failed, MoneyMoved::No),
        Class::TerminalReview => (CompletionState::Failed, MoneyMoved::Unknown),
        Class::Pending => (CompletionState::Retryable, MoneyMoved::Unknown),
        _ => return None,
    };
    let is_known = match state {
        CompletionState::Dispatched => payment.state == "DISPATCHED",
        CompletionState::Failed => payment.state == "FAILED" && payment.money_moved == "no",
        CompletionState::Retryable => payment.state != "PENDING",
    };
    (!is_known).then(|| Outcome {
        money_moved: Some(money_moved),
        rail_reference: decision.rail_reference.clone(),
        rail_code: decision.rail_code.clone(),
        error_code: decision.error_code,
        error_message: decision.message.clone(),
        proof: Provenance { adapter_digest: Some(*report.digest.as_bytes()), ..Provenance::default() },
        ..Outcome::new(state)
    })
}

fn instruction(outbox_id: Uuid, payment: &CalledPayment) -> Option<Instruction> {
    let ids = PaymentIds {
        outbox_id,
        instruction_id: payment.instruction_id.clone(),
        participant_id: payment.participant_id.clone(),
        sequence_id: payment.sequence_id.unsigned_abs(),
    };
    Instruction::read(ids, payment.payload.get(), 1).ok()
}

/// Whether a rail's text is the key of this payment. Rails change upper and lower case.
fn is_named(outbox_id: Uuid, said: &str, form: KeyForm) -> bool {
    RailKey::of(outbox_id).form(form).eq_ignore_ascii_case(said)
}

/// The same for the same body, so that it is kept once.
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
