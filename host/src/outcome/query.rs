use super::seen::Seen;
use super::{Class, Decision, ErrorCode, lie};
use crate::rail::codes::{Asked, CodeTable, Meaning};
use crate::rail::definition::Kind;
use crate::rail::egress::Class as Purpose;
use crate::rail::{Answer, Code, Exchange, Heard, Witness};

/// Judges a call that was to ask. A question that fails changes nothing but the time of the next one.
pub fn query(kind: Kind, heard: &Heard, witness: &Witness, codes: &CodeTable) -> Decision {
    let asked = witness.exchanges.iter().rev().find(|exchange| exchange.class == Purpose::Read);
    let seen = match kind {
        Kind::Live => Seen::of(asked),
        Kind::Mock => Seen::Status(200),
    };
    let decision = match heard {
        Heard::Answer(answer) => of_answer(heard, answer, seen, asked, codes),
        Heard::Failed(error) => failed(error.to_string()),
        Heard::Valid | Heard::Invalid(_) => failed("the adapter was not asked for a status"),
    };
    let retry_after_seconds = asked.and_then(|asked| asked.retry_after_seconds);
    Decision { of_a_question: true, ..decision.after(retry_after_seconds, seen.status()) }
}

fn of_answer(
    heard: &Heard,
    answer: &Answer,
    seen: Seen,
    asked: Option<&Exchange>,
    codes: &CodeTable,
) -> Decision {
    match (answer, seen) {
        (Answer::NotSent { reason }, _) => of_credentials(seen, asked).unwrap_or_else(|| failed(reason)),
        (Answer::Unclear { code, detail }, _) => {
            of_credentials(seen, asked).unwrap_or_else(|| failed(detail)).with_code(code)
        }
        (_, Seen::Nothing) => lie(heard),
        (Answer::Settled { reference, code }, Seen::Status(200..=299)) => Decision::success(reference, code),
        (Answer::Pending { reference, code }, Seen::Status(200..=299)) => {
            Decision::new(Class::Pending, ErrorCode::RailPending).with_reference(reference).with_code(code)
        }
        (Answer::NotFound, Seen::Status(200..=299 | 404)) => {
            Decision::new(Class::NotFound, ErrorCode::NotFound).saying("the rail does not know the key")
        }
        (Answer::Declined { code, message }, Seen::Status(200..=299)) => {
            declined(code, seen, codes).with_code(code).saying(message)
        }
        (Answer::Declined { code, message }, Seen::Status(status @ 400..=499)) => {
            refused(code, status, codes)
                .or_else(|| of_credentials(seen, asked))
                .unwrap_or_else(|| failed("an error of the question, not a word on the payment"))
                .with_code(code)
                .saying(message)
        }
        (said, _) => failed(format!("the reply does not bear out {said:?}")),
    }
}

/// The rail's last word on the payment: its key is burnt, whatever the reason.
fn declined(code: &Option<Code>, seen: Seen, codes: &CodeTable) -> Decision {
    let terminal = Decision::new(Class::Terminal, ErrorCode::RailDeclined);
    match code.as_ref().and_then(|code| codes.meaning(Asked::QueryStatus, seen.status(), code)) {
        Some(Meaning::Terminal | Meaning::Retryable) => terminal,
        Some(Meaning::Hold) => terminal.opening_the_breaker(),
        Some(Meaning::Stop) => terminal.stopping_the_rail(),
        Some(Meaning::Pending) => Decision::new(Class::Pending, ErrorCode::RailPending),
        Some(Meaning::Success | Meaning::Unknown) => failed("the code table does not take it for a refusal"),
        Some(Meaning::TerminalReview) | None => Decision::new(Class::TerminalReview, ErrorCode::RailDeclined),
    }
}

/// An error status is the rail's last word only where the table says so, and never where it is about the question.
fn refused(code: &Option<Code>, status: u16, codes: &CodeTable) -> Option<Decision> {
    if matches!(status, 401 | 403 | 408 | 425 | 429) {
        return None;
    }
    match codes.meaning(Asked::QueryStatus, Some(status), code.as_ref()?)? {
        Meaning::Terminal => Some(Decision::new(Class::Terminal, ErrorCode::RailDeclined)),
        Meaning::TerminalReview => Some(Decision::new(Class::TerminalReview, ErrorCode::RailDeclined)),
        _ => None,
    }
}

