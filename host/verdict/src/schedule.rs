//! What to do with a payment, and when to retry: pure functions of what is known, the rail's pace, a time and a jitter.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::decision::{Class, Decision};
use crate::error_code::ErrorCode;
use crate::history::{History, Late, LateAnswer};
use crate::outcome::{CompletionState, MoneyMoved, Outcome, Provenance};
use crate::pace::{ATTEMPTS_MAX, Pace};

#[cfg(test)]
mod tests;

/// The longest delay between two attempts, whatever the rail asks for.
const DELAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// After so many vetoes of the adapter a payment is left to a person.
const VETOES_MAX: usize = 3;

/// A rail, as far as it decides what may be done.
#[derive(Debug, Clone)]
pub struct RailPolicy {
    /// `[pace]` of the rail file.
    pub pace: Pace,
    /// The rail recognises a key that it had before, and pays it once.
    pub idempotent: bool,
    /// The rail can be asked what became of a payment.
    pub can_query: bool,
    /// It tells by itself what became of a payment, and signs that.
    pub calls_back: bool,
    /// Of one call.
    pub deadline: Duration,
}

/// What a leased payment needs.
#[derive(Debug)]
pub enum NextAction {
    /// Send the requests that pay.
    Disburse,
    /// Ask the rail what became of it, and send nothing that pays.
    Ask,
    /// All is known already.
    Write(Box<Outcome>),
}

/// Decides what to do with a payment that was leased. `unsettled` is from the lease: the money may have moved already.
pub fn next_action(
    unsettled: bool,
    history: &History,
    policy: &RailPolicy,
    now: DateTime<Utc>,
) -> NextAction {
    match history.settled_late() {
        Some(Late::Paid(late)) => return late_verdict(late, CompletionState::Dispatched, MoneyMoved::Yes),
        Some(Late::Refused(late)) => {
            let moved = if late.money_moved == MoneyMoved::No { MoneyMoved::No } else { MoneyMoved::Unknown };
            return late_verdict(late, CompletionState::Failed, moved);
        }
        Some(Late::Contradiction) => {
            return open_end("late answers contradict each other: one says paid, another refused");
        }
        None => {}
    }
    // What may have left before may leave again only while the rail would recognise it.
    let may_send = !history.may_have_paid() || !history.key_is_burnt() && remembered(history, policy, now);
    match unsettled {
        false if may_send => NextAction::Disburse,
        _ if policy.can_query => NextAction::Ask,
        true if policy.pace.resend_is_safe && may_send => NextAction::Disburse,
        _ if policy.calls_back => unheard(history, policy),
        _ => open_end("the rail has no status query, so the outcome stays unknown"),
    }
}

fn late_verdict(late: &LateAnswer, state: CompletionState, money_moved: MoneyMoved) -> NextAction {
    NextAction::Write(Box::new(Outcome {
        money_moved: Some(money_moved),
        rail_reference: late.rail_reference.clone(),
        rail_code: late.rail_code.clone(),
        error_code: late.error_code,
        ..Outcome::new(state)
    }))
}

/// The rail will tell by itself, and has not yet. Each look uses up one of the attempts, at the pace of questions.
fn unheard(history: &History, policy: &RailPolicy) -> NextAction {
    let looks = i32::try_from(history.attempts.len()).unwrap_or(i32::MAX).saturating_add(1);
    NextAction::Write(Box::new(Outcome {
        error_code: Some(ErrorCode::QueryFailed),
        error_message: Some("waiting for the rail's callback".to_owned()),
        // What may have left stays open, also at the last look there is.
        unsettled: history.may_have_paid().then_some(true),
        retry_delay_seconds: Some(policy.pace.query.after(looks).as_secs_f64()),
        ..Outcome::new(CompletionState::Retryable)
    }))
}

/// For a person to find out.
fn open_end(why: &str) -> NextAction {
    NextAction::Write(Box::new(Outcome {
        money_moved: Some(MoneyMoved::Unknown),
        error_code: Some(ErrorCode::OutcomeUnknown),
        error_message: Some(why.to_owned()),
        ..Outcome::new(CompletionState::Failed)
    }))
}

/// What becomes of an attempt.
#[derive(Debug)]
pub enum Conclusion {
    /// It counts as an attempt of the payment, and this is written of it.
    Attempt(Box<Outcome>),
    /// The rail as a whole cannot pay now and did not: the payment waits, and has lost nothing by it.
    Held {
        /// Until the payment is due again: `breaker.open_ms`, or the rail's own pause if that is longer; a day at most.
        delay: Duration,
    },
}

/// What is written down. `attempts` counts this one; `jitter` is from 0 to 1, a random number of the caller's. A retry waits from 0
/// to its whole backoff, a question from 0.9 to 1.1 times its own.
pub fn conclude(
    decision: Decision,
    attempts: i32,
    history: &History,
    policy: &RailPolicy,
    now: DateTime<Utc>,
    jitter: f64,
) -> Conclusion {
    if matches!(decision.class, Class::Hold | Class::Stop) {
        let pause = Duration::from_millis(policy.pace.breaker.open_ms.into());
        return Conclusion::Held { delay: pause.max(asked_for(&decision)).min(DELAY_MAX) };
    }
    Conclusion::Attempt(Box::new(attempt(decision, attempts, history, policy, now, jitter)))
}

/// The pause that the rail asked for.
fn asked_for(decision: &Decision) -> Duration {
    Duration::from_secs(decision.retry_after_seconds.unwrap_or_default().into())
}

