//! After a request to pay. What became of it is *unknown* once something of it may have left (the gate counts from before it
//! writes) and no whole reply came. The crate `rail` enforces the timeouts: `first_byte_ms` and `idle_ms` in its `gate/wire.rs`,
//! `call_ms` in its `call.rs`. It is *not sent* where no byte left ([`ExchangeResult`]). On a rail without query, callback or safe
//! resend an unknown outcome ends as FAILED with `money_moved` unknown ([`crate::schedule`]), for a person.

use form::{Meaning, Reading, StepClass};

use crate::answer::CallResult;
use crate::decision::{Class, Decision, vetoed};
use crate::error_code::ErrorCode;
use crate::exchange_result::ExchangeResult;
use crate::witness::{Exchange, Witness};

/// Judges a call that was to pay.
pub fn judge_disbursement(heard: &CallResult, witness: &Witness) -> Decision {
    let money = witness.money();
    let seen = ExchangeResult::of(money);
    let decision = match heard {
        CallResult::Invalid(violations) if seen == ExchangeResult::Nothing => Decision::invalid(violations),
        CallResult::Refused(why) if seen == ExchangeResult::Nothing => {
            Decision::new(Class::Terminal, ErrorCode::RefusedLocally).saying(why)
        }
        CallResult::Unanswered(why) if seen == ExchangeResult::Nothing && no_session(witness) => {
            Decision::new(Class::Hold, ErrorCode::OnHold).saying(why)
        }
        CallResult::Unready(why) if seen == ExchangeResult::Nothing => {
            Decision::new(Class::Hold, ErrorCode::OnHold).saying(why)
        }
        CallResult::Reading(reading) => of_reading(reading, seen, money),
        CallResult::Unprepared { reading, status, why } if seen == ExchangeResult::Nothing => {
            unprepared(reading, *status, witness).saying(why).with(reading)
        }
        CallResult::Unprepared { why, .. } => without_answer(seen, why.clone()),
        CallResult::Failed(error) => without_answer(seen, error.to_string()),
        CallResult::Unanswered(why) | CallResult::Refused(why) | CallResult::Unready(why) => {
            without_answer(seen, why.clone())
        }
        CallResult::Valid | CallResult::Invalid(_) => without_answer(seen, "it was not sent".to_owned()),
    };
    decision.after(money.and_then(|money| money.retry_after_seconds), seen.status())
}

/// The rail refused to open a session: our credentials, or our route. Too early, too many and too slow refuse nothing.
fn no_session(witness: &Witness) -> bool {
    let last = witness.exchanges.iter().rev().find(|exchange| exchange.class == StepClass::Session);
    match ExchangeResult::of(last).status() {
        Some(408 | 425 | 429) => false,
        status => status.is_some_and(|status| (400..=499).contains(&status)),
    }
}

/// A step before the payment was refused, or brought too little. Nothing that could pay left. So a refusal is about this
/// attempt only, and other readings say nothing about the payment.
fn unprepared(reading: &Reading, status: u16, witness: &Witness) -> Decision {
    let last = witness.exchanges.iter().rev().find(|exchange| exchange.class == StepClass::Prepare);
    let not_sent = || Decision::new(Class::Retryable, ErrorCode::NotSent);
    match (reading.meaning, status) {
        // An error on our side stays one, whatever the adapter reads.
        (Some(Meaning::Hold), _) => Decision::new(Class::Hold, ErrorCode::OnHold),
        (Some(Meaning::Stop), _) => Decision::new(Class::Stop, ErrorCode::Stopped),
        _ if reading.veto.is_some() => not_sent(),
        (Some(Meaning::Terminal | Meaning::TerminalReview), 408 | 425 | 429) => not_sent(),
        (Some(Meaning::Terminal | Meaning::TerminalReview), _) => {
            Decision::new(Class::Terminal, ErrorCode::RailDeclined)
        }
        (Some(Meaning::Retryable), _) => Decision::new(Class::Retryable, ErrorCode::RailDeclined),
        // Forbidden and not found may be about the payee, who must not stop the rail for all others.
        (None, 403 | 404) => not_sent(),
        (None, _) if reading.facts.is_empty() && !reading.is_doubtful => {
            of_status(status, last).unwrap_or_else(not_sent)
        }
        _ => not_sent(),
    }
}

