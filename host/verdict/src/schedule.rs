//! What to do with a payment, and when again: pure functions of what is known, the rail's pace, a time and a die.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::decision::{Class, Decision};
use crate::error_code::ErrorCode;
use crate::history::{History, Late, LateAnswer};
use crate::outcome::{MoneyMoved, Outcome, Proof, State};
use crate::pace::{ATTEMPTS_MAX, Pace};

/// Longer a payment is never left alone, whatever a rail asks for.
const DELAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// After so many readings that the adapter does not bear out a payment is left to a person.
const VETOES_MAX: usize = 3;

/// A rail, as far as it decides what may be done.
#[derive(Debug, Clone)]
pub struct Manner {
    pub pace: Pace,
    pub idempotent: bool,
    pub can_query: bool,
    /// It tells by itself what became of a payment, and signs that.
    pub calls_back: bool,
    /// Of one call.
    pub deadline: Duration,
}

/// What a leased payment needs.
#[derive(Debug)]
pub enum Step {
    Disburse,
    Ask,
    /// All is known already.
    Write(Box<Outcome>),
}

pub fn step(unsettled: bool, history: &History, manner: &Manner, now: DateTime<Utc>) -> Step {
    match history.settled_late() {
        Some(Late::Paid(late)) => return late_verdict(late, State::Dispatched, MoneyMoved::Yes),
        Some(Late::Refused(late)) => {
            let moved = if late.money_moved == "no" { MoneyMoved::No } else { MoneyMoved::Unknown };
            return late_verdict(late, State::Failed, moved);
        }
        Some(Late::Contradiction) => {
            return open_end("late answers say that it was paid and that it was refused");
        }
        None => {}
    }
    // What may have left before may leave again only while the rail would recognise it.
    let may_send = !history.may_have_paid() || !history.key_is_burnt() && remembered(history, manner, now);
    match unsettled {
        false if may_send => Step::Disburse,
        _ if manner.can_query => Step::Ask,
        true if manner.pace.resend_is_safe && may_send => Step::Disburse,
        _ if manner.calls_back => unheard(history, manner),
        _ => open_end("the rail cannot be asked what became of it"),
    }
}

fn late_verdict(late: &LateAnswer, state: State, money_moved: MoneyMoved) -> Step {
    Step::Write(Box::new(Outcome {
        money_moved: Some(money_moved),
        rail_reference: late.rail_reference.clone(),
        rail_code: late.rail_code.clone(),
        error_code: late.error_code.clone(),
        ..Outcome::new(state)
    }))
}

/// The rail will tell by itself, and has not yet. Each look uses up one of the attempts, at the pace of questions.
fn unheard(history: &History, manner: &Manner) -> Step {
    let looks = i32::try_from(history.attempts.len()).unwrap_or(i32::MAX).saturating_add(1);
    Step::Write(Box::new(Outcome {
        error_code: Some(ErrorCode::QueryFailed.as_str().to_owned()),
        error_message: Some("the rail tells by a callback, and has not yet".to_owned()),
        // What may have left stays open, also at the last look there is.
        unsettled: history.may_have_paid().then_some(true),
        retry_delay_seconds: Some(manner.pace.query.after(looks).as_secs_f64()),
        ..Outcome::new(State::Retryable)
    }))
}

/// For a person to find out.
fn open_end(why: &str) -> Step {
    Step::Write(Box::new(Outcome {
        money_moved: Some(MoneyMoved::Unknown),
        error_code: Some(ErrorCode::OutcomeUnknown.as_str().to_owned()),
        error_message: Some(why.to_owned()),
        ..Outcome::new(State::Failed)
    }))
}

/// What becomes of an attempt.
#[derive(Debug)]
pub enum Written {
    Attempt(Box<Outcome>),
    /// The rail as a whole cannot pay now and did not: the payment waits, and has lost nothing by it.
    Held {
        delay: Duration,
    },
}