/// Credentials that are refused stop the rail, unless they were merely old.
fn of_credentials(seen: Seen, asked: Option<&Exchange>) -> Option<Decision> {
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
    use super::*;
    use crate::rail::{CallError, Left};

    const TABLE: &str = r#"
        version = 1
        rows = [
          { operation = "query-status", field = "reason", code = "NO_PAYEE", class = "terminal" },
          { operation = "query-status", field = "reason", code = "NO_FLOAT", class = "hold" },
          { operation = "query-status", field = "reason", code = "BUSY", class = "retryable" },
        ]"#;

    fn judge(heard: Heard, status: Option<u16>) -> Decision {
        let exchange = Exchange {
            endpoint: "status".into(),
            class: Purpose::Read,
            left: Left::Body,
            status,
            whole: status.is_some(),
            retry_after_seconds: None,
            token_is_fresh: None,
        };
        let witness = Witness { exchanges: vec![exchange], denied: Vec::new() };
        query(Kind::Live, &heard, &witness, &toml::from_str(TABLE).expect("TOML"))
    }

    fn said(answer: Answer, status: Option<u16>) -> Decision {
        judge(Heard::Answer(answer), status)
    }

    fn no(code: &str) -> Answer {
        let code = Code { field: "reason".into(), value: code.into() };
        Answer::Declined { code: Some(code), message: "no".into() }
    }

    #[test]
    fn a_final_failure_burns_the_key_whatever_its_reason() {
        for (code, class, opens) in [
            ("NO_PAYEE", Class::Terminal, false),
            ("BUSY", Class::Terminal, false),
            ("NO_FLOAT", Class::Terminal, true),
            ("NEVER_SEEN", Class::TerminalReview, false),
        ] {
            let decision = said(no(code), Some(200));
            assert_eq!((decision.class, decision.opens_breaker), (class, opens), "{code}");
            assert!(decision.of_a_question, "it speaks of all that was sent");
        }
    }

    #[test]
    fn an_error_of_the_question_is_no_word_on_the_payment() {
        assert_eq!(said(no("NO_PAYEE"), Some(404)).class, Class::Terminal, "the table lists it");
        for (code, status) in
            [("NO_PAYEE", 429), ("NO_PAYEE", 401), ("BUSY", 400), ("NO_FLOAT", 400), ("NEVER_SEEN", 400)]
        {
            assert_eq!(said(no(code), Some(status)).class, Class::Unknown, "{code} {status}");
        }
        assert!(said(no("NEVER_SEEN"), Some(401)).opens_breaker);
    }

    #[test]
    fn only_a_reply_can_settle() {
        let settled = || Answer::Settled { reference: "r".into(), code: None };
        assert_eq!(said(settled(), Some(200)).class, Class::Success);
        for status in [None, Some(404), Some(500)] {
            let decision = said(settled(), status);
            assert_eq!((decision.class, decision.error_code), (Class::Unknown, Some(ErrorCode::QueryFailed)));
        }
        let silent = query(Kind::Live, &Heard::Answer(settled()), &Witness::default(), &CodeTable::default());
        assert_eq!((silent.error_code, silent.opens_breaker), (Some(ErrorCode::AdapterLied), true));
    }

    #[test]
    fn not_found_is_believed_where_the_rail_said_so() {
        assert_eq!(said(Answer::NotFound, Some(404)).class, Class::NotFound);
        assert_eq!(said(Answer::NotFound, Some(200)).class, Class::NotFound);
        assert_eq!(said(Answer::NotFound, Some(503)).class, Class::Unknown);
        assert_eq!(said(Answer::NotFound, None).class, Class::Unknown);
    }

    #[test]
    fn a_question_that_fails_changes_nothing() {
        for heard in [
            Heard::Failed(CallError::Stack),
            Heard::Answer(Answer::Unclear { code: None, detail: "html".into() }),
            Heard::Answer(Answer::NotSent { reason: "no route".into() }),
        ] {
            let decision = judge(heard, Some(500));
            assert_eq!((decision.class, decision.opens_breaker), (Class::Unknown, false));
        }
        let refused = said(Answer::Unclear { code: None, detail: "401".into() }, Some(401));
        assert_eq!((refused.class, refused.opens_breaker), (Class::Unknown, true));
    }
}