/// What was read, and what the gate saw, together.
fn of_reading(reading: &Reading, seen: ExchangeResult, money: Option<&Exchange>) -> Decision {
    let why = || reading.why.clone().unwrap_or_default();
    let ExchangeResult::Status(status) = seen else {
        return without_answer(seen, "the adapter read a reply that the host did not receive".to_owned());
    };
    if let Some(decision) = vetoed(reading, ErrorCode::AdapterVeto) {
        return decision;
    }
    let is_final = (200..300).contains(&status) || reading.is_final;
    let decision = match (reading.meaning, status) {
        (Some(Meaning::Success), 200..=299) => Decision::success(reading),
        (Some(Meaning::Success), _) => unknown("the reply says paid, but its HTTP status does not"),
        (Some(Meaning::Pending | Meaning::Received), _) => {
            Decision::new(Class::Pending, ErrorCode::RailPending)
        }
        (Some(Meaning::Unknown), _) => unknown(why()),
        (Some(Meaning::NotFound), _) => unknown("the reply to a payment request says not found"),
        // Too early, too many, too slow: a reply that refuses nothing.
        (Some(Meaning::Terminal | Meaning::TerminalReview), 408 | 425 | 429) => {
            unknown("its HTTP status is not a refusal")
        }
        // The rail took it and said no, by its status or in plain words: its last word on this key, whatever the reason.
        (Some(Meaning::Retryable), _) if is_final => Decision::new(Class::Terminal, ErrorCode::RailDeclined),
        (Some(Meaning::Hold), _) if is_final => {
            Decision::new(Class::Terminal, ErrorCode::RailDeclined).opening_the_breaker()
        }
        (Some(Meaning::Stop), _) if is_final => {
            Decision::new(Class::Terminal, ErrorCode::RailDeclined).stopping_the_rail()
        }
        (Some(Meaning::Retryable), _) => Decision::new(Class::Retryable, ErrorCode::RailDeclined),
        (Some(Meaning::Hold), _) => Decision::new(Class::Hold, ErrorCode::OnHold),
        (Some(Meaning::Stop), _) => Decision::new(Class::Stop, ErrorCode::Stopped),
        (Some(Meaning::Terminal), _) => Decision::new(Class::Terminal, ErrorCode::RailDeclined),
        (Some(Meaning::TerminalReview), _) => Decision::new(Class::TerminalReview, ErrorCode::RailDeclined),
        // A code that is not listed, or a reply that could be another payment's, says nothing by its status either.
        (None, _) if reading.is_doubtful || !reading.facts.is_empty() => unknown(why()),
        (None, _) => of_status(status, money).unwrap_or_else(|| unknown(why())),
    };
    decision.with(reading)
}

/// Nothing was read; what the gate saw remains.
fn without_answer(seen: ExchangeResult, why: String) -> Decision {
    match seen {
        ExchangeResult::Nothing => Decision::new(Class::Retryable, ErrorCode::NotSent).saying(why),
        ExchangeResult::Silence | ExchangeResult::Status(_) => unknown(why),
    }
}

/// Statuses that say by themselves that the rail did not look at the payment: our credentials, or our route.
fn of_status(status: u16, money: Option<&Exchange>) -> Option<Decision> {
    match status {
        // A token that was good a while ago: the next attempt brings a new one.
        401 | 403 if money.is_some_and(|money| money.token_is_fresh == Some(false)) => {
            Some(Decision::new(Class::Retryable, ErrorCode::TokenRefused))
        }
        401 | 403 | 404 => Some(Decision::new(Class::Hold, ErrorCode::OnHold)),
        _ => None,
    }
}

fn unknown(why: impl Into<String>) -> Decision {
    Decision::new(Class::Unknown, ErrorCode::OutcomeUnknown).saying(why)
}

#[cfg(test)]
mod tests {
    use form::{Code, Veto};

    use super::*;
    use crate::call_error::CallError;
    use crate::witness::Sent;
    use payment::Violation;

