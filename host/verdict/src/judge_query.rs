//! After a question about a payment.

use form::{Meaning, Reading, StepClass};

use crate::answer::CallResult;
use crate::decision::{Class, Decision, vetoed};
use crate::error_code::ErrorCode;
use crate::exchange_result::ExchangeResult;
use crate::witness::{Exchange, Witness};

/// Judges a call that was to ask. A question that fails changes nothing but the time of the next one.
pub fn judge_query(heard: &CallResult, witness: &Witness) -> Decision {
    let asked = witness.exchanges.iter().rev().find(|exchange| exchange.class == StepClass::Read);
    let seen = ExchangeResult::of(asked);
    let decision = match heard {
        CallResult::Reading(reading) => of_reading(reading, seen, asked),
        CallResult::Failed(error) => failed(error.to_string()),
        CallResult::Unanswered(why) | CallResult::Refused(why) | CallResult::Unready(why) => {
            of_credentials(seen, asked).unwrap_or_else(|| failed(why)).saying(why)
        }
        CallResult::Valid | CallResult::Invalid(_) | CallResult::Unprepared { .. } => {
            failed("the rail was not queried")
        }
    };
    let retry_after_seconds = asked.and_then(|asked| asked.retry_after_seconds);
    Decision { of_a_question: true, ..decision.after(retry_after_seconds, seen.status()) }
}

fn of_reading(reading: &Reading, seen: ExchangeResult, asked: Option<&Exchange>) -> Decision {
    let Some(status) = seen.status() else {
        return failed("the adapter read a reply that the host did not receive");
    };
    if let Some(decision) = vetoed(reading, ErrorCode::AdapterVeto) {
        return decision;
    }
    let decision = match (reading.meaning, status) {
        (Some(Meaning::Success), 200..=299) => Decision::success(reading),
        (Some(Meaning::Pending | Meaning::Received), 200..=299) => {
            Decision::new(Class::Pending, ErrorCode::RailPending)
        }
        (Some(Meaning::NotFound), 200..=299 | 404) => {
            Decision::new(Class::NotFound, ErrorCode::NotFound).saying("the rail does not know the key")
        }
        (Some(meaning), 200..=299) => refused(meaning).unwrap_or_else(|| failed(why(reading))),
        // An error status is the rail's last word only where the table says so, and never where it is about the question.
        (Some(Meaning::Terminal), 400 | 402 | 404..=407 | 409..=424 | 426..=428 | 430..=499) => {
            Decision::new(Class::Terminal, ErrorCode::RailDeclined)
        }
        (Some(Meaning::TerminalReview), 400 | 402 | 404..=407 | 409..=424 | 426..=428 | 430..=499) => {
            Decision::new(Class::TerminalReview, ErrorCode::RailDeclined)
        }
        _ => of_credentials(seen, asked).unwrap_or_else(|| failed(why(reading))),
    };
    decision.with(reading)
}

fn why(reading: &Reading) -> String {
    reading.why.clone().unwrap_or_else(|| "the reply says nothing about the payment".to_owned())
}

/// The rail's last word on the payment: its key is burnt, whatever the reason.
fn refused(meaning: Meaning) -> Option<Decision> {
    let terminal = || Decision::new(Class::Terminal, ErrorCode::RailDeclined);
    match meaning {
        Meaning::Terminal | Meaning::Retryable => Some(terminal()),
        Meaning::Hold => Some(terminal().opening_the_breaker()),
        Meaning::Stop => Some(terminal().stopping_the_rail()),
        Meaning::TerminalReview => Some(Decision::new(Class::TerminalReview, ErrorCode::RailDeclined)),
        _ => None,
    }
}

/// Credentials that are refused stop the rail, unless they were merely old.
fn of_credentials(seen: ExchangeResult, asked: Option<&Exchange>) -> Option<Decision> {
    let stale = asked.is_some_and(|asked| asked.token_is_fresh == Some(false));
    match seen.status() {
        Some(401 | 403) if !stale => Some(failed("the rail refuses our credentials").opening_the_breaker()),
        _ => None,
    }
}

