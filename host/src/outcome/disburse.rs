use super::seen::Seen;
use super::{Class, Decision, ErrorCode, lie};
use crate::rail::codes::{Asked, CodeTable, Meaning};
use crate::rail::definition::Kind;
use crate::rail::egress::Class as Purpose;
use crate::rail::{Answer, Code, Exchange, Heard, Witness};

/// Judges a call that was to pay.
pub fn disburse(kind: Kind, heard: &Heard, witness: &Witness, codes: &CodeTable) -> Decision {
    let money = witness.money();
    // A mock has no network: it is taken at its word.
    let seen = match kind {
        Kind::Live => Seen::of(money),
        Kind::Mock => Seen::Status(200),
    };
    let decision = match heard {
        Heard::Invalid(violations) => Decision::invalid(violations),
        Heard::Failed(error) => without_answer(seen, money, error.to_string()),
        Heard::Valid => without_answer(seen, money, "the adapter was not asked to pay".to_owned()),
        Heard::Answer(Answer::NotSent { reason }) if seen == Seen::Nothing && no_session(witness) => {
            Decision::new(Class::Hold, ErrorCode::OnHold).saying(reason)
        }
        Heard::Answer(Answer::NotSent { reason }) if kind == Kind::Mock => {
            Decision::new(Class::Retryable, ErrorCode::NotSent).saying(reason)
        }
        Heard::Answer(answer) => of_answer(kind, heard, answer, seen, money, codes),
    };
    decision.after(money.and_then(|money| money.retry_after_seconds), seen.status())
}

/// The rail refused to open a session: our credentials, or our route. Too early, too many and too slow refuse nothing.
fn no_session(witness: &Witness) -> bool {
    let last = witness.exchanges.iter().rev().find(|exchange| exchange.class == Purpose::Session);
    match Seen::of(last).status() {
        Some(408 | 425 | 429) => false,
        status => status.is_some_and(|status| (400..=499).contains(&status)),
    }
}

fn of_answer(
    kind: Kind,
    heard: &Heard,
    answer: &Answer,
    seen: Seen,
    money: Option<&Exchange>,
    codes: &CodeTable,
) -> Decision {
    match (answer, seen) {
        (Answer::Settled { .. } | Answer::Pending { .. } | Answer::NotFound, Seen::Nothing) => lie(heard),
        (Answer::Settled { reference, code }, Seen::Status(200..=299)) => Decision::success(reference, code),
        (Answer::Pending { reference, code }, Seen::Status(200..=299 | 409)) => {
            Decision::new(Class::Pending, ErrorCode::RailPending).with_reference(reference).with_code(code)
        }
        (Answer::Settled { reference, code }, _) => unknown("paid, says the adapter, but not the reply")
            .with_reference(&Some(reference.clone()))
            .with_code(code),
        (Answer::Pending { reference, code }, _) => {
            unknown("accepted, says the adapter, but not the reply").with_reference(reference).with_code(code)
        }
        (Answer::Declined { code, message }, Seen::Nothing) => {
            Decision::new(Class::Terminal, ErrorCode::RefusedLocally).with_code(code).saying(message)
        }
        (Answer::Declined { code, message }, Seen::Status(status)) => {
            declined(kind, code, status, money, codes).with_code(code).saying(message)
        }
        (Answer::Declined { code, message }, Seen::Silence) => unknown(message).with_code(code),
        (Answer::NotSent { reason }, _) => without_answer(seen, money, reason.clone()),
        (Answer::Unclear { code, detail }, _) => without_answer(seen, money, detail.clone()).with_code(code),
        (Answer::NotFound, _) => unknown("not found, says the adapter, which was asked to pay"),
    }
}

