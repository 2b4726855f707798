//! What a host does, by the project's own functions: claim, next step, judgement, what is written.

use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use form::{Code, CodeTable, Meaning, Operation, Reading, Side, StepClass, Veto};
use harness::reference::{LateAnswer, Micros, Outbox, ReferenceOutcome, Refusal, SECOND, Words};
use payment::{KeyForm, RailKey};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;
use verdict::answer::CallResult;
use verdict::decision::{Class, Decision};
use verdict::error_code::ErrorCode;
use verdict::history::{self, History};
use verdict::outcome::{CompletionState, MoneyMoved, Outcome};
use verdict::pace::{Backoff, Pace};
use verdict::schedule::{self, NextAction, RailPolicy};
use verdict::witness::{Exchange, Sent, Witness};

use super::{Held, Host, Message, PAYMENT, Said, VISIBILITY_SECONDS, WORKERS, What, World, time};
use crate::setup::{Bug, Setup};

const LEASE: Micros = 300 * SECOND;
const DEADLINE: Duration = Duration::from_secs(30);

static CODES: LazyLock<CodeTable> = LazyLock::new(|| {
    toml::from_str(
        r#"version = 1
        rows = [
          { field = "code", code = "PAID", class = "success" },
          { field = "code", code = "TAKEN", class = "pending" },
          { field = "code", code = "NO", class = "terminal" },
          { operation = "disburse", field = "code", code = "NO_FLOAT", class = "hold" },
          { operation = "disburse", http = 409, field = "code", code = "SEEN", class = "pending" },
          { operation = "query-status", http = 404, field = "code", code = "NONE", class = "not-found" },
        ]"#,
    )
    .expect("a table")
});

/// What the host reads in a reply of the rail, and its status.
fn reading(asks: bool, said: Said) -> (Reading, u16) {
    let (code, http) = match said {
        Said::Settled => ("PAID", 200),
        Said::Accepted => ("TAKEN", 202),
        Said::Refused => ("NO", 400),
        Said::Held => ("NO_FLOAT", 400),
        Said::Failed => ("NO", 200),
        Said::Duplicate => ("SEEN", 409),
        Said::NotFound => ("NONE", 404),
    };
    let facts = vec![Code::new("code", code)];
    let operation = if asks { Operation::QueryStatus } else { Operation::Disburse };
    let judged = CODES.judge(operation, http, &facts);
    let reading = Reading {
        meaning: judged.meaning,
        code: judged.code,
        reference: Some("r".to_owned()).filter(|_| said == Said::Settled),
        facts,
        why: judged.why.map(ToOwned::to_owned),
        ..Reading::nothing("")
    };
    (reading, http)
}

/// Only such a reply is shown to the adapter.
pub(super) fn is_verdict(asks: bool, said: Said) -> bool {
    reading(asks, said).0.side() != Side::Open
}

fn policy(setup: &Setup) -> RailPolicy {
    RailPolicy {
        // The first question may come while a not-found says nothing yet, the second when it permits to send again.
        pace: Pace {
            query: Backoff { base_ms: 2_000, factor: 60.0, cap_ms: 120_000 },
            visibility_seconds: VISIBILITY_SECONDS,
            ..Pace::default()
        },
        idempotent: setup.deduplicates,
        calls_back: false,
        can_query: true,
        deadline: DEADLINE,
    }
}

fn text_of(key: RailKey) -> [u8; 36] {
    key.form(KeyForm::Uuid).into_bytes().try_into().expect("36 characters")
}

impl World {
    pub(super) fn host_acts(&self, host: usize, setup: &Setup, next: &mut Vec<(String, Self)>) {
        let name = WORKERS[host];
        let mut push = |step: &str, world: Self| next.push((format!("{name} {step}"), world));
        match &self.hosts[host] {
            Host::Idle => return self.claims_or_not(host, setup, &mut push),
            Host::InDoubt => {
                push("hands back what it may have leased", self.after_handing_back(host, Host::Idle));
            }
            Host::Holding { held, delay_seconds } => self.holds(host, held, *delay_seconds, &mut push),
            Host::Leased(held) => self.starts(host, held, setup, &mut push),
            Host::Waiting { held, asks } => {
                let mut world = self.clone();
                world.decides(host, held, *asks, None, None, setup);
                push("hears nothing by its deadline", world);
                if setup.bug == Some(Bug::HandsBackWhatItSent) {
                    push("hands back what it sent", self.after_handing_back(host, self.hosts[host].clone()));
                }
            }
            Host::Decided { held, outcome } => {
                let mut world = self.clone();
                world.writes(host, held, outcome, setup);
                self.hears_of_its_commit(host, world, "writes", &mut push);
            }
        }
        if self.kills > 0 {
            push("is killed", self.after_a_kill(host));
        }
    }