fn attempt(
    decision: Decision,
    attempts: i32,
    history: &History,
    policy: &RailPolicy,
    now: DateTime<Utc>,
    jitter: f64,
) -> Outcome {
    let decision = correct(decision, history, policy);
    let known = Known { attempts, history, policy, now, jitter };
    let next = next(&decision, &known);
    // The last attempt there is: what may have left once is not called unpaid because nothing was heard since.
    let unsettled = match attempts >= ATTEMPTS_MAX && history.may_have_paid() {
        true => Some(true),
        false => next.unsettled,
    };
    let asked_for = asked_for(&decision);
    Outcome {
        state: next.state,
        money_moved: next.money_moved,
        unsettled,
        rail_reference: decision.rail_reference,
        rail_code: decision.rail_code,
        error_code: decision.error_code,
        error_message: decision.message,
        latency_ms: None,
        retry_delay_seconds: next.delay.map(|delay| delay.max(asked_for).min(DELAY_MAX).as_secs_f64()),
        captured: None,
        key_prefix: None,
        proof: Provenance::default(),
    }
}

/// What is decided about one request says less where an earlier one may have reached the rail.
fn correct(decision: Decision, history: &History, policy: &RailPolicy) -> Decision {
    let decision = match is_local(&decision) && history.may_have_left() {
        false => decision,
        // We refuse it now, and it may have reached the rail before.
        true => {
            Decision { class: Class::TerminalReview, error_code: Some(ErrorCode::OutcomeUnknown), ..decision }
        }
    };
    // A token that was refused permits to send again only where the rail would recognise the payment.
    match decision.error_code {
        Some(ErrorCode::TokenRefused) if !policy.idempotent => {
            Decision { class: Class::Unknown, error_code: Some(ErrorCode::OutcomeUnknown), ..decision }
        }
        _ => decision,
    }
}

/// What is known besides the decision.
struct Known<'k> {
    attempts: i32,
    history: &'k History,
    policy: &'k RailPolicy,
    now: DateTime<Utc>,
    jitter: f64,
}

/// The state that a payment goes to.
struct Next {
    state: CompletionState,
    money_moved: Option<MoneyMoved>,
    unsettled: Option<bool>,
    /// Until it is claimed again.
    delay: Option<Duration>,
}

impl Next {
    fn end(state: CompletionState, money_moved: MoneyMoved) -> Self {
        Self { state, money_moved: Some(money_moved), unsettled: None, delay: None }
    }

    fn again(unsettled: Option<bool>, delay: Duration) -> Self {
        Self { state: CompletionState::Retryable, money_moved: None, unsettled, delay: Some(delay) }
    }
}

fn next(decision: &Decision, known: &Known<'_>) -> Next {
    let Known { attempts, history, policy, now, jitter } = known;
    let pace = &policy.pace;
    let resend = || pace.retry.after(attempts - history.questions()).mul_f64(*jitter);
    let ask = || pace.query.after(*attempts).mul_f64(0.9 + 0.2 * jitter);
    match decision.class {
        Class::Success => Next::end(CompletionState::Dispatched, MoneyMoved::Yes),
        // A refusal of what was sent today, by us or by the rail, says nothing about what left yesterday.
        Class::Terminal if !decision.of_a_question && history.may_have_paid() => {
            Next::end(CompletionState::Failed, MoneyMoved::Unknown)
        }
        Class::Terminal => Next::end(CompletionState::Failed, MoneyMoved::No),
        Class::TerminalReview => Next::end(CompletionState::Failed, MoneyMoved::Unknown),
        Class::Unknown if decision.error_code == Some(ErrorCode::QueryFailed) => Next::again(None, ask()),
        Class::Unknown if !policy.can_query && !policy.calls_back && !pace.resend_is_safe => {
            Next::end(CompletionState::Failed, MoneyMoved::Unknown)
        }
        // Host and adapter do not come to agree: a person reads it.
        Class::Unknown if is_vetoed_too_often(decision, history) => {
            Next::end(CompletionState::Failed, MoneyMoved::Unknown)
        }
        Class::Pending | Class::Unknown => Next::again(Some(true), ask()),
        Class::NotFound if may_resend(history, policy, *now) => Next::again(Some(false), resend()),
        Class::NotFound => Next::again(None, ask()),
        // The last two do not come here: `conclude` puts their payments back.
        Class::Retryable | Class::Hold | Class::Stop => Next::again(None, resend()),
    }
}

fn is_vetoed_too_often(decision: &Decision, history: &History) -> bool {
    decision.error_code == Some(ErrorCode::AdapterVeto)
        && history.vetoes(decision.rail_code.as_deref()) + 1 >= VETOES_MAX
}

/// We ourselves refuse the payment.
fn is_local(decision: &Decision) -> bool {
    matches!(decision.error_code, Some(ErrorCode::InvalidPayload | ErrorCode::RefusedLocally))
}

/// The rail does not know the key. It may be sent again only if three things hold: nothing can still be on its way, the rail never
/// had the key, and it would recognise the key.
fn may_resend(history: &History, policy: &RailPolicy, now: DateTime<Utc>) -> bool {
    let pace = &policy.pace;
    let quiet = policy.deadline + Duration::from_secs(pace.visibility_seconds.into());
    let Some(last) = history.last_sent_by() else { return false };
    policy.idempotent && !history.key_is_burnt() && now >= last + quiet && remembered(history, policy, now)
}

/// The rail still knows the keys of that time.
fn remembered(history: &History, policy: &RailPolicy, now: DateTime<Utc>) -> bool {
    let window = policy.pace.dedup_window_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    match (history.first_sent_at(), window) {
        (Some(first), Some(window)) => now < first + window,
        _ => true,
    }
}