/// The rail's no, in a reply with this status.
fn declined(
    kind: Kind,
    code: &Option<Code>,
    status: u16,
    money: Option<&Exchange>,
    codes: &CodeTable,
) -> Decision {
    let listed = code.as_ref().and_then(|code| codes.meaning(Asked::Disburse, Some(status), code));
    match (listed, status) {
        // Too early, too many, too slow: a reply that refuses nothing.
        (Some(Meaning::Terminal | Meaning::TerminalReview), 408 | 425 | 429) => {
            unknown("no refusal by its status")
        }
        // The rail took it and said no: its last word on this key, whatever the reason.
        (Some(Meaning::Retryable), 200..=299) if kind == Kind::Live => by_table(Meaning::Terminal),
        (Some(Meaning::Hold), 200..=299) if kind == Kind::Live => {
            by_table(Meaning::Terminal).opening_the_breaker()
        }
        (Some(Meaning::Stop), 200..=299) if kind == Kind::Live => {
            by_table(Meaning::Terminal).stopping_the_rail()
        }
        (Some(meaning), _) => by_table(meaning),
        (None, 200..=299) => Decision::new(Class::TerminalReview, ErrorCode::RailDeclined),
        (None, _) => of_status(status, money).unwrap_or_else(|| unknown("a code that no table lists")),
    }
}

fn by_table(meaning: Meaning) -> Decision {
    match meaning {
        // What the adapter calls a no and the table a yes is neither.
        Meaning::Success | Meaning::Unknown => unknown("the code table does not take it for a refusal"),
        Meaning::Pending => Decision::new(Class::Pending, ErrorCode::RailPending),
        Meaning::Retryable => Decision::new(Class::Retryable, ErrorCode::RailDeclined),
        Meaning::Hold => Decision::new(Class::Hold, ErrorCode::OnHold),
        Meaning::Stop => Decision::new(Class::Stop, ErrorCode::Stopped),
        Meaning::Terminal => Decision::new(Class::Terminal, ErrorCode::RailDeclined),
        Meaning::TerminalReview => Decision::new(Class::TerminalReview, ErrorCode::RailDeclined),
    }
}

/// Nothing that could be believed was said; what the gate saw remains.
fn without_answer(seen: Seen, money: Option<&Exchange>, why: String) -> Decision {
    match seen {
        Seen::Nothing => Decision::new(Class::Retryable, ErrorCode::NotSent).saying(why),
        Seen::Silence => unknown(why),
        Seen::Status(status) => of_status(status, money).unwrap_or_else(|| unknown("")).saying(why),
    }
}

