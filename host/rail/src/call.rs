//! One call: the adapter's values, the form filled in and sent, the reply read. No guest exists while the rail is waited for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use form::callback::{self, Callback};
use form::{FillError, Input, Operation, Reading, Side, Step, StepClass, Veto};
use tokio::time::timeout_at;
use wasmtime::Store;
use wasmtime::component::Instance;

use crate::known_bad;
use payment::{Instruction, plain};

use super::call_report::{CallReport, CaptureStore, Captures, RecordedExchange, Task};
use super::contract::{self, RailAdapter, wire};
use super::description::Description;
use super::gate::secret_filter::SecretFilter;
use super::gate::{CallLog, HttpReply, SendPermit};
use super::guest::GuestState;
use super::instance::CallAbort;
use super::loaded::Loaded;
use super::mock;
use super::sandbox::Sandbox;
use super::session::{Session, challenge};
use super::vault::RequestSecrets;
use verdict::answer::CallResult;
use verdict::call_error::CallError;
use verdict::digest::Digest;
use verdict::witness::{Denial, GateRule};

/// A call on its way: what is known of it also when it is cancelled.
pub(super) struct Call<'c> {
    pub loaded: &'c Loaded,
    sandbox: &'c Sandbox,
    pub payment: Arc<Instruction>,
    keeper: &'c dyn CaptureStore,
    pub captured: BTreeMap<String, String>,
    /// Values captured in the last step, before they are kept.
    fresh: BTreeMap<String, String>,
    pub request_digest: Option<Digest>,
    pub reply_digest: Option<Digest>,
    /// The last reply holds a secret: the adapter does not get it.
    pub reply_holds_secret: bool,
    pub recorded: Vec<RecordedExchange>,
    /// One for each token that the requests carried. By now there may be newer tokens.
    pub secret_filters: Vec<Arc<SecretFilter>>,
    /// What the host read last, while the adapter is asked about it.
    reading: Option<Reading>,
    pub call_log: CallLog,
    log: Vec<String>,
}

impl Loaded {
    /// Calls for a payment of which nothing was captured before.
    pub async fn call(
        &self,
        sandbox: &Sandbox,
        task: Task,
        instruction: Arc<Instruction>,
        send_before: Option<Instant>,
    ) -> CallReport {
        let nothing = BTreeMap::new();
        self.call_with(sandbox, task, instruction, send_before, Captures::knowing(&nothing)).await
    }

    /// One call of the adapter, with the requests to the rail that belong to it. It always comes back, by `call_ms` and one tick at
    /// the latest. Nothing begins to leave after `send_before`.
    pub async fn call_with(
        &self,
        sandbox: &Sandbox,
        task: Task,
        instruction: Arc<Instruction>,
        send_before: Option<Instant>,
        captures: Captures<'_>,
    ) -> CallReport {
        let started = Instant::now();
        let mut call = Call::new(self, sandbox, instruction, send_before, captures);
        let heard = match sandbox.call_permits.try_acquire() {
            Err(_) => CallResult::Failed(CallError::Busy(sandbox.calls_max)),
            Ok(_place) => {
                let deadline = tokio::time::Instant::from_std(started + self.timeouts.call());
                match timeout_at(deadline, call.run(task)).await {
                    Ok(Ok(heard) | Err(heard)) => heard,
                    // The deadline passed while the adapter was reading: the host's reading stands, in doubt.
                    Err(_) => match call.reading.take() {
                        Some(reading) => {
                            CallResult::Reading(Box::new(Reading { veto: Some(Veto::Doubt), ..reading }))
                        }
                        None => CallResult::Failed(CallError::Deadline(self.timeouts.call())),
                    },
                }
            }
        };
        call.ended(heard, started)
    }

    /// What a callback says of a payment. It is known to be the rail's, and is read and judged like the reply to a question.
    pub async fn read_callback(
        &self,
        sandbox: &Sandbox,
        callback: &Callback,
        instruction: Arc<Instruction>,
        headers: Vec<(String, String)>,
        body: Bytes,
    ) -> CallReport {
        let (started, nothing) = (Instant::now(), BTreeMap::new());
        let mut call = Call::new(self, sandbox, instruction, None, Captures::knowing(&nothing));
        let reading = self.form.read_callback(callback, &headers, &body, &call.payment);
        let reply = HttpReply { status: 200, headers, body };
        call.call_log.arrived(callback::STEP, reply.status);
        call.begin_record(callback::STEP, Vec::new());
        call.heard(&reply);
        let weigh = call.weigh(reading, callback::STEP, StepClass::Read, Operation::QueryStatus, &reply);
        let heard = match tokio::time::timeout(self.timeouts.call(), weigh).await {
            Ok(reading) => CallResult::Reading(Box::new(reading)),
            Err(_) => CallResult::Failed(CallError::Deadline(self.timeouts.call())),
        };
        call.ended(heard, started)
    }