    fn claims_or_not(&self, host: usize, setup: &Setup, push: &mut impl FnMut(&str, Self)) {
        let Some(world) = self.claims(host, setup) else { return };
        if self.losses > 0 {
            let mut unheard = world.clone();
            unheard.losses -= 1;
            unheard.hosts[host] = Host::InDoubt;
            push("claims, and the answer is lost", unheard);
        }
        push("claims", world);
    }

    fn holds(&self, host: usize, held: &Held, delay_seconds: i64, push: &mut impl FnMut(&str, Self)) {
        let mut world = self.clone();
        world.commit().hold(WORKERS[host], PAYMENT, held.token, delay_seconds, "ON_HOLD");
        self.hears_of_its_commit(host, world, "holds", push);
    }

    /// The host is idle then; or the answer is lost, and it does the same again.
    fn hears_of_its_commit(
        &self,
        host: usize,
        mut committed: Self,
        what: &str,
        push: &mut impl FnMut(&str, Self),
    ) {
        if self.losses > 0 {
            let mut unheard = committed.clone();
            unheard.losses -= 1;
            unheard.hosts[host] = self.hosts[host].clone();
            push(&format!("{what}, and the answer is lost"), unheard);
        }
        committed.hosts[host] = Host::Idle;
        push(what, committed);
    }

    fn after_handing_back(&self, host: usize, then: Host) -> Self {
        let mut world = self.clone();
        world.commit().hand_back(WORKERS[host], &[]);
        world.hosts[host] = then;
        world
    }

    fn after_a_kill(&self, host: usize) -> Self {
        let mut world = self.clone();
        world.kills -= 1;
        if let Host::Waiting { held, .. } = &self.hosts[host] {
            world.forgets_replies(held.token);
        }
        world.hosts[host] = Host::Idle;
        world
    }

    /// Takes what is due, or what another one lost.
    fn claims(&self, host: usize, setup: &Setup) -> Option<Self> {
        let row = self.outbox.pending.get(&PAYMENT)?;
        let expired = row.lease.as_ref().map(|lease| lease.expires_at <= self.outbox.now);
        if expired == Some(false) || self.outbox.last_no(PAYMENT) >= setup.attempts {
            return None;
        }
        // Two idle hosts are the same host.
        if host > 0 && matches!(self.hosts[0], Host::Idle) {
            return None;
        }
        let mut world = self.clone();
        world.tokens += 1;
        let token = Uuid::from_u128(world.tokens << 8);
        let outbox = world.commit();
        if expired == Some(true) {
            outbox.expire(PAYMENT, 0);
        }
        let row = outbox.pending.get(&PAYMENT)?;
        outbox.now = outbox.now.max(row.next_attempt_at);
        outbox.lease(PAYMENT, WORKERS[host], token, outbox.now + LEASE);
        let row = &outbox.pending[&PAYMENT];
        let held = Held {
            token,
            claimed_at: outbox.now,
            unsettled: row.unsettled,
            attempts: row.attempt_count,
            history: Rc::new(past(outbox)),
        };
        world.hosts[host] = Host::Leased(held);
        Some(world)
    }