/// What is written down. `attempts` counts this one; `die` is from 0 to 1.
pub fn outcome(
    decision: Decision,
    attempts: i32,
    history: &History,
    manner: &Manner,
    now: DateTime<Utc>,
    die: f64,
) -> Written {
    if matches!(decision.class, Class::Hold | Class::Stop) {
        let pause = Duration::from_millis(manner.pace.breaker.open_ms.into());
        return Written::Held { delay: pause.max(asked_for(&decision)).min(DELAY_MAX) };
    }
    Written::Attempt(Box::new(attempt(decision, attempts, history, manner, now, die)))
}

/// The pause that the rail asked for.
fn asked_for(decision: &Decision) -> Duration {
    Duration::from_secs(decision.retry_after_seconds.unwrap_or_default().into())
}

fn attempt(
    decision: Decision,
    attempts: i32,
    history: &History,
    manner: &Manner,
    now: DateTime<Utc>,
    die: f64,
) -> Outcome {
    let decision = match is_local(&decision) && history.may_have_left() {
        false => decision,
        // We refuse it now, and it may have reached the rail before.
        true => {
            Decision { class: Class::TerminalReview, error_code: Some(ErrorCode::OutcomeUnknown), ..decision }
        }
    };
    // A token that was refused permits to send again only where the rail would recognise the payment.
    let decision = match decision.error_code {
        Some(ErrorCode::TokenRefused) if !manner.idempotent => {
            Decision { class: Class::Unknown, error_code: Some(ErrorCode::OutcomeUnknown), ..decision }
        }
        _ => decision,
    };
    let pace = &manner.pace;
    let resend = || pace.retry.after(attempts - history.questions()).mul_f64(die);
    let ask = || pace.query.after(attempts).mul_f64(0.9 + 0.2 * die);
    let again = |unsettled, delay| (State::Retryable, None, unsettled, Some(delay));
    let (state, money_moved, unsettled, delay) = match decision.class {
        Class::Success => (State::Dispatched, Some(MoneyMoved::Yes), None, None),
        // A refusal of what was sent today, by us or by the rail, says nothing about what left yesterday.
        Class::Terminal if !decision.of_a_question && history.may_have_paid() => {
            (State::Failed, Some(MoneyMoved::Unknown), None, None)
        }
        Class::Terminal => (State::Failed, Some(MoneyMoved::No), None, None),
        Class::TerminalReview => (State::Failed, Some(MoneyMoved::Unknown), None, None),
        Class::Unknown if decision.error_code == Some(ErrorCode::QueryFailed) => again(None, ask()),
        Class::Unknown if !manner.can_query && !manner.calls_back && !pace.resend_is_safe => {
            (State::Failed, Some(MoneyMoved::Unknown), None, None)
        }
        // Host and adapter do not come to agree: a person reads it.
        Class::Unknown
            if decision.error_code == Some(ErrorCode::AdapterVeto)
                && history.vetoes(decision.rail_code.as_deref()) + 1 >= VETOES_MAX =>
        {
            (State::Failed, Some(MoneyMoved::Unknown), None, None)
        }
        Class::Pending | Class::Unknown => again(Some(true), ask()),
        Class::NotFound if may_resend(history, manner, now) => again(Some(false), resend()),
        Class::NotFound => again(None, ask()),
        Class::Retryable | Class::Hold | Class::Stop => again(None, resend()),
    };
    // The last attempt there is: what may have left once is not called unpaid because nothing was heard since.
    let unsettled = match attempts >= ATTEMPTS_MAX && history.may_have_paid() {
        true => Some(true),
        false => unsettled,
    };
    let asked_for = asked_for(&decision);
    Outcome {
        state,
        money_moved,
        unsettled,
        rail_reference: decision.rail_reference,
        rail_code: decision.rail_code,
        error_code: decision.error_code.map(|code| code.as_str().to_owned()),
        error_message: decision.message,
        latency_ms: None,
        retry_delay_seconds: delay.map(|delay| delay.max(asked_for).min(DELAY_MAX).as_secs_f64()),
        captured: None,
        key_prefix: None,
        proof: Proof::default(),
    }
}