    /// Compares all its functions with the contract, and asks the adapter who it is.
    pub(super) async fn describe(&self, sandbox: &Sandbox) -> Result<Description, CallError> {
        let mut log = Vec::new();
        self.guest(sandbox, &mut log, async |instance: &Instance, store: &mut Store<GuestState>| {
            let adapter = RailAdapter::new(&mut *store, instance).map_err(CallAbort::Start)?;
            let said =
                adapter.symphony_rail_adapter().call_describe(store).await.map_err(CallAbort::Engine)?;
            Ok(contract::description(said))
        })
        .await
    }
}

impl<'c> Call<'c> {
    pub(super) fn new(
        loaded: &'c Loaded,
        sandbox: &'c Sandbox,
        payment: Arc<Instruction>,
        send_before: Option<Instant>,
        captures: Captures<'c>,
    ) -> Self {
        let permit =
            SendPermit { before: send_before, component: Some((loaded.digest, loaded.revoked.clone())) };
        Self {
            loaded,
            sandbox,
            payment,
            keeper: captures.keeper,
            captured: captures.known.clone(),
            fresh: BTreeMap::new(),
            request_digest: None,
            reply_digest: None,
            reply_holds_secret: false,
            recorded: Vec::new(),
            secret_filters: Vec::new(),
            reading: None,
            call_log: CallLog::new(permit),
            log: Vec::new(),
        }
    }

    fn ended(self, heard: CallResult, started: Instant) -> CallReport {
        CallReport {
            heard,
            witness: self.call_log.witness(),
            digest: self.loaded.digest,
            rail_digest: self.loaded.file_digest,
            request_digest: self.request_digest,
            reply_digest: self.reply_digest,
            captured: self.fresh,
            recorded: self.recorded,
            log: self.log,
            took: started.elapsed(),
        }
    }
}

/// Both are how the call ended. The error only lets `?` end it early.
type Ran = Result<CallResult, CallResult>;