    fn exchange(left: Sent, status: Option<u16>) -> Exchange {
        Exchange {
            step: "pay".into(),
            class: StepClass::Money,
            left,
            status,
            whole: status.is_some(),
            retry_after_seconds: None,
            token_is_fresh: None,
        }
    }

    fn judge_heard(heard: CallResult, exchange: Option<Exchange>) -> Decision {
        let witness = Witness { exchanges: exchange.into_iter().collect(), denied: Vec::new() };
        judge_disbursement(&heard, &witness)
    }

    fn judge(meaning: Option<Meaning>, exchange: Option<Exchange>) -> Decision {
        judge_heard(CallResult::Reading(Box::new(reading(meaning))), exchange)
    }

    fn reading(meaning: Option<Meaning>) -> Reading {
        let code = meaning.map(|meaning| Code::new("code", format!("{meaning:?}")));
        Reading { meaning, code, ..Reading::nothing("why") }
    }

    fn unanswered() -> CallResult {
        CallResult::Unanswered("why".into())
    }

    /// The table of the specification, cell by cell: no status, 2xx, 409, 4xx, 5xx.
    #[test]
    fn what_was_read_and_the_witness_decide_together() {
        use Class::{Hold, Pending, Retryable, Stop, Success, Terminal, TerminalReview, Unknown};
        let seen = [None, Some(202), Some(409), Some(400), Some(503)];
        for (meaning, expected) in [
            (Some(Meaning::Success), [Unknown, Success, Unknown, Unknown, Unknown]),
            (Some(Meaning::Pending), [Unknown, Pending, Pending, Pending, Pending]),
            (Some(Meaning::Terminal), [Unknown, Terminal, Terminal, Terminal, Terminal]),
            (
                Some(Meaning::TerminalReview),
                [Unknown, TerminalReview, TerminalReview, TerminalReview, TerminalReview],
            ),
            (Some(Meaning::Retryable), [Unknown, Terminal, Retryable, Retryable, Retryable]),
            (Some(Meaning::Hold), [Unknown, Terminal, Hold, Hold, Hold]),
            (Some(Meaning::Stop), [Unknown, Terminal, Stop, Stop, Stop]),
            (Some(Meaning::NotFound), [Unknown; 5]),
            (Some(Meaning::Unknown), [Unknown; 5]),
            (None, [Unknown; 5]),
        ] {
            for (status, class) in seen.into_iter().zip(expected) {
                let found = judge(meaning, Some(exchange(Sent::Body, status))).class;
                assert_eq!(found, class, "{meaning:?} with {status:?}");
            }
        }
    }

    #[test]
    fn a_veto_lowers_every_verdict_to_unknown_and_makes_none() {
        for meaning in [Meaning::Success, Meaning::Terminal, Meaning::Hold, Meaning::Retryable] {
            for veto in [Veto::Opposite, Veto::Doubt] {
                let vetoed = Reading { veto: Some(veto), ..reading(Some(meaning)) };
                let seen = Some(exchange(Sent::Body, Some(200)));
                let decision = judge_heard(CallResult::Reading(Box::new(vetoed)), seen);
                assert_eq!(
                    (decision.class, decision.error_code),
                    (Class::Unknown, Some(ErrorCode::AdapterVeto)),
                    "{meaning:?}"
                );
                let is_ours = meaning == Meaning::Hold;
                assert_eq!(
                    (decision.opens_breaker, decision.stops_rail),
                    (is_ours, false),
                    "what is ours stays so"
                );
            }
        }
    }

    #[test]
    fn a_veto_does_not_keep_a_rail_going_that_its_code_stops() {
        let vetoed = Reading { veto: Some(Veto::Doubt), ..reading(Some(Meaning::Stop)) };
        let decision =
            judge_heard(CallResult::Reading(Box::new(vetoed)), Some(exchange(Sent::Body, Some(400))));
        assert_eq!(
            (decision.class, decision.stops_rail, decision.opens_breaker),
            (Class::Unknown, true, true)
        );
    }

    #[test]
    fn a_last_word_burns_the_key_whatever_the_status_of_its_reply() {
        for meaning in [Meaning::Hold, Meaning::Retryable, Meaning::Stop] {
            let last = Reading { is_final: true, ..reading(Some(meaning)) };
            let seen = Some(exchange(Sent::Body, Some(422)));
            assert_eq!(
                judge_heard(CallResult::Reading(Box::new(last)), seen).class,
                Class::Terminal,
                "{meaning:?}"
            );
        }
    }