/// We ourselves refuse the payment.
fn is_local(decision: &Decision) -> bool {
    matches!(decision.error_code, Some(ErrorCode::InvalidPayload | ErrorCode::RefusedLocally))
}

/// The rail does not know the key. That permits sending it again only where nothing can still be on its way, the rail never had
/// it, and would recognise it.
fn may_resend(history: &History, manner: &Manner, now: DateTime<Utc>) -> bool {
    let pace = &manner.pace;
    let quiet = manner.deadline + Duration::from_secs(pace.visibility_seconds.into());
    let Some(last) = history.last_sent_by() else { return false };
    manner.idempotent && !history.key_is_burnt() && now >= last + quiet && remembered(history, manner, now)
}

/// The rail still knows the keys of that time.
fn remembered(history: &History, manner: &Manner, now: DateTime<Utc>) -> bool {
    let window = manner.pace.dedup_window_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    match (history.first_sent_at(), window) {
        (Some(first), Some(window)) => now < first + window,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manner() -> Manner {
        Manner {
            pace: Pace { visibility_seconds: 30, ..Pace::default() },
            idempotent: true,
            can_query: true,
            calls_back: false,
            deadline: Duration::from_secs(30),
        }
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("a time")
    }

    /// Attempts that were claimed at a time and lasted a second.
    fn history(attempts: &[(i64, &str, Option<&str>)]) -> History {
        let attempts: Vec<_> = attempts
            .iter()
            .map(|(claimed, state, code)| {
                json!({ "state": state, "claimed_at": at(*claimed), "completed_at": at(claimed + 1), "error_code": code })
            })
            .collect();
        serde_json::from_value(json!({ "attempts": attempts, "late_answers": [] })).expect("a history")
    }

    fn decision(class: Class, code: ErrorCode) -> Decision {
        Decision {
            class,
            error_code: Some(code),
            rail_code: None,
            rail_reference: None,
            message: None,
            of_a_question: false,
            opens_breaker: false,
            stops_rail: false,
            retry_after_seconds: None,
            rail_waits: false,
        }
    }

    fn not_found(history: &History, manner: &Manner, now: i64) -> Outcome {
        attempt(decision(Class::NotFound, ErrorCode::NotFound), 2, history, manner, at(now), 0.5)
    }

    #[test]
    fn an_open_past_is_asked_about_before_anything_else() {
        let (past, manner) = (history(&[(0, "ZOMBIE_REQUEUE", None)]), manner());
        assert!(matches!(step(false, &past, &manner, at(9)), Step::Disburse));
        assert!(matches!(step(true, &past, &manner, at(9)), Step::Ask));
    }

    #[test]
    fn a_rail_that_cannot_be_asked_leaves_it_to_a_person_unless_resending_is_safe() {
        let mut manner = Manner { can_query: false, ..manner() };
        let past = history(&[(0, "ZOMBIE_REQUEUE", None)]);
        let Step::Write(written) = step(true, &past, &manner, at(9)) else {
            panic!("nothing is to be called")
        };
        assert_eq!((written.state, written.money_moved), (State::Failed, Some(MoneyMoved::Unknown)));
        let unknown = || decision(Class::Unknown, ErrorCode::OutcomeUnknown);
        assert_eq!(attempt(unknown(), 1, &past, &manner, at(9), 0.5).state, State::Failed);
        manner.pace.resend_is_safe = true;
        assert!(matches!(step(true, &past, &manner, at(9)), Step::Disburse));
        assert_eq!(attempt(unknown(), 1, &past, &manner, at(9), 0.5).state, State::Retryable);
    }

    #[test]
    fn a_late_final_answer_settles_without_a_call() {
        let late = |state, money| {
            let answers = json!([{ "state": state, "money_moved": money, "rail_reference": "r" }]);
            serde_json::from_value::<History>(json!({ "attempts": [], "late_answers": answers }))
                .expect("a history")
        };
        let Step::Write(paid) = step(true, &late("DISPATCHED", "yes"), &manner(), at(9)) else {
            panic!("it is paid")
        };
        assert_eq!((paid.state, paid.rail_reference.as_deref()), (State::Dispatched, Some("r")));
        let Step::Write(refused) = step(true, &late("FAILED", "no"), &manner(), at(9)) else {
            panic!("it is refused")
        };
        assert_eq!((refused.state, refused.money_moved), (State::Failed, Some(MoneyMoved::No)));
        assert!(matches!(step(true, &late("RETRYABLE", "unknown"), &manner(), at(9)), Step::Ask));
        assert!(matches!(step(true, &late("FAILED", "unknown"), &manner(), at(9)), Step::Ask));
    }

    #[test]
    fn a_refused_token_permits_to_send_again_only_where_the_rail_deduplicates() {
        let refused = |idempotent| {
            let manner = Manner { idempotent, ..manner() };
            let outcome = attempt(
                decision(Class::Retryable, ErrorCode::TokenRefused),
                1,
                &history(&[]),
                &manner,
                at(9),
                0.5,
            );
            (outcome.unsettled, outcome.error_code)
        };
        assert_eq!(refused(true), (None, Some("TOKEN_REFUSED".to_owned())));
        assert_eq!(refused(false), (Some(true), Some("OUTCOME_UNKNOWN".to_owned())));
    }

    #[test]
    fn a_refusal_of_ours_says_that_no_money_moved_only_where_no_byte_ever_left() {
        let refused = |past: &History| {
            let outcome =
                attempt(decision(Class::Terminal, ErrorCode::InvalidPayload), 2, past, &manner(), at(9), 0.5);
            (outcome.money_moved, outcome.error_code)
        };
        let local = (Some(MoneyMoved::No), Some("INVALID_PAYLOAD".to_owned()));
        let open = (Some(MoneyMoved::Unknown), Some("OUTCOME_UNKNOWN".to_owned()));
        assert_eq!(refused(&history(&[])), local);
        assert_eq!(refused(&history(&[(0, "RETRYABLE", Some("NOT_SENT"))])), local);
        for left in ["TOKEN_REFUSED", "RAIL_DECLINED", "OUTCOME_UNKNOWN"] {
            assert_eq!(refused(&history(&[(0, "RETRYABLE", Some(left))])), open, "{left}");
        }
        assert_eq!(
            refused(&History { was_held: true, ..history(&[]) }),
            open,
            "the rail may have heard of it"
        );
    }

    #[test]
    fn a_rail_that_tells_by_itself_is_waited_for_and_never_sent_to_again() {
        let manner = Manner { can_query: false, calls_back: true, ..manner() };
        let sent = history(&[(0, "RETRYABLE", Some("RAIL_PENDING"))]);
        let Step::Write(waits) = step(true, &sent, &manner, at(60)) else { panic!("it waits") };
        assert_eq!((waits.state, waits.error_code.as_deref()), (State::Retryable, Some("QUERY_FAILED")));
        assert_eq!(waits.retry_delay_seconds, Some(manner.pace.query.after(2).as_secs_f64()));
        let unknown = Decision {
            class: Class::Unknown,
            error_code: Some(ErrorCode::OutcomeUnknown),
            ..Decision::not_sent("")
        };
        let Written::Attempt(outcome) = outcome(unknown, 1, &History::default(), &manner, at(1), 0.5) else {
            panic!("no hold")
        };
        assert_eq!(
            (outcome.state, outcome.unsettled),
            (State::Retryable, Some(true)),
            "the callback may still come"
        );
    }

    #[test]
    fn what_may_have_left_is_sent_again_only_while_the_rail_would_recognise_it() {
        let mut manner = Manner { can_query: false, ..manner() };
        manner.pace.resend_is_safe = true;
        manner.pace.dedup_window_seconds = Some(100);
        let sent = history(&[(0, "RETRYABLE", Some("OUTCOME_UNKNOWN"))]);
        assert!(matches!(step(true, &sent, &manner, at(99)), Step::Disburse));
        assert!(
            matches!(step(true, &sent, &manner, at(100)), Step::Write(_)),
            "the rail has forgotten the key"
        );
        assert!(matches!(step(false, &sent, &manner, at(100)), Step::Write(_)), "also after a not-found");
        let pending = history(&[(0, "RETRYABLE", Some("RAIL_PENDING"))]);
        assert!(matches!(step(true, &pending, &manner, at(9)), Step::Write(_)), "the rail has it");
        let unsent = history(&[(0, "RETRYABLE", Some("NOT_SENT"))]);
        assert!(matches!(step(false, &unsent, &manner, at(999)), Step::Disburse), "it never left");
    }

    #[test]
    fn a_refusal_of_our_own_does_not_say_that_an_earlier_attempt_did_not_pay() {
        let refuse = |history: &History| {
            let decision = decision(Class::Terminal, ErrorCode::InvalidPayload);
            attempt(decision, 2, history, &manner(), at(9), 0.5).money_moved
        };
        assert_eq!(refuse(&history(&[])), Some(MoneyMoved::No));
        assert_eq!(
            refuse(&history(&[(0, "ZOMBIE_REQUEUE", Some("LEASE_EXPIRED"))])),
            Some(MoneyMoved::Unknown)
        );
    }

    #[test]
    fn only_the_answer_to_a_question_says_that_an_earlier_attempt_did_not_pay() {
        let refuse = |of_a_question, history: &History| {
            let decision = Decision { of_a_question, ..decision(Class::Terminal, ErrorCode::RailDeclined) };
            let written = attempt(decision, 3, history, &manner(), at(9), 0.5);
            (written.state, written.money_moved)
        };
        let sent =
            history(&[(0, "RETRYABLE", Some("OUTCOME_UNKNOWN")), (40, "RETRYABLE", Some("NOT_FOUND"))]);
        assert_eq!(refuse(false, &sent), (State::Failed, Some(MoneyMoved::Unknown)));
        assert_eq!(refuse(true, &sent), (State::Failed, Some(MoneyMoved::No)), "the last word on the key");
        assert_eq!(refuse(false, &history(&[])), (State::Failed, Some(MoneyMoved::No)));
        let unsent = history(&[(0, "RETRYABLE", Some("NOT_SENT")), (3, "RETRYABLE", Some("ON_HOLD"))]);
        assert_eq!(refuse(false, &unsent), (State::Failed, Some(MoneyMoved::No)), "nothing left before");
    }

    #[test]
    fn the_last_attempt_does_not_settle_by_silence_what_may_have_left() {
        let sent =
            history(&[(0, "RETRYABLE", Some("OUTCOME_UNKNOWN")), (40, "RETRYABLE", Some("NOT_FOUND"))]);
        let unsent = history(&[(0, "RETRYABLE", Some("NOT_SENT"))]);
        let last = |history: &History, attempts| {
            let decision = decision(Class::Retryable, ErrorCode::NotSent);
            attempt(decision, attempts, history, &manner(), at(99), 0.5).unsettled
        };
        assert_eq!((last(&sent, 19), last(&sent, 20), last(&unsent, 20)), (None, Some(true), None));
    }

    #[test]
    fn late_answers_that_contradict_each_other_are_for_a_person() {
        let answers = json!([
            { "state": "FAILED", "money_moved": "no" },
            { "state": "DISPATCHED", "money_moved": "yes" },
        ]);
        let both: History =
            serde_json::from_value(json!({ "attempts": [], "late_answers": answers })).expect("a history");
        let Step::Write(written) = step(true, &both, &manner(), at(9)) else {
            panic!("nothing is to be called")
        };
        assert_eq!((written.state, written.money_moved), (State::Failed, Some(MoneyMoved::Unknown)));
    }

    #[test]
    fn not_found_permits_a_resend_only_when_nothing_can_be_on_its_way() {
        let sent =
            history(&[(0, "RETRYABLE", Some("OUTCOME_UNKNOWN")), (40, "RETRYABLE", Some("QUERY_FAILED"))]);
        let ask_again = |outcome: Outcome| outcome.unsettled.is_none() && outcome.state == State::Retryable;
        assert!(ask_again(not_found(&sent, &manner(), 60)), "a second too early");
        assert_eq!(not_found(&sent, &manner(), 61).unsettled, Some(false));
        assert!(ask_again(not_found(&sent, &Manner { idempotent: false, ..manner() }, 999)));
        let pending = history(&[(0, "RETRYABLE", Some("RAIL_PENDING"))]);
        assert!(ask_again(not_found(&pending, &manner(), 999)), "the rail had it");
        assert!(ask_again(not_found(&history(&[]), &manner(), 999)), "nobody knows when it was sent");
        let mut forgetful = manner();
        forgetful.pace.dedup_window_seconds = Some(100);
        assert_eq!(not_found(&sent, &forgetful, 99).unsettled, Some(false));
        assert!(ask_again(not_found(&sent, &forgetful, 100)), "the rail would not recognise it");
    }

    #[test]
    fn a_question_that_fails_leaves_the_past_as_open_as_it_was() {
        let failed = attempt(
            decision(Class::Unknown, ErrorCode::QueryFailed),
            3,
            &history(&[]),
            &manner(),
            at(0),
            0.5,
        );
        assert_eq!((failed.state, failed.unsettled), (State::Retryable, None));
    }

    #[test]
    fn questions_do_not_prolong_the_pause_between_two_requests_to_pay() {
        let asked = [(0, "RETRYABLE", Some("OUTCOME_UNKNOWN")), (1, "RETRYABLE", Some("QUERY_FAILED"))];
        let found = [asked[0], asked[1], asked[1], (3, "RETRYABLE", Some("NOT_FOUND"))];
        let pause = |history: &History, attempts| {
            let decision = decision(Class::Retryable, ErrorCode::NotSent);
            attempt(decision, attempts, history, &manner(), at(0), 1.0).retry_delay_seconds
        };
        assert_eq!(pause(&history(&found), 5), pause(&history(&found[..1]), 2));
    }

    #[test]
    fn pauses_are_scattered_and_a_rail_may_ask_for_a_longer_one() {
        let busy = |die, retry_after_seconds| {
            let decision =
                Decision { retry_after_seconds, ..decision(Class::Retryable, ErrorCode::RailDeclined) };
            attempt(decision, 3, &history(&[]), &manner(), at(0), die).retry_delay_seconds
        };
        assert_eq!(busy(1.0, None), Some(4.0));
        assert_eq!(busy(0.25, None), Some(1.0));
        assert_eq!(busy(0.25, Some(60)), Some(60.0));
        assert_eq!(busy(1.0, Some(1)), Some(4.0));
        assert_eq!(busy(1.0, Some(u32::MAX)), Some(86_400.0), "but not for ever");
    }

    #[test]
    fn a_payment_that_only_met_a_hold_has_used_up_nothing() {
        for class in [Class::Hold, Class::Stop] {
            let held = |retry_after_seconds| {
                let decision = Decision { retry_after_seconds, ..decision(class, ErrorCode::OnHold) };
                match outcome(decision, 20, &history(&[]), &manner(), at(0), 0.5) {
                    Written::Held { delay } => delay,
                    Written::Attempt(written) => panic!("an attempt is used up: {written:?}"),
                }
            };
            assert_eq!(held(None), Duration::from_millis(manner().pace.breaker.open_ms.into()));
            assert_eq!(held(Some(86_000)), Duration::from_secs(86_000), "as long as the rail asked for");
        }
    }
}