    /// The project's own next step.
    fn starts(&self, host: usize, held: &Held, setup: &Setup, push: &mut impl FnMut(&str, Self)) {
        let mut world = self.clone();
        let asks =
            match schedule::next_action(held.unsettled, &held.history, &policy(setup), time(held.claimed_at))
            {
                NextAction::Write(outcome) => {
                    world.hosts[host] = Host::Decided { held: held.clone(), outcome: Rc::new(*outcome) };
                    return push("knows enough", world);
                }
                NextAction::Disburse => false,
                NextAction::Ask => true,
            };
        if !asks && !setup.deduplicates {
            let marked = world.commit().mark_handed_over(WORKERS[host], PAYMENT, held.token);
            if marked.is_none() {
                world.hosts[host] = Host::Idle;
                return push("is told that its lease is gone", world);
            }
        }
        if self.losses > 0 {
            let mut unsent = world.clone();
            unsent.losses -= 1;
            let nothing = Witness::default();
            let said = CallResult::Unanswered("no connection".to_owned());
            unsent.judges(host, held, asks, &said, &nothing, setup);
            push("cannot reach the rail", unsent);
        }
        if !asks && self.refusals > 0 {
            let mut refused = world.clone();
            refused.refusals -= 1;
            refused.judges(
                host,
                held,
                asks,
                &CallResult::Refused("no".to_owned()),
                &Witness::default(),
                setup,
            );
            push("does not want it sent", refused);
        }
        let key = text_of(match setup.bug {
            Some(Bug::FreshKey) => RailKey::of(held.token),
            _ => RailKey::of(PAYMENT),
        });
        let what = if asks { What::Ask } else { What::Pay };
        world.under_way.push(Message { token: held.token, key, what });
        world.under_way.sort_unstable();
        world.hosts[host] = Host::Waiting { held: held.clone(), asks };
        push(if asks { "asks" } else { "sends" }, world);
    }

    pub(super) fn decides(
        &mut self,
        host: usize,
        held: &Held,
        asks: bool,
        said: Option<Said>,
        veto: Option<Veto>,
        setup: &Setup,
    ) {
        match said {
            None => {
                self.answered(host, held, asks, &CallResult::Unanswered("no reply".to_owned()), None, setup)
            }
            Some(said) => {
                let (mut reading, status) = reading(asks, said);
                match veto {
                    Some(_) if setup.bug == Some(Bug::VetoIsVote) => {
                        let paid = reading.meaning == Some(Meaning::Success);
                        reading.meaning = Some(if paid { Meaning::Terminal } else { Meaning::Success });
                    }
                    veto => reading.veto = veto,
                }
                self.answered(host, held, asks, &CallResult::Reading(Box::new(reading)), Some(status), setup);
            }
        }
    }

    /// A reply that is not about this payment.
    pub(super) fn hears_of_another(
        &mut self,
        host: usize,
        held: &Held,
        asks: bool,
        said: Said,
        setup: &Setup,
    ) {
        let counts = setup.bug == Some(Bug::StrangersReplyCounts);
        let heard = match counts {
            true => reading(asks, said).0,
            false => Reading { is_doubtful: true, ..Reading::nothing("the reply is about another payment") },
        };
        let status = reading(asks, said).1;
        self.answered(host, held, asks, &CallResult::Reading(Box::new(heard)), Some(status), setup);
    }

    fn answered(
        &mut self,
        host: usize,
        held: &Held,
        asks: bool,
        heard: &CallResult,
        status: Option<u16>,
        setup: &Setup,
    ) {
        let exchange = Exchange {
            step: String::new(),
            class: if asks { StepClass::Read } else { StepClass::Money },
            left: Sent::Body,
            status,
            whole: status.is_some(),
            retry_after_seconds: None,
            token_is_fresh: None,
        };
        let witness = Witness { exchanges: vec![exchange], denied: Vec::new() };
        self.judges(host, held, asks, heard, &witness, setup);
    }

    /// The project's own judgement, and what it writes down.
    fn judges(
        &mut self,
        host: usize,
        held: &Held,
        asks: bool,
        heard: &CallResult,
        witness: &Witness,
        setup: &Setup,
    ) {
        let mut decision = match asks {
            true => verdict::judge_query(heard, witness),
            false => verdict::judge_disbursement(heard, witness),
        };
        if setup.bug == Some(Bug::SilenceIsRefusal) && !asks && decision.class == Class::Unknown {
            decision =
                Decision { class: Class::Terminal, error_code: Some(ErrorCode::RailDeclined), ..decision };
        }
        if setup.bug == Some(Bug::SilenceIsHold) && !asks && decision.class == Class::Unknown {
            decision = Decision { class: Class::Hold, error_code: Some(ErrorCode::OnHold), ..decision };
        }
        if setup.bug == Some(Bug::VetoIsRefusal) && decision.error_code == Some(ErrorCode::AdapterVeto) {
            decision =
                Decision { class: Class::Terminal, error_code: Some(ErrorCode::RailDeclined), ..decision };
        }
        if setup.bug == Some(Bug::LocalRefusalIsFinal)
            && decision.error_code == Some(ErrorCode::RefusedLocally)
        {
            decision =
                Decision { error_code: Some(ErrorCode::RailDeclined), of_a_question: true, ..decision };
        }
        let (attempts, now) = (held.attempts + 1, time(self.outbox.now));
        let held = held.clone();
        let token = held.token;
        self.hosts[host] =
            match schedule::conclude(decision, attempts, &held.history, &policy(setup), now, 0.5) {
                schedule::Conclusion::Attempt(outcome) => Host::Decided { held, outcome: Rc::new(*outcome) },
                schedule::Conclusion::Held { delay } => {
                    Host::Holding { held, delay_seconds: delay.as_secs_f64().ceil() as i64 }
                }
            };
        self.forgets_replies(token);
    }

