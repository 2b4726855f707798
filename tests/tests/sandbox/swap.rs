//! A new component while calls are running: nothing is lost, nothing is mixed.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use form::Meaning;
use harness::PATIENCE;
use harness::adapter_rig::{AdapterRig, guest, instruction};
use rail::{LoadOutcome, Reloaded, Rules, Sandbox, SandboxOptions, Task};
use verdict::answer::CallResult;
use verdict::digest::Digest;

fn write(rig: &AdapterRig, component: &[u8]) {
    rig.put_rail("one", component, |text| text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_every_call_is_answered_and_says_by_whom() {
    let rig = Arc::new(AdapterRig::new().await);
    let (old, new) = (guest("pays_and_tells"), guest("keeps_state"));
    write(&rig, &old);
    let (rails, _) = rig.load_rails(Rules::default()).await.expect("they load");
    let rail = rails.get("one").expect("it is there");
    let (stop, by_old, by_new) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (rig, rail, stop, by_old, by_new) =
                (rig.clone(), rail.clone(), stop.clone(), by_old.clone(), by_new.clone());
            let (old, new) = (Digest::of(&old), Digest::of(&new));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let attempt =
                        rail.current().call(&rig.sandbox, Task::Disburse, instruction(), None).await;
                    let is_paid = matches!(&attempt.heard, CallResult::Reading(reading)
                        if reading.meaning == Some(Meaning::Success) && reading.veto.is_none());
                    assert!(is_paid, "{attempt:?}");
                    assert!(attempt.digest == old || attempt.digest == new);
                    let count = if attempt.digest == old { &by_old } else { &by_new };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();

    while by_old.load(Ordering::Relaxed) < 50 {
        tokio::task::yield_now().await;
    }
    write(&rig, &new);
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    assert!(
        matches!(&report["one"], Reloaded::Swapped { from, to } if *from == Digest::of(&old) && *to == Digest::of(&new)),
        "{report:?}"
    );
    assert_eq!(
        rail.preferring(&Digest::of(&old)).expect("not revoked").digest,
        Digest::of(&old),
        "a question may still go to the old one"
    );
    while by_new.load(Ordering::Relaxed) < 50 {
        tokio::task::yield_now().await;
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.expect("no call was lost");
    }
    assert_eq!(rig.sandbox.in_use(), [0; 4]);
}

#[tokio::test]
async fn a_bad_component_changes_nothing_and_is_reported() {
    let rig = AdapterRig::new().await;
    let old = guest("pays_and_tells");
    write(&rig, &old);
    let (rails, _) = rig.load_rails(Rules::default()).await.expect("they load");
    assert!(matches!(rails.reload(&rig.sandbox).await.expect("a report")["one"], Reloaded::Unchanged));
    let whole = guest("keeps_state");
    for bad in [&whole[..1000], b"not even wasm"] {
        write(&rig, bad);
        let report = rails.reload(&rig.sandbox).await.expect("a report");
        assert!(
            matches!(&report["one"], Reloaded::Refused(error) if error.to_string().contains("one.toml")),
            "{report:?}"
        );
        assert_eq!(rails.get("one").expect("still there").current().digest, Digest::of(&old));
    }
    fs::write(rig.path("rails").join("one.toml"), "component = 5").expect("written");
    assert!(matches!(rails.reload(&rig.sandbox).await.expect("a report")["one"], Reloaded::Refused(_)));
    fs::remove_file(rig.path("rails").join("one.toml")).expect("removed");
    assert!(matches!(rails.reload(&rig.sandbox).await.expect("a report")["one"], Reloaded::Missing));
    assert_eq!(rails.get("one").expect("still there").current().digest, Digest::of(&old));
}

#[tokio::test]
async fn a_changed_file_is_noticed_and_a_signal_too() {
    let rig = AdapterRig::new().await;
    let (old, new) = (guest("pays_and_tells"), guest("keeps_state"));
    write(&rig, &old);
    let (rails, mut told) = rig.load_rails(Rules::default()).await.expect("they load");
    let speaks = async |component: &[u8]| {
        let patience = Instant::now();
        while rails.get("one").expect("it is there").current().digest != Digest::of(component) {
            assert!(patience.elapsed() < PATIENCE, "the change was not noticed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let often = Duration::from_millis(20);
    tokio::select! {
        ended = rails.watch(&rig.sandbox, often) => panic!("{ended:?}"),
        () = async {
            write(&rig, b"not even wasm");
            let refused = async {
                while told.recv().await.expect("it is told").outcome != LoadOutcome::Refused {}
            };
            tokio::time::timeout(PATIENCE, refused).await.expect("it was refused");
            assert_eq!(rails.get("one").expect("it is there").current().digest, Digest::of(&old));
            write(&rig, &new);
            speaks(&new).await;
        } => {}
    }
    tokio::select! {
        ended = rails.watch(&rig.sandbox, Duration::from_secs(3600)) => panic!("{ended:?}"),
        () = async {
            tokio::task::yield_now().await;
            write(&rig, &old);
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP)
                .expect("sent");
            speaks(&old).await;
        } => {}
    }
}

#[tokio::test]
async fn every_load_and_every_refusal_is_told_with_the_digests_of_component_and_file() {
    let rig = AdapterRig::new().await;
    let (old, new) = (guest("pays_and_tells"), guest("keeps_state"));
    let file = || Digest::of(&fs::read(rig.path("rails/one.toml")).expect("read"));
    write(&rig, &old);
    let (rails, mut told) = rig.load_rails(Rules::default()).await.expect("they load");
    let event = told.try_recv().expect("the start is told");
    assert_eq!((event.rail.as_str(), event.outcome), ("one", LoadOutcome::Loaded));
    assert_eq!((event.component, event.file), (Some(Digest::of(&old)), file()));

    write(&rig, &new);
    rails.reload(&rig.sandbox).await.expect("a report");
    let event = told.try_recv().expect("the swap is told");
    assert_eq!((event.component, event.file), (Some(Digest::of(&new)), file()));
    assert!(event.detail.contains(&Digest::of(&old).to_string()), "{event:?}");

    write(&rig, b"not even wasm");
    rails.reload(&rig.sandbox).await.expect("a report");
    let event = told.try_recv().expect("the refusal is told");
    assert_eq!((event.outcome, event.file), (LoadOutcome::Refused, file()));
    assert_eq!(event.component, Some(Digest::of(b"not even wasm")), "the one that was asked for");
    assert!(event.detail.contains("not a WebAssembly component"), "{event:?}");
    assert!(told.try_recv().is_err(), "nothing else happened");
}

#[tokio::test]
async fn a_rail_that_is_new_while_the_host_runs_is_told_as_new() {
    let rig = AdapterRig::new().await;
    write(&rig, &guest("pays_and_tells"));
    let (rails, mut told) = rig.load_rails(Rules::default()).await.expect("they load");
    told.try_recv().expect("the start is told");
    rig.put_rail("two", &guest("keeps_state"), |text| text);
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    assert!(matches!(report["two"], Reloaded::Added(_)), "{report:?}");
    let event = told.try_recv().expect("it is told");
    assert_eq!((event.rail.as_str(), event.outcome), ("two", LoadOutcome::Loaded));
    assert_eq!(event.detail, "new while the host runs");
    assert!(rails.get("two").is_some());
}

/// Asked elsewhere, nobody would know a payment that is open, and it would be paid again.
#[tokio::test]
async fn another_address_is_taken_only_where_it_is_said_that_the_books_are_the_same() {
    let rig = AdapterRig::new().await;
    let (component, base) = (guest("pays_and_tells"), rig.rail.base());
    write(&rig, &component);
    let (rails, _) = rig.load_rails(Rules::default()).await.expect("they load");
    let (old, new) = (format!("base = \"{base}\""), format!("base = \"{base}/other\""));
    let moved = |text: String| {
        let changed = text.replace(&old, &new);
        assert_ne!(text, changed);
        changed
    };
    rig.put_rail("one", &component, moved);
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    assert!(
        matches!(&report["one"], Reloaded::Refused(error) if error.to_string().contains("the provider or the form of the key changed")),
        "{report:?}"
    );
    rig.put_rail("one", &component, |text| format!("provider = \"{base}\"\n{}", moved(text)));
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    assert!(matches!(report["one"], Reloaded::Swapped { .. }), "{report:?}");
}

/// A component that is endless to compile would otherwise cost a minute whenever any other file changes.
#[tokio::test]
async fn what_was_refused_is_tried_again_only_when_something_changed_or_somebody_asks() {
    let rig = AdapterRig::new().await;
    let (old, new) = (guest("pays_and_tells"), guest("keeps_state"));
    write(&rig, &old);
    rig.put_rail("two", &old, |text| text);
    let (rails, mut told) = rig.load_rails(Rules::default()).await.expect("they load");
    while told.try_recv().is_ok() {}
    // Nothing can be compiled here. Whoever loads in the rig itself succeeds, so one can see whether it was tried.
    let options = SandboxOptions { calls_max: 4, ..SandboxOptions::default() };
    let barren = Sandbox::new(&rig.path("barren"), Path::new("/bin/false"), options).expect("a sandbox");
    write(&rig, &new);
    let report = rails.reload(&barren).await.expect("a report");
    assert!(matches!(report["one"], Reloaded::Refused(_)), "{report:?}");
    assert_eq!(told.try_recv().expect("it is told").outcome, LoadOutcome::Refused);

    rig.put_rail("two", &old, |text| format!("{text}\n# another text"));
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    assert!(matches!(report["two"], Reloaded::Swapped { .. }), "{report:?}");
    assert!(
        matches!(&report["one"], Reloaded::StillRefused(why) if why.contains("cannot be compiled")),
        "{report:?}"
    );
    assert_eq!(told.try_recv().expect("it is told").rail, "two");
    assert!(told.try_recv().is_err(), "a refusal is told once");
    let report = rails.reload_asked(&rig.sandbox).await.expect("a report");
    assert!(matches!(report["one"], Reloaded::Swapped { .. }), "somebody asked: {report:?}");

    rig.put_rail("one", &old, |text| format!("{text}\n# a text"));
    let report = rails.reload(&barren).await.expect("a report");
    assert!(matches!(report["one"], Reloaded::Refused(_)), "{report:?}");
    rig.put_rail("one", &old, |text| format!("{text}\n# another text"));
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    assert!(matches!(report["one"], Reloaded::Swapped { .. }), "its file changed: {report:?}");
}