    #[test]
    fn a_code_that_is_not_listed_or_a_strangers_reply_says_nothing_by_its_status() {
        let unlisted = Reading { facts: vec![Code::new("code", "ODD")], ..reading(None) };
        let strange = Reading { is_doubtful: true, ..reading(None) };
        for reading in [unlisted, strange] {
            for status in [401, 403, 404] {
                let seen = Some(exchange(Sent::Body, Some(status)));
                let decision = judge_heard(CallResult::Reading(Box::new(reading.clone())), seen);
                assert_eq!((decision.class, decision.opens_breaker), (Class::Unknown, false), "{status}");
            }
        }
        let packed = judge_heard(unanswered(), Some(exchange(Sent::Body, Some(404))));
        assert_eq!(packed.class, Class::Unknown, "a reply that could not be read is no word on the route");
    }

    #[test]
    fn a_step_before_the_payment_refuses_it_or_costs_nothing() {
        let prepared = |meaning, status| {
            let before = Exchange {
                class: StepClass::Prepare,
                step: "quote".into(),
                ..exchange(Sent::Body, Some(status))
            };
            let heard =
                CallResult::Unprepared { reading: Box::new(reading(meaning)), status, why: "why".into() };
            judge_heard(heard, Some(before))
        };
        for (meaning, status, class) in [
            (Some(Meaning::Terminal), 422, Class::Terminal),
            (Some(Meaning::TerminalReview), 422, Class::Terminal),
            (Some(Meaning::Terminal), 429, Class::Retryable),
            (Some(Meaning::Hold), 422, Class::Hold),
            (Some(Meaning::Stop), 400, Class::Stop),
            (Some(Meaning::Pending), 200, Class::Retryable),
            (Some(Meaning::Success), 200, Class::Retryable),
            (None, 503, Class::Retryable),
            (None, 401, Class::Hold),
            (None, 404, Class::Retryable),
        ] {
            assert_eq!(prepared(meaning, status).class, class, "{meaning:?} {status}");
        }
    }

    #[test]
    fn what_is_ours_to_mend_holds_the_rail() {
        assert_eq!(judge_heard(CallResult::Unready("no secret".into()), None).class, Class::Hold);
    }

    #[test]
    fn what_is_refused_here_is_final_only_while_nothing_left() {
        let refused = CallResult::Refused("no".into());
        let invalid = CallResult::Invalid(vec![Violation::new("amount", "is odd")]);
        for heard in [refused, invalid] {
            assert_eq!(judge_heard(heard.clone(), None).class, Class::Terminal);
            let left = Some(exchange(Sent::Headers, None));
            assert_eq!(judge_heard(heard, left).class, Class::Unknown, "a byte left");
        }
    }

    #[test]
    fn a_request_that_never_left_was_not_sent_whatever_was_tried() {
        assert_eq!(judge_heard(unanswered(), Some(exchange(Sent::Nothing, None))).class, Class::Retryable);
        assert_eq!(judge_heard(unanswered(), Some(exchange(Sent::Headers, None))).class, Class::Unknown);
    }

    #[test]
    fn a_reply_that_broke_off_is_silence() {
        let broken = Exchange { whole: false, ..exchange(Sent::Body, Some(200)) };
        assert_eq!(judge(Some(Meaning::Success), Some(broken.clone())).class, Class::Unknown);
        assert_eq!(judge(Some(Meaning::Terminal), Some(broken)).class, Class::Unknown);
    }

    #[test]
    fn a_stale_token_is_renewed_and_a_fresh_one_refused_holds_the_rail() {
        let refused = |token_is_fresh| {
            judge(None, Some(Exchange { token_is_fresh, ..exchange(Sent::Body, Some(401)) }))
        };
        assert_eq!(refused(Some(false)).class, Class::Retryable);
        for hold in [refused(Some(true)), refused(None), judge(None, Some(exchange(Sent::Body, Some(404))))] {
            assert_eq!((hold.class, hold.opens_breaker), (Class::Hold, true));
        }
    }

