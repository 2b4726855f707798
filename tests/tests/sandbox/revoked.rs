//! Components that are taken out of use, at once.

use std::sync::{Arc, OnceLock};

use harness::adapter_rig::{AdapterRig, guest, instruction};
use harness::rail::Reply;
use rail::{LoadOutcome, Rails, Reloaded, Rules, Task};
use verdict::answer::CallResult;
use verdict::call_error::CallError;
use verdict::digest::Digest;
use verdict::witness::{GateRule, Sent};

#[tokio::test]
async fn a_revoked_component_is_called_no_more_and_loaded_no_more() {
    let rig = AdapterRig::new().await;
    let (bad, good) = (guest("pays_and_tells"), guest("keeps_state"));
    rig.put_rail("one", &bad, |text| text);
    let (rails, mut told) = rig.load_rails(Rules::default()).await.expect("they load");
    told.try_recv().expect("the start is told");
    let rail = rails.get("one").expect("it is there");
    let held = rail.current();
    assert!(!rail.is_revoked());

    for _ in 0..2 {
        rails.revoke(&[Digest::of(&bad)]);
    }
    assert!(rail.is_revoked());
    assert!(rail.preferring(&Digest::of(&bad)).is_none() && rail.preferring(&Digest::of(&good)).is_none());
    let event = told.try_recv().expect("it is told");
    assert_eq!((event.outcome, event.component), (LoadOutcome::Revoked, Some(Digest::of(&bad))));
    assert!(told.try_recv().is_err(), "once");
    for task in [Task::Disburse, Task::Query, Task::Validate] {
        let attempt = held.call(&rig.sandbox, task, instruction(), None).await;
        assert_eq!(attempt.heard, CallResult::Failed(CallError::Revoked(Digest::of(&bad))));
        assert_eq!(attempt.witness.money_left(), Sent::Nothing);
    }
    assert_eq!(rig.rail.asked().len(), 0);

    rig.put_rail("one", &bad, |text| format!("{text}\n# another text"));
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    let Reloaded::Refused(refused) = &report["one"] else { panic!("{report:?}") };
    assert!(refused.to_string().contains(&format!("component {} is revoked", Digest::of(&bad))), "{refused}");
    assert_eq!(told.try_recv().expect("it is told").outcome, LoadOutcome::Revoked);

    rig.put_rail("one", &good, |text| text);
    rails.reload(&rig.sandbox).await.expect("a report");
    assert!(!rail.is_revoked());
    let asked = rail.preferring(&Digest::of(&bad)).expect("the new one");
    assert_eq!(asked.digest, Digest::of(&good), "though the old one is still loaded");
}

#[tokio::test]
async fn a_component_that_is_revoked_in_the_middle_of_a_call_cannot_begin_to_pay() {
    let bad = guest("pays_and_tells");
    let (digest, rails) = (Digest::of(&bad), Arc::new(OnceLock::<Rails>::new()));
    let known = rails.clone();
    // Its rail wants a token first, and it is revoked while that is fetched.
    let rig = AdapterRig::with(move |asked| {
        if asked.path == "/token" {
            known.get().expect("they are loaded").revoke(&[digest]);
            return Reply::says(200, r#"{"access_token": "t", "expires_in": 60}"#);
        }
        Reply::says(200, "paid")
    })
    .await;
    rig.put_rail("one", &bad, |text| {
        text.replace(
            "headers = { x-reference-id",
            "headers = { authorization = \"Bearer {token.access}\", x-reference-id",
        )
    });
    let (loaded, _) = rig.load_rails(Rules::default()).await.expect("they load");
    let rails = rails.get_or_init(|| loaded);
    let attempt = rig.disburse(&rails.get("one").expect("it is there").current()).await;
    let rules: Vec<_> = attempt.witness.denied.iter().map(|denied| denied.rule).collect();
    assert_eq!(rules, [GateRule::Revoked], "{attempt:?}");
    assert_eq!(attempt.witness.money_left(), Sent::Nothing);
    let paths: Vec<_> = rig.rail.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/token"]);
}