    /// Replies to a host that gave up are of no use to anybody.
    fn forgets_replies(&mut self, token: Uuid) {
        self.under_way.retain(|message| message.token != token || !matches!(message.what, What::Said(_)));
    }

    /// Under the fence, or kept as late.
    fn writes(&mut self, host: usize, held: &Held, outcome: &Outcome, setup: &Setup) {
        let written = written(outcome);
        let outbox = self.commit();
        let (mut worker, mut token) = (WORKERS[host].to_owned(), held.token);
        if setup.bug == Some(Bug::NoFence)
            && let Some(lease) = outbox.pending.get(&PAYMENT).and_then(|row| row.lease.clone())
        {
            (worker, token) = (lease.worker, lease.token);
        }
        match outbox.complete(&worker, PAYMENT, token, &written) {
            Ok(_) => {}
            Err(Refusal::LeaseLost) => {
                let late = LateAnswer {
                    worker,
                    state: written.state,
                    money_moved: written.money_moved.unwrap_or("unknown"),
                    words: written.words,
                    recorded_at: outbox.now,
                };
                outbox.record_late_answer(PAYMENT, held.token, late).expect("a good answer");
            }
            Err(refusal) => panic!("{refusal:?}: {outcome:?}"),
        }
    }
}

/// What a claim tells of a payment's past.
fn past(outbox: &Outbox) -> History {
    let attempt = |attempt: &harness::reference::Attempt| history::PastAttempt {
        state: read(attempt.state),
        claimed_at: time(attempt.claimed_at),
        completed_at: time(attempt.completed_at),
        error_code: attempt.words.error_code.as_deref().map(ErrorCode::read),
        rail_code: attempt.words.rail_code.clone(),
        adapter_digest: None,
        lease_token: Some(attempt.token),
    };
    let late = |((_, token), late): (&(Uuid, Uuid), &LateAnswer)| history::LateAnswer {
        lease_token: Some(*token),
        state: read(late.state),
        money_moved: read(late.money_moved),
        rail_reference: late.words.rail_reference.clone(),
        rail_code: late.words.rail_code.clone(),
        error_code: late.words.error_code.as_deref().map(ErrorCode::read),
        of_key: false,
    };
    History {
        attempts: outbox.attempts.get(&PAYMENT).into_iter().flatten().map(attempt).collect(),
        late_answers: outbox.late_answers.iter().map(late).collect(),
        captured: std::collections::BTreeMap::new(),
        was_held: false,
    }
}

/// As the host reads what the database says.
fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_value(Value::from(text)).expect("a word of the history")
}

fn written(outcome: &Outcome) -> ReferenceOutcome {
    ReferenceOutcome {
        state: match outcome.state {
            CompletionState::Dispatched => "DISPATCHED",
            CompletionState::Failed => "FAILED",
            CompletionState::Retryable => "RETRYABLE",
        },
        money_moved: outcome.money_moved.map(|money| match money {
            MoneyMoved::Yes => "yes",
            MoneyMoved::No => "no",
            MoneyMoved::Unknown => "unknown",
        }),
        unsettled: outcome.unsettled,
        retry_delay_seconds: outcome.retry_delay_seconds.map(|seconds| seconds.ceil() as i64),
        words: Words {
            rail_reference: outcome.rail_reference.clone(),
            rail_code: outcome.rail_code.clone(),
            error_code: outcome.error_code.map(|code| code.as_str().to_owned()),
            error_message: None,
            latency_ms: None,
        },
    }
}