impl Call<'_> {
    async fn run(&mut self, task: Task) -> Ran {
        if self.loaded.revoked.contains(&self.loaded.digest) {
            return Err(CallResult::Failed(CallError::Revoked(self.loaded.digest)));
        }
        match task {
            Task::Query => self.ask().await,
            Task::Disburse | Task::Validate => self.pay(task).await,
        }
    }

    async fn ask(&mut self) -> Ran {
        let form = self.loaded.form.clone();
        let Some(step) = form.question(&self.captured) else {
            return Err(CallResult::Unanswered(
                "the rail cannot be queried: no captured value identifies the payment".to_owned(),
            ));
        };
        let values = self.query_values(step).await?;
        let reply = self.exchange(step, &values).await?;
        Ok(CallResult::Reading(Box::new(self.read(step, Operation::QueryStatus, &reply).await)))
    }

    /// The requests of the payment's way, in order. What one brings for the next is kept before that leaves.
    async fn pay(&mut self, task: Task) -> Ran {
        let form = self.loaded.form.clone();
        let violations = form.check(&self.payment);
        if !violations.is_empty() {
            return Err(CallResult::Invalid(violations));
        }
        let Some(values) = self.disburse_values(task).await? else { return Ok(CallResult::Valid) };
        let way = form.way(&self.payment).map_err(|violation| CallResult::Invalid(vec![violation]))?;
        for step in way {
            let is_known = step.captures().all(|name| self.captured.contains_key(name));
            if step.class == StepClass::Prepare && !step.again && is_known && step.captures().next().is_some()
            {
                continue;
            }
            let reply = self.exchange(step, &values).await?;
            let reading = self.read(step, Operation::Disburse, &reply).await;
            if step.class == StepClass::Money {
                return Ok(CallResult::Reading(Box::new(reading)));
            }
            if let Some(why) = form.unprepared(step, reply.status, &reading) {
                return Err(CallResult::Unprepared { reading: Box::new(reading), status: reply.status, why });
            }
            // Only now: what was not confirmed is neither used nor kept for the next attempt.
            if !reading.captured.is_empty() && !self.keeper.keep(&reading.captured).await {
                return Err(CallResult::Unanswered(format!("what {} brought could not be kept", step.name)));
            }
            self.captured.extend(reading.captured);
        }
        Err(CallResult::Unanswered("no step pays".to_owned()))
    }

    /// None: the payment was only to be validated.
    async fn disburse_values(&mut self, task: Task) -> Result<Option<Vec<(String, String)>>, CallResult> {
        let told = contract::payment(&self.loaded.form, &self.payment);
        let functions = &self.loaded.functions;
        let said = self
            .loaded
            .guest(self.sandbox, &mut self.log, async |instance: &Instance, store: &mut Store<GuestState>| {
                let valid: Result<(), Vec<wire::Violation>> =
                    contract::call(&functions.validate, instance, store, (&told,))
                        .await
                        .map_err(CallAbort::Engine)?;
                if let Err(found) = valid {
                    return Ok(Err(CallResult::Invalid(contract::violations(found)?)));
                }
                if task == Task::Validate {
                    return Ok(Ok(None));
                }
                let values: Result<Vec<(String, String)>, String> =
                    contract::call(&functions.disburse, instance, store, (&told,))
                        .await
                        .map_err(CallAbort::Engine)?;
                Ok(match values {
                    Ok(values) => Ok(Some(contract::values(values)?)),
                    Err(why) => Err(CallResult::Refused(contract::prose(why))),
                })
            })
            .await;
        said.map_err(CallResult::Failed)?
    }

    /// Where the request has no variable there is nothing to ask the adapter for.
    async fn query_values(&mut self, step: &Step) -> Result<Vec<(String, String)>, CallResult> {
        let form = &self.loaded.form;
        if !form.is_mock && !step.request.as_ref().is_some_and(|request| request.has_variables()) {
            return Ok(Vec::new());
        }
        let told = contract::payment(form, &self.payment);
        let functions = &self.loaded.functions;
        let said: Result<Vec<(String, String)>, String> = self
            .loaded
            .guest(self.sandbox, &mut self.log, async |instance: &Instance, store: &mut Store<GuestState>| {
                contract::call(&functions.query_status, instance, store, (&told,))
                    .await
                    .map_err(CallAbort::Engine)
            })
            .await
            .map_err(CallResult::Failed)?;
        match said {
            Ok(values) => contract::values(values).map_err(CallResult::Failed),
            Err(why) => Err(CallResult::Unanswered(contract::prose(why))),
        }
    }

    /// Fills in the form and sends it.
    async fn exchange(&mut self, step: &Step, values: &[(String, String)]) -> Result<HttpReply, CallResult> {
        let form = self.loaded.form.clone();
        if form.is_mock {
            form.check_variables(values).map_err(|refusal| self.refused(refusal))?;
            self.begin_record(&step.name, Vec::new());
            let reply = mock::play(&mut self.call_log, step, values, &self.payment)
                .await
                .map_err(CallResult::Unanswered)?;
            self.heard(&reply);
            return Ok(reply);
        }
        let session = self.session(step).await?;
        let reply = self.send(step, values, &session, None).await?;
        let Some(challenge) = challenge(step, &reply) else { return Ok(reply) };
        // The rail has not looked at the request: it is made once more, with the answer.
        self.send(step, values, &session, Some(&challenge)).await
    }

    async fn send(
        &mut self,
        step: &Step,
        values: &[(String, String)],
        session: &Session,
        challenge: Option<&str>,
    ) -> Result<HttpReply, CallResult> {
        let now = Utc::now();
        let written = self.fill(step, values, session, challenge, now)?;
        let shown = self.shown(step, values, &written, challenge, now);
        self.begin_record(&step.name, shown);
        let reply = self.loaded.gate.send(&mut self.call_log, step.class, written, session.is_fresh()).await;
        let reply = reply.map_err(|why| CallResult::Unanswered(self.safe(&why)))?;
        // A refusal that asks for an answer says nothing of the token; one after the answer does.
        let asks = challenge.is_none() && self::challenge(step, &reply).is_some();
        if matches!(reply.status, 401 | 403) && !asks {
            session.reject(&self.loaded.tokens);
        }
        self.heard(&reply);
        Ok(reply)
    }

    pub(super) fn fill(
        &mut self,
        step: &Step,
        values: &[(String, String)],
        session: &Session,
        challenge: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<form::FilledRequest, CallResult> {
        let loaded = self.loaded;
        let callback_url = loaded.form.settings().find(|(name, _)| *name == CALLBACK_URL).map(|(_, url)| url);
        let (tokens, published) = (&session.texts(), &session.keys);
        let secrets = RequestSecrets { vault: &loaded.vault, tokens, published, callback_url };
        let captured = &self.captured;
        let input = Input { payment: &self.payment, values, captured, secrets: &secrets, challenge, now };
        loaded.form.fill(step, &input).map_err(|refusal| self.refused(refusal))
    }

    fn refused(&mut self, refusal: FillError) -> CallResult {
        match refusal {
            FillError::Payment(violation) => CallResult::Invalid(vec![violation]),
            FillError::Adapter(why) => {
                self.call_log.deny(Denial::new(GateRule::Variable, why.clone()));
                CallResult::Failed(CallError::BadValue(plain(&why).into_owned()))
            }
            FillError::Ours(why) => CallResult::Unready(why),
        }
    }

    /// What the host reads, and what the adapter has against it.
    async fn read(&mut self, step: &Step, operation: Operation, reply: &HttpReply) -> Reading {
        let shown = form::Reply { status: reply.status, headers: &reply.headers, body: &reply.body };
        let reading = self.loaded.form.read(step, operation, &shown, &self.payment);
        self.weigh(reading, &step.name, step.class, operation, reply).await
    }

    /// The host's reading without secrets, and with what the adapter has against it.
    async fn weigh(
        &mut self,
        mut reading: Reading,
        step: &str,
        class: StepClass,
        operation: Operation,
        reply: &HttpReply,
    ) -> Reading {
        let holds_secret = self.mask_secrets(&mut reading) || self.reply_holds_secret;
        // At once, for the adapter's reading may take the rest of the time. Of a step before the payment the adapter has to confirm it
        // first, and what is refused has no name by which it could be asked about.
        if class != StepClass::Prepare
            && (200..300).contains(&reply.status)
            && reading.side() != Side::NotPaid
        {
            self.fresh = reading.captured.clone();
        }
        // Only a final reading can be vetoed, and a reply with a secret in it is the host's alone.
        if reading.side() == Side::Open || holds_secret {
            return reading;
        }
        self.reading = (class != StepClass::Prepare).then(|| reading.clone());
        let facts = self.adapter_reads(step, operation, reply).await;
        self.reading = None;
        let reading =
            self.loaded.form.with_adapter(reading, class, operation, reply.status, facts.as_deref());
        let reading = known_bad::vetoed(reading);
        if reading.veto == Some(Veto::Opposite) {
            let why =
                format!("it reads the opposite of {} in a reply to step {step}", reading.side().as_str());
            self.call_log.deny(Denial::new(GateRule::Reading, why));
        }
        reading
    }

    /// Takes secrets out of what was read; true where there was one. Escapes hide a secret from a look at the bytes, and it shows only
    /// once it is read.
    fn mask_secrets(&self, reading: &mut Reading) -> bool {
        let mut holds_secret = false;
        let texts = reading.facts.iter_mut().map(|fact| &mut fact.value);
        let texts = texts
            .chain(reading.code.as_mut().map(|code| &mut code.value))
            .chain(reading.captured.values_mut());
        for text in texts {
            let safe = self.safe(text);
            holds_secret |= safe != *text;
            *text = safe;
        }
        reading.reference = reading.reference.take().map(|text| plain(&self.safe(&text)).into_owned());
        reading.why = reading.why.take().map(|text| self.safe(&text));
        holds_secret
    }

    /// Facts by name; none where the adapter cannot read the reply or fails at it.
    async fn adapter_reads(
        &mut self,
        step: &str,
        operation: Operation,
        reply: &HttpReply,
    ) -> Option<Vec<(String, String)>> {
        let functions = &self.loaded.functions;
        let told =
            wire::Reply { status: reply.status, headers: reply.headers.clone(), body: reply.body.to_vec() };
        let operation = contract::operation(operation);
        let read: Result<Result<Vec<(String, String)>, String>, CallError> = self
            .loaded
            .guest(self.sandbox, &mut self.log, async |instance: &Instance, store: &mut Store<GuestState>| {
                contract::call(&functions.read, instance, store, (operation, step, &told))
                    .await
                    .map_err(CallAbort::Engine)
            })
            .await;
        contract::values(read.ok()?.ok()?).ok()
    }
}

/// The setting that says where the rail may send news to.
const CALLBACK_URL: &str = "callback_url";