/// Statuses that say by themselves that the rail did not look at the payment: our credentials, or our route.
fn of_status(status: u16, money: Option<&Exchange>) -> Option<Decision> {
    match status {
        // A token that was good a while ago: the next attempt brings a new one.
        401 | 403 if money.is_some_and(|money| money.token_is_fresh == Some(false)) => {
            Some(Decision::new(Class::Retryable, ErrorCode::NotSent))
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
    use super::*;
    use crate::rail::{CallError, Left};

    const TABLE: &str = r#"
        version = 1
        rows = [
          { operation = "disburse", field = "code", code = "NO_PAYEE", class = "terminal" },
          { operation = "disburse", field = "code", code = "ODD", class = "terminal-review" },
          { operation = "disburse", field = "code", code = "BUSY", class = "retryable" },
          { operation = "disburse", field = "code", code = "NO_FLOAT", class = "hold" },
          { operation = "disburse", field = "code", code = "WRONG_PIN", class = "stop" },
          { operation = "disburse", field = "code", code = "FINE", class = "success" },
        ]"#;

    fn exchange(left: Left, status: Option<u16>) -> Exchange {
        Exchange {
            endpoint: "pay".into(),
            class: Purpose::Money,
            left,
            status,
            whole: status.is_some(),
            retry_after_seconds: None,
            token_is_fresh: None,
        }
    }

    fn judge(answer: Answer, exchange: Option<Exchange>) -> Decision {
        let witness = Witness { exchanges: exchange.into_iter().collect(), denied: Vec::new() };
        let codes = toml::from_str(TABLE).expect("TOML");
        disburse(Kind::Live, &Heard::Answer(answer), &witness, &codes)
    }

    fn settled() -> Answer {
        Answer::Settled { reference: "r".into(), code: None }
    }

    fn pending() -> Answer {
        Answer::Pending { reference: None, code: None }
    }

    fn no(code: &str) -> Answer {
        let code = Code { field: "code".into(), value: code.into() };
        Answer::Declined { code: Some(code), message: "no".into() }
    }

    fn not_sent() -> Answer {
        Answer::NotSent { reason: "why".into() }
    }

    fn unclear() -> Answer {
        Answer::Unclear { code: None, detail: "what".into() }
    }

    /// The table of the specification, cell by cell: nothing left, no status, 2xx, 409, 4xx, 5xx.
    #[test]
    fn answer_and_witness_decide_together() {
        use Class::{Pending, Retryable, Success, Terminal, TerminalReview, Unknown};
        let seen = [
            None,
            Some(exchange(Left::Body, None)),
            Some(exchange(Left::Body, Some(202))),
            Some(exchange(Left::Body, Some(409))),
            Some(exchange(Left::Body, Some(400))),
            Some(exchange(Left::Body, Some(503))),
        ];
        for (answer, expected) in [
            (settled(), [Unknown, Unknown, Success, Unknown, Unknown, Unknown]),
            (pending(), [Unknown, Unknown, Pending, Pending, Unknown, Unknown]),
            (no("NO_PAYEE"), [Terminal, Unknown, Terminal, Terminal, Terminal, Terminal]),
            (no("BUSY"), [Terminal, Unknown, Terminal, Retryable, Retryable, Retryable]),
            (no("NEVER_SEEN"), [Terminal, Unknown, TerminalReview, Unknown, Unknown, Unknown]),
            (no("FINE"), [Terminal, Unknown, Unknown, Unknown, Unknown, Unknown]),
            (not_sent(), [Retryable, Unknown, Unknown, Unknown, Unknown, Unknown]),
            (unclear(), [Retryable, Unknown, Unknown, Unknown, Unknown, Unknown]),
            (Answer::NotFound, [Unknown, Unknown, Unknown, Unknown, Unknown, Unknown]),
        ] {
            for (seen, class) in seen.iter().zip(expected) {
                assert_eq!(judge(answer.clone(), seen.clone()).class, class, "{answer:?} with {seen:?}");
            }
        }
    }

    #[test]
    fn a_request_that_never_left_was_not_sent_whatever_was_tried() {
        assert_eq!(judge(unclear(), Some(exchange(Left::Nothing, None))).class, Class::Retryable);
        assert_eq!(judge(unclear(), Some(exchange(Left::Headers, None))).class, Class::Unknown);
    }

    #[test]
    fn a_reply_that_broke_off_is_silence() {
        let broken = Exchange { whole: false, ..exchange(Left::Body, Some(200)) };
        assert_eq!(judge(settled(), Some(broken.clone())).class, Class::Unknown);
        assert_eq!(judge(no("NO_PAYEE"), Some(broken)).class, Class::Unknown);
    }

    #[test]
    fn an_adapter_that_claims_a_payment_which_never_left_stops_its_rail() {
        for answer in [settled(), pending()] {
            let lie = judge(answer, None);
            assert_eq!((lie.error_code, lie.opens_breaker), (Some(ErrorCode::AdapterLied), true));
        }
        assert!(!judge(no("NO_PAYEE"), None).opens_breaker, "a refusal before sending is its right");
    }

    #[test]
    fn a_stale_token_is_renewed_and_a_fresh_one_refused_holds_the_rail() {
        let refused = |token_is_fresh| {
            judge(unclear(), Some(Exchange { token_is_fresh, ..exchange(Left::Body, Some(401)) }))
        };
        assert_eq!(refused(Some(false)).class, Class::Retryable);
        for hold in
            [refused(Some(true)), refused(None), judge(unclear(), Some(exchange(Left::Body, Some(404))))]
        {
            assert_eq!((hold.class, hold.opens_breaker), (Class::Hold, true));
        }
        assert_eq!(judge(no("NO_FLOAT"), Some(exchange(Left::Body, Some(400)))).class, Class::Hold);
    }

    #[test]
    fn a_final_no_burns_the_key_whatever_its_reason_and_is_no_word_on_an_earlier_request() {
        let taken = judge(no("NO_FLOAT"), Some(exchange(Left::Body, Some(200))));
        assert_eq!((taken.class, taken.opens_breaker, taken.of_a_question), (Class::Terminal, true, false));
        let turned_away = judge(no("NO_PAYEE"), Some(exchange(Left::Body, Some(400))));
        assert_eq!((turned_away.class, turned_away.of_a_question), (Class::Terminal, false));
    }

    #[test]
    fn a_rail_that_opens_no_session_is_held() {
        let refused = |status| {
            let session = Exchange {
                class: Purpose::Session,
                endpoint: "token".into(),
                ..exchange(Left::Body, status)
            };
            judge(not_sent(), Some(session)).class
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
            let asked = Exchange { retry_after_seconds: Some(7), ..exchange(Left::Body, Some(status)) };
            let decision = judge(no("NO_PAYEE"), Some(asked.clone()));
            assert_eq!((decision.class, decision.retry_after_seconds), (Class::Unknown, Some(7)));
            assert_eq!(judge(no("BUSY"), Some(asked)).class, Class::Retryable);
        }
    }

    #[test]
    fn a_pause_that_is_asked_of_everybody_is_the_rails() {
        let asked = |answer: Answer, status| {
            let pause = Exchange { retry_after_seconds: Some(7), ..exchange(Left::Body, Some(status)) };
            judge(answer, Some(pause)).rail_waits
        };
        assert!(asked(unclear(), 429) && asked(unclear(), 503) && asked(no("NO_FLOAT"), 400));
        assert!(!asked(no("BUSY"), 409) && !asked(unclear(), 500), "it is this payment's alone");
        assert!(!judge(unclear(), Some(exchange(Left::Body, Some(429)))).rail_waits, "nothing was asked for");
    }

    #[test]
    fn what_gets_worse_with_every_try_stops_the_rail() {
        let turned_away = judge(no("WRONG_PIN"), Some(exchange(Left::Body, Some(400))));
        assert_eq!((turned_away.class, turned_away.stops_rail), (Class::Stop, true));
        let taken = judge(no("WRONG_PIN"), Some(exchange(Left::Body, Some(200))));
        assert_eq!((taken.class, taken.stops_rail), (Class::Terminal, true), "the key is burnt besides");
        assert!(!judge(no("NO_FLOAT"), Some(exchange(Left::Body, Some(400)))).stops_rail);
    }

    #[test]
    fn a_mock_is_taken_at_its_word() {
        let codes = toml::from_str(TABLE).expect("TOML");
        let said =
            |answer: Answer| disburse(Kind::Mock, &Heard::Answer(answer), &Witness::default(), &codes).class;
        assert_eq!(said(settled()), Class::Success);
        assert_eq!(said(pending()), Class::Pending);
        assert_eq!(said(no("NO_PAYEE")), Class::Terminal);
        assert_eq!(said(no("NEVER_SEEN")), Class::TerminalReview);
        assert_eq!(said(not_sent()), Class::Retryable);
        assert_eq!(said(unclear()), Class::Unknown);
    }

    #[test]
    fn what_ends_a_call_without_an_answer_is_as_unclear_as_what_left() {
        let codes = CodeTable::default();
        let ended = |error: CallError, exchange: Option<Exchange>| {
            let witness = Witness { exchanges: exchange.into_iter().collect(), denied: Vec::new() };
            disburse(Kind::Live, &Heard::Failed(error), &witness, &codes).class
        };
        for error in [CallError::Trap("t".into()), CallError::Stack, CallError::Cpu(5)] {
            assert_eq!(ended(error.clone(), None), Class::Retryable);
            assert_eq!(ended(error.clone(), Some(exchange(Left::Headers, None))), Class::Unknown);
            assert_eq!(ended(error, Some(exchange(Left::Body, Some(200)))), Class::Unknown);
        }
    }
}
