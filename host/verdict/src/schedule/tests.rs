use serde_json::json;

use super::*;

fn policy() -> RailPolicy {
    RailPolicy {
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

fn not_found(history: &History, policy: &RailPolicy, now: i64) -> Outcome {
    attempt(decision(Class::NotFound, ErrorCode::NotFound), 2, history, policy, at(now), 0.5)
}

#[test]
fn an_open_past_is_asked_about_before_anything_else() {
    let (past, policy) = (history(&[(0, "ZOMBIE_REQUEUE", None)]), policy());
    assert!(matches!(next_action(false, &past, &policy, at(9)), NextAction::Disburse));
    assert!(matches!(next_action(true, &past, &policy, at(9)), NextAction::Ask));
}

#[test]
fn a_rail_that_cannot_be_asked_leaves_it_to_a_person_unless_resending_is_safe() {
    let mut policy = RailPolicy { can_query: false, ..policy() };
    let past = history(&[(0, "ZOMBIE_REQUEUE", None)]);
    let NextAction::Write(written) = next_action(true, &past, &policy, at(9)) else {
        panic!("nothing is to be called")
    };
    assert_eq!((written.state, written.money_moved), (CompletionState::Failed, Some(MoneyMoved::Unknown)));
    let unknown = || decision(Class::Unknown, ErrorCode::OutcomeUnknown);
    assert_eq!(attempt(unknown(), 1, &past, &policy, at(9), 0.5).state, CompletionState::Failed);
    policy.pace.resend_is_safe = true;
    assert!(matches!(next_action(true, &past, &policy, at(9)), NextAction::Disburse));
    assert_eq!(attempt(unknown(), 1, &past, &policy, at(9), 0.5).state, CompletionState::Retryable);
}

#[test]
fn a_late_final_answer_settles_without_a_call() {
    let late = |state, money| {
        let answers = json!([{ "state": state, "money_moved": money, "rail_reference": "r" }]);
        serde_json::from_value::<History>(json!({ "attempts": [], "late_answers": answers }))
            .expect("a history")
    };
    let NextAction::Write(paid) = next_action(true, &late("DISPATCHED", "yes"), &policy(), at(9)) else {
        panic!("it is paid")
    };
    assert_eq!((paid.state, paid.rail_reference.as_deref()), (CompletionState::Dispatched, Some("r")));
    let NextAction::Write(refused) = next_action(true, &late("FAILED", "no"), &policy(), at(9)) else {
        panic!("it is refused")
    };
    assert_eq!((refused.state, refused.money_moved), (CompletionState::Failed, Some(MoneyMoved::No)));
    assert!(matches!(next_action(true, &late("RETRYABLE", "unknown"), &policy(), at(9)), NextAction::Ask));
    assert!(matches!(next_action(true, &late("FAILED", "unknown"), &policy(), at(9)), NextAction::Ask));
}

#[test]
fn a_refused_token_permits_to_send_again_only_where_the_rail_deduplicates() {
    let refused = |idempotent| {
        let policy = RailPolicy { idempotent, ..policy() };
        let outcome = attempt(
            decision(Class::Retryable, ErrorCode::TokenRefused),
            1,
            &history(&[]),
            &policy,
            at(9),
            0.5,
        );
        (outcome.unsettled, outcome.error_code)
    };
    assert_eq!(refused(true), (None, Some(ErrorCode::TokenRefused)));
    assert_eq!(refused(false), (Some(true), Some(ErrorCode::OutcomeUnknown)));
}

#[test]
fn a_refusal_of_ours_says_that_no_money_moved_only_where_no_byte_ever_left() {
    let refused = |past: &History| {
        let outcome =
            attempt(decision(Class::Terminal, ErrorCode::InvalidPayload), 2, past, &policy(), at(9), 0.5);
        (outcome.money_moved, outcome.error_code)
    };
    let local = (Some(MoneyMoved::No), Some(ErrorCode::InvalidPayload));
    let open = (Some(MoneyMoved::Unknown), Some(ErrorCode::OutcomeUnknown));
    assert_eq!(refused(&history(&[])), local);
    assert_eq!(refused(&history(&[(0, "RETRYABLE", Some("NOT_SENT"))])), local);
    for left in ["TOKEN_REFUSED", "RAIL_DECLINED", "OUTCOME_UNKNOWN"] {
        assert_eq!(refused(&history(&[(0, "RETRYABLE", Some(left))])), open, "{left}");
    }
    assert_eq!(refused(&History { was_held: true, ..history(&[]) }), open, "the rail may have heard of it");
}

#[test]
fn a_rail_that_tells_by_itself_is_waited_for_and_never_sent_to_again() {
    let policy = RailPolicy { can_query: false, calls_back: true, ..policy() };
    let sent = history(&[(0, "RETRYABLE", Some("RAIL_PENDING"))]);
    let NextAction::Write(waits) = next_action(true, &sent, &policy, at(60)) else { panic!("it waits") };
    assert_eq!((waits.state, waits.error_code), (CompletionState::Retryable, Some(ErrorCode::QueryFailed)));
    assert_eq!(waits.retry_delay_seconds, Some(policy.pace.query.after(2).as_secs_f64()));
    let unknown = Decision {
        class: Class::Unknown,
        error_code: Some(ErrorCode::OutcomeUnknown),
        ..Decision::not_sent("")
    };
    let Conclusion::Attempt(outcome) = conclude(unknown, 1, &History::default(), &policy, at(1), 0.5) else {
        panic!("no hold")
    };
    assert_eq!(
        (outcome.state, outcome.unsettled),
        (CompletionState::Retryable, Some(true)),
        "the callback may still come"
    );
}

#[test]
fn what_may_have_left_is_sent_again_only_while_the_rail_would_recognise_it() {
    let mut policy = RailPolicy { can_query: false, ..policy() };
    policy.pace.resend_is_safe = true;
    policy.pace.dedup_window_seconds = Some(100);
    let sent = history(&[(0, "RETRYABLE", Some("OUTCOME_UNKNOWN"))]);
    assert!(matches!(next_action(true, &sent, &policy, at(99)), NextAction::Disburse));
    assert!(
        matches!(next_action(true, &sent, &policy, at(100)), NextAction::Write(_)),
        "the rail has forgotten the key"
    );
    assert!(
        matches!(next_action(false, &sent, &policy, at(100)), NextAction::Write(_)),
        "also after a not-found"
    );
    let pending = history(&[(0, "RETRYABLE", Some("RAIL_PENDING"))]);
    assert!(matches!(next_action(true, &pending, &policy, at(9)), NextAction::Write(_)), "the rail has it");
    let unsent = history(&[(0, "RETRYABLE", Some("NOT_SENT"))]);
    assert!(matches!(next_action(false, &unsent, &policy, at(999)), NextAction::Disburse), "it never left");
}

#[test]
fn a_refusal_of_our_own_does_not_say_that_an_earlier_attempt_did_not_pay() {
    let refuse = |history: &History| {
        let decision = decision(Class::Terminal, ErrorCode::InvalidPayload);
        attempt(decision, 2, history, &policy(), at(9), 0.5).money_moved
    };
    assert_eq!(refuse(&history(&[])), Some(MoneyMoved::No));
    assert_eq!(refuse(&history(&[(0, "ZOMBIE_REQUEUE", Some("LEASE_EXPIRED"))])), Some(MoneyMoved::Unknown));
}

#[test]
fn only_the_answer_to_a_question_says_that_an_earlier_attempt_did_not_pay() {
    let refuse = |of_a_question, history: &History| {
        let decision = Decision { of_a_question, ..decision(Class::Terminal, ErrorCode::RailDeclined) };
        let written = attempt(decision, 3, history, &policy(), at(9), 0.5);
        (written.state, written.money_moved)
    };
    let sent = history(&[(0, "RETRYABLE", Some("OUTCOME_UNKNOWN")), (40, "RETRYABLE", Some("NOT_FOUND"))]);
    assert_eq!(refuse(false, &sent), (CompletionState::Failed, Some(MoneyMoved::Unknown)));
    assert_eq!(
        refuse(true, &sent),
        (CompletionState::Failed, Some(MoneyMoved::No)),
        "the last word on the key"
    );
    assert_eq!(refuse(false, &history(&[])), (CompletionState::Failed, Some(MoneyMoved::No)));
    let unsent = history(&[(0, "RETRYABLE", Some("NOT_SENT")), (3, "RETRYABLE", Some("ON_HOLD"))]);
    assert_eq!(
        refuse(false, &unsent),
        (CompletionState::Failed, Some(MoneyMoved::No)),
        "nothing left before"
    );
}

#[test]
fn the_last_attempt_does_not_settle_by_silence_what_may_have_left() {
    let sent = history(&[(0, "RETRYABLE", Some("OUTCOME_UNKNOWN")), (40, "RETRYABLE", Some("NOT_FOUND"))]);
    let unsent = history(&[(0, "RETRYABLE", Some("NOT_SENT"))]);
    let last = |history: &History, attempts| {
        let decision = decision(Class::Retryable, ErrorCode::NotSent);
        attempt(decision, attempts, history, &policy(), at(99), 0.5).unsettled
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
    let NextAction::Write(written) = next_action(true, &both, &policy(), at(9)) else {
        panic!("nothing is to be called")
    };
    assert_eq!((written.state, written.money_moved), (CompletionState::Failed, Some(MoneyMoved::Unknown)));
}

#[test]
fn not_found_permits_a_resend_only_when_nothing_can_be_on_its_way() {
    let sent = history(&[(0, "RETRYABLE", Some("OUTCOME_UNKNOWN")), (40, "RETRYABLE", Some("QUERY_FAILED"))]);
    let ask_again =
        |outcome: Outcome| outcome.unsettled.is_none() && outcome.state == CompletionState::Retryable;
    assert!(ask_again(not_found(&sent, &policy(), 60)), "a second too early");
    assert_eq!(not_found(&sent, &policy(), 61).unsettled, Some(false));
    assert!(ask_again(not_found(&sent, &RailPolicy { idempotent: false, ..policy() }, 999)));
    let pending = history(&[(0, "RETRYABLE", Some("RAIL_PENDING"))]);
    assert!(ask_again(not_found(&pending, &policy(), 999)), "the rail had it");
    assert!(ask_again(not_found(&history(&[]), &policy(), 999)), "nobody knows when it was sent");
    let mut forgetful = policy();
    forgetful.pace.dedup_window_seconds = Some(100);
    assert_eq!(not_found(&sent, &forgetful, 99).unsettled, Some(false));
    assert!(ask_again(not_found(&sent, &forgetful, 100)), "the rail would not recognise it");
}

#[test]
fn a_question_that_fails_leaves_the_past_as_open_as_it_was() {
    let failed =
        attempt(decision(Class::Unknown, ErrorCode::QueryFailed), 3, &history(&[]), &policy(), at(0), 0.5);
    assert_eq!((failed.state, failed.unsettled), (CompletionState::Retryable, None));
}

#[test]
fn questions_do_not_prolong_the_pause_between_two_requests_to_pay() {
    let asked = [(0, "RETRYABLE", Some("OUTCOME_UNKNOWN")), (1, "RETRYABLE", Some("QUERY_FAILED"))];
    let found = [asked[0], asked[1], asked[1], (3, "RETRYABLE", Some("NOT_FOUND"))];
    let pause = |history: &History, attempts| {
        let decision = decision(Class::Retryable, ErrorCode::NotSent);
        attempt(decision, attempts, history, &policy(), at(0), 1.0).retry_delay_seconds
    };
    assert_eq!(pause(&history(&found), 5), pause(&history(&found[..1]), 2));
}

#[test]
fn pauses_are_scattered_and_a_rail_may_ask_for_a_longer_one() {
    let busy = |jitter, retry_after_seconds| {
        let decision =
            Decision { retry_after_seconds, ..decision(Class::Retryable, ErrorCode::RailDeclined) };
        attempt(decision, 3, &history(&[]), &policy(), at(0), jitter).retry_delay_seconds
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
            match conclude(decision, 20, &history(&[]), &policy(), at(0), 0.5) {
                Conclusion::Held { delay } => delay,
                Conclusion::Attempt(written) => panic!("an attempt is used up: {written:?}"),
            }
        };
        assert_eq!(held(None), Duration::from_millis(policy().pace.breaker.open_ms.into()));
        assert_eq!(held(Some(86_000)), Duration::from_secs(86_000), "as long as the rail asked for");
    }
}