    #[test]
    fn a_final_no_burns_the_key_whatever_its_reason_and_is_no_word_on_an_earlier_request() {
        let taken = judge(Some(Meaning::Hold), Some(exchange(Sent::Body, Some(200))));
        assert_eq!((taken.class, taken.opens_breaker, taken.of_a_question), (Class::Terminal, true, false));
        let turned_away = judge(Some(Meaning::Terminal), Some(exchange(Sent::Body, Some(400))));
        assert_eq!((turned_away.class, turned_away.of_a_question), (Class::Terminal, false));
    }

    #[test]
    fn a_rail_that_opens_no_session_is_held() {
        let refused = |status| {
            let session =
                Exchange { class: StepClass::Session, step: "token".into(), ..exchange(Sent::Body, status) };
            judge_heard(unanswered(), Some(session)).class
        };
        for status in [400, 401, 403, 404, 405, 411, 499] {
            assert_eq!(refused(Some(status)), Class::Hold, "{status}");
        }
        for passing in [None, Some(200), Some(302), Some(408), Some(425), Some(429), Some(500), Some(503)] {
            assert_eq!(refused(passing), Class::Retryable, "{passing:?}");
        }
    }

    #[test]
    fn too_many_requests_is_never_a_refusal() {
        for status in [408, 425, 429] {
            let asked = Exchange { retry_after_seconds: Some(7), ..exchange(Sent::Body, Some(status)) };
            let decision = judge(Some(Meaning::Terminal), Some(asked.clone()));
            assert_eq!((decision.class, decision.retry_after_seconds), (Class::Unknown, Some(7)));
            assert_eq!(judge(Some(Meaning::Retryable), Some(asked)).class, Class::Retryable);
        }
    }

    #[test]
    fn a_pause_that_is_asked_of_everybody_is_the_rails() {
        let asked = |meaning, status| {
            let pause = Exchange { retry_after_seconds: Some(7), ..exchange(Sent::Body, Some(status)) };
            judge(meaning, Some(pause)).rail_waits
        };
        assert!(asked(None, 429) && asked(None, 503) && asked(Some(Meaning::Hold), 400));
        assert!(!asked(Some(Meaning::Retryable), 409) && !asked(None, 500), "it is this payment's alone");
        assert!(!judge(None, Some(exchange(Sent::Body, Some(429)))).rail_waits, "nothing was asked for");
    }

    #[test]
    fn what_gets_worse_with_every_try_stops_the_rail() {
        let turned_away = judge(Some(Meaning::Stop), Some(exchange(Sent::Body, Some(400))));
        assert_eq!((turned_away.class, turned_away.stops_rail), (Class::Stop, true));
        let taken = judge(Some(Meaning::Stop), Some(exchange(Sent::Body, Some(200))));
        assert_eq!((taken.class, taken.stops_rail), (Class::Terminal, true), "the key is burnt besides");
        assert!(!judge(Some(Meaning::Hold), Some(exchange(Sent::Body, Some(400)))).stops_rail);
    }

    #[test]
    fn an_echo_of_another_amount_keeps_the_verdict_and_is_looked_at() {
        let differs = Reading { differs: vec!["amount".into()], ..reading(Some(Meaning::Success)) };
        let seen = Some(exchange(Sent::Body, Some(200)));
        let decision = judge_heard(CallResult::Reading(Box::new(differs)), seen);
        assert_eq!((decision.class, decision.error_code), (Class::Success, Some(ErrorCode::EchoDiffers)));
        assert!(decision.message.expect("it says so").contains("amount"));
    }

    #[test]
    fn what_ends_a_call_without_an_answer_is_as_unclear_as_what_left() {
        for error in [CallError::Trap("t".into()), CallError::Stack, CallError::Cpu(5)] {
            let ended = |exchange| judge_heard(CallResult::Failed(error.clone()), exchange).class;
            assert_eq!(ended(None), Class::Retryable);
            assert_eq!(ended(Some(exchange(Sent::Headers, None))), Class::Unknown);
            assert_eq!(ended(Some(exchange(Sent::Body, Some(200)))), Class::Unknown);
        }
    }
}
