//! What an adapter tries besides what it is asked for: nothing of it changes what a payment is.

use form::{Meaning, Veto};
use harness::adapter_rig::AdapterRig;
use harness::rail::Reply;
use verdict::answer::CallResult;
use verdict::call_error::CallError;
use verdict::decision::Class;
use verdict::error_code::ErrorCode;
use verdict::witness::{GateRule, Sent};

#[tokio::test]
async fn a_value_that_the_rails_file_does_not_allow_keeps_the_payment_from_leaving() {
    for (name, why) in [
        ("undeclared_value", "\"amount\" is not a variable of this rail file"),
        ("value_twice", "note is given twice"),
        ("splits_header", "note must be visible ASCII characters and blanks"),
    ] {
        let rig = AdapterRig::new().await;
        let attempt = rig.try_guest(name).await;
        let CallResult::Failed(CallError::BadValue(said)) = &attempt.heard else {
            panic!("{name}: {attempt:?}")
        };
        assert!(said.contains(why), "{name}: {said}");
        let rules: Vec<_> = attempt.witness.denied.iter().map(|denied| denied.rule).collect();
        assert_eq!(rules, [GateRule::Variable], "{name}");
        assert_eq!((attempt.witness.money_left(), rig.rail.asked().len()), (Sent::Nothing, 0), "{name}");
        let decision = verdict::judge_disbursement(&attempt.heard, &attempt.witness);
        assert_eq!(decision.class, Class::Retryable, "{name}: nothing left");
    }
}

#[tokio::test]
async fn an_adapter_that_does_not_want_a_payment_sent_keeps_it_from_leaving() {
    let rig = AdapterRig::new().await;
    let attempt = rig.try_guest("refuses_all").await;
    assert_eq!(rig.rail.asked().len(), 0);
    let decision = verdict::judge_disbursement(&attempt.heard, &attempt.witness);
    assert_eq!((decision.class, decision.error_code), (Class::Terminal, Some(ErrorCode::RefusedLocally)));
}

#[tokio::test]
async fn an_adapter_that_reads_the_opposite_can_only_make_the_host_ask_again() {
    for (said, meaning) in [("paid", Meaning::Success), ("refused", Meaning::Terminal)] {
        let rig = AdapterRig::with(move |_| Reply::says(200, said)).await;
        let attempt = rig.try_guest("reads_opposite").await;
        let CallResult::Reading(reading) = &attempt.heard else { panic!("{attempt:?}") };
        assert_eq!((reading.meaning, reading.veto), (Some(meaning), Some(Veto::Opposite)));
        assert_eq!(attempt.witness.denied[0].rule, GateRule::Reading);
        let decision = verdict::judge_disbursement(&attempt.heard, &attempt.witness);
        assert_eq!((decision.class, decision.error_code), (Class::Unknown, Some(ErrorCode::AdapterVeto)));
    }
}

#[tokio::test]
async fn an_adapter_makes_no_verdict_of_a_reply_that_the_host_cannot_read() {
    for said in ["later", "PAID", "paid?", "<html>paid</html>"] {
        let rig = AdapterRig::with(move |_| Reply::says(200, said)).await;
        // It takes everything that is not paid for paid.
        let attempt = rig.try_guest("reads_opposite").await;
        let decision = verdict::judge_disbursement(&attempt.heard, &attempt.witness);
        assert!(matches!(decision.class, Class::Unknown | Class::Pending), "{said}: {decision:?}");
    }
}