fn failed(why: impl Into<String>) -> Decision {
    Decision::new(Class::Unknown, ErrorCode::QueryFailed).saying(why)
}

#[cfg(test)]
mod tests {
    use form::Veto;

    use super::*;
    use crate::call_error::CallError;
    use crate::witness::Sent;

    fn judge(heard: CallResult, status: Option<u16>) -> Decision {
        let exchange = Exchange {
            step: "status".into(),
            class: StepClass::Read,
            left: Sent::Body,
            status,
            whole: status.is_some(),
            retry_after_seconds: None,
            token_is_fresh: None,
        };
        judge_query(&heard, &Witness { exchanges: vec![exchange], denied: Vec::new() })
    }

    fn reading(meaning: Option<Meaning>) -> Reading {
        Reading { meaning, ..Reading::nothing("why") }
    }

    fn read(meaning: Meaning, status: Option<u16>) -> Decision {
        judge(CallResult::Reading(Box::new(reading(Some(meaning)))), status)
    }

    #[test]
    fn a_final_failure_burns_the_key_whatever_its_reason() {
        for (meaning, class, opens) in [
            (Meaning::Terminal, Class::Terminal, false),
            (Meaning::Retryable, Class::Terminal, false),
            (Meaning::Hold, Class::Terminal, true),
            (Meaning::TerminalReview, Class::TerminalReview, false),
        ] {
            let decision = read(meaning, Some(200));
            assert_eq!((decision.class, decision.opens_breaker), (class, opens), "{meaning:?}");
            assert!(decision.of_a_question, "it speaks of all that was sent");
        }
    }

    #[test]
    fn an_error_of_the_question_is_no_word_on_the_payment() {
        assert_eq!(read(Meaning::Terminal, Some(404)).class, Class::Terminal, "the table lists it");
        for (meaning, status) in [
            (Meaning::Terminal, 429),
            (Meaning::Terminal, 401),
            (Meaning::Retryable, 400),
            (Meaning::Hold, 400),
            (Meaning::Terminal, 503),
        ] {
            assert_eq!(read(meaning, Some(status)).class, Class::Unknown, "{meaning:?} {status}");
        }
        let unread = judge(CallResult::Reading(Box::new(reading(None))), Some(401));
        assert!(unread.opens_breaker && unread.class == Class::Unknown);
    }

    #[test]
    fn only_a_reply_can_settle() {
        assert_eq!(read(Meaning::Success, Some(200)).class, Class::Success);
        for status in [None, Some(404), Some(500)] {
            let decision = read(Meaning::Success, status);
            assert_eq!((decision.class, decision.error_code), (Class::Unknown, Some(ErrorCode::QueryFailed)));
        }
    }

    #[test]
    fn a_veto_makes_the_host_ask_again() {
        for meaning in [Meaning::Success, Meaning::Terminal, Meaning::NotFound] {
            let vetoed = Reading { veto: Some(Veto::Doubt), ..reading(Some(meaning)) };
            let decision = judge(CallResult::Reading(Box::new(vetoed)), Some(200));
            assert_eq!(
                (decision.class, decision.error_code),
                (Class::Unknown, Some(ErrorCode::AdapterVeto)),
                "{meaning:?}"
            );
        }
    }

    #[test]
    fn not_found_is_believed_where_the_rail_said_so() {
        assert_eq!(read(Meaning::NotFound, Some(404)).class, Class::NotFound);
        assert_eq!(read(Meaning::NotFound, Some(200)).class, Class::NotFound);
        assert_eq!(read(Meaning::NotFound, Some(503)).class, Class::Unknown);
        assert_eq!(read(Meaning::NotFound, None).class, Class::Unknown);
    }

    #[test]
    fn a_question_that_fails_changes_nothing() {
        for heard in [
            CallResult::Failed(CallError::Stack),
            CallResult::Reading(Box::new(reading(None))),
            CallResult::Unanswered("no route".into()),
        ] {
            let decision = judge(heard, Some(500));
            assert_eq!((decision.class, decision.opens_breaker), (Class::Unknown, false));
        }
    }
}
