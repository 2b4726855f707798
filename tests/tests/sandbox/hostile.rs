//! Guests that misbehave while they run.

use std::time::{Duration, Instant};

use form::{Meaning, Reading};
use harness::adapter_rig::{AdapterRig, guest, instruction};
use harness::rail::{ReceivedRequest, Reply};
use harness::{PATIENCE, forged};
use payment::is_unsafe;
use rail::{CallReport, LoadError, Task};
use verdict::answer::CallResult;
use verdict::call_error::CallError;
use verdict::witness::{GateRule, Sent};

fn error(heard: CallResult) -> CallError {
    match heard {
        CallResult::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

fn reading(attempt: &CallReport) -> &Reading {
    match &attempt.heard {
        CallResult::Reading(reading) => reading,
        other => panic!("{other:?}"),
    }
}

fn is_paid(attempt: &CallReport) -> bool {
    let reading = reading(attempt);
    reading.meaning == Some(Meaning::Success) && reading.veto.is_none()
}

#[tokio::test]
async fn an_endless_loop_ends_with_its_processor_time() {
    let rig = AdapterRig::new().await;
    let attempt = rig.try_guest("endless_loop").await;
    assert_eq!(error(attempt.heard), CallError::Cpu(100));
    assert_eq!((attempt.witness.money_left(), rig.rail.asked().len()), (Sent::Nothing, 0));
}

#[tokio::test]
async fn an_endless_loop_does_not_hold_up_its_neighbours() {
    let rig = AdapterRig::new().await;
    let (looping, paying) = (rig.load("endless_loop").await, rig.load("pays_and_tells").await);
    // On the one thread of this test: the neighbour gets its turns because the loop is made to yield.
    let (looped, paid) = tokio::join!(rig.disburse(&looping), async {
        let mut paid = 0;
        for _ in 0..5 {
            paid += usize::from(is_paid(&rig.disburse(&paying).await));
        }
        paid
    });
    assert_eq!(error(looped.heard), CallError::Cpu(100));
    assert_eq!(paid, 5);
}

/// Of two workers a rail gets one: the other is there for everybody else, however many calls loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_endless_loops_of_a_rail_leave_a_worker_to_the_others() {
    let rig = AdapterRig::new().await;
    let (looping, paying) = (rig.load("endless_loop").await, rig.load("pays_and_tells").await);
    let loops = futures_util::future::join_all((0..40).map(|_| rig.disburse(&looping)));
    let pays = async {
        let mut paid = 0;
        for _ in 0..20 {
            paid += usize::from(is_paid(&rig.disburse(&paying).await));
        }
        paid
    };
    let (looped, paid) = tokio::join!(loops, pays);
    let ended = |attempt: &CallReport| {
        matches!(attempt.heard, CallResult::Failed(CallError::Cpu(_) | CallError::Deadline(_)))
    };
    assert!(looped.iter().all(ended), "{looped:?}");
    assert_eq!(paid, 20);
}

#[tokio::test]
async fn an_endless_loop_in_the_start_function_ends_too() {
    let rig = AdapterRig::new().await;
    let component = forged::component(forged::as_it_is, |wat| {
        forged::with(wat, "(func $spin (loop $l br $l)) (start $spin)")
    });
    let refused = rig.load_bytes(&component).await.expect_err("it never described itself");
    assert!(matches!(refused, LoadError::Describe(CallError::Cpu(_))), "{refused}");
}

#[tokio::test]
async fn a_guest_that_sleeps_is_awake_at_once() {
    let rig = AdapterRig::new().await;
    let attempt = rig.try_guest("sleeper").await;
    assert!(is_paid(&attempt));
    assert_eq!(rig.rail.asked()[0].note().as_deref(), Some("awake"));
}

#[tokio::test]
async fn clock_and_randomness_of_a_guest_are_the_same_in_every_call() {
    let rig = AdapterRig::new().await;
    let loaded = rig.load("asks_clock_and_randomness").await;
    for _ in 0..3 {
        rig.disburse(&loaded).await;
    }
    let notes: Vec<_> = rig.rail.asked().iter().map(ReceivedRequest::note).collect();
    assert!(notes.iter().all(|note| *note == notes[0]), "{notes:?}");
}

#[tokio::test]
async fn no_guest_exists_while_its_rail_is_waited_for() {
    let rig = AdapterRig::with(|_| Reply::Hangs).await;
    let timeouts = "timeouts = { call_ms = 35000, first_byte_ms = 35000, connect_ms = 35000 }";
    let loaded = rig.load_with("pays_and_tells", timeouts).await;
    let waiting = rig.disburse(&loaded);
    let look = async {
        let patience = Instant::now();
        while rig.rail.asked().is_empty() {
            assert!(patience.elapsed() < PATIENCE, "nothing was asked");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        rig.sandbox.in_use()
    };
    let in_use = tokio::select! {
        ended = waiting => panic!("{ended:?}"),
        in_use = look => in_use,
    };
    assert_eq!(in_use, [0; 4]);
}

#[tokio::test]
async fn a_memory_bomb_bursts_at_the_limit() {
    let rig = AdapterRig::new().await;
    let loaded = rig.load_with("memory_bomb", "limits = { memory_mib = 16 }").await;
    assert_eq!(error(rig.disburse(&loaded).await.heard), CallError::Memory(16));
}

#[tokio::test]
async fn a_table_bomb_bursts_at_the_limit() {
    let rig = AdapterRig::new().await;
    let component = forged::component(forged::as_it_is, |wat| {
        let bomb = "(table $bomb 1 funcref)
                    (func $burst (loop $l (table.grow $bomb (ref.null func) (i32.const 10000)) drop br $l))
                    (start $burst)";
        forged::with(wat, bomb)
    });
    let refused = rig.load_bytes(&component).await.expect_err("it burst");
    assert!(matches!(refused, LoadError::Describe(CallError::Table(_))), "{refused}");
}

#[tokio::test]
async fn deep_recursion_ends_at_the_end_of_the_stack() {
    let rig = AdapterRig::new().await;
    assert_eq!(error(rig.try_guest("deep_recursion").await.heard), CallError::Stack);
}

#[tokio::test]
async fn a_panic_is_a_trap_that_says_what_the_guest_said() {
    let rig = AdapterRig::new().await;
    let attempt = rig.try_guest("panics").await;
    let CallError::Trap(said) = error(attempt.heard) else { panic!("no trap") };
    assert!(said.contains("cannot pay 10.50"), "{said}");
    assert_eq!(rig.rail.asked().len(), 0, "nothing left");
}

#[tokio::test]
async fn a_guest_that_hands_over_too_much_at_once_is_ended() {
    let rig = AdapterRig::new().await;
    let CallError::Resources(what) = error(rig.try_guest("giant_values").await.heard) else {
        panic!("not named")
    };
    assert!(what.contains("fuel allocated for hostcalls"), "{what}");
    let many = error(rig.try_guest("many_values").await.heard);
    assert_eq!(many, CallError::BadAnswer("more than 100 values".to_owned()));
}

#[tokio::test]
async fn a_flood_of_output_is_cut_and_the_payment_still_goes() {
    let rig = AdapterRig::new().await;
    let loaded = rig.load_with("log_flood", "limits = { cpu_ms = 30000, log_kib = 4 }").await;
    let attempt = rig.disburse(&loaded).await;
    assert!(is_paid(&attempt));
    let size: usize = attempt.log.iter().map(String::len).sum();
    assert!(size > 0 && size <= 4096, "{size}");
}

#[tokio::test]
async fn nothing_is_kept_from_one_call_to_the_next() {
    let rig = AdapterRig::new().await;
    let loaded = rig.load("keeps_state").await;
    for _ in 0..20 {
        rig.disburse(&loaded).await;
    }
    let asked = rig.rail.asked();
    assert!(
        asked.iter().all(|asked| asked.note().as_deref() == Some("1")),
        "every call is the first of its instance"
    );
    assert_eq!(asked.len(), 20);
}

#[tokio::test]
async fn one_call_too_many_is_told_to_wait_and_hurts_nobody() {
    let rig = AdapterRig::with(|_| Reply::Hangs).await;
    let timeouts = "timeouts = { call_ms = 35000, first_byte_ms = 35000, connect_ms = 35000 }";
    let loaded = rig.load_with("pays_and_tells", timeouts).await;
    let calls = futures_util::future::join_all((0..64).map(|_| rig.disburse(&loaded)));
    let one_more = async {
        let patience = Instant::now();
        while rig.rail.asked().len() < 64 {
            assert!(patience.elapsed() < PATIENCE, "{} calls have begun", rig.rail.asked().len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        rig.disburse(&loaded).await
    };
    // The others go on waiting for their rail, and are given up with the test.
    let attempt = tokio::select! {
        ended = calls => panic!("{ended:?}"),
        attempt = one_more => attempt,
    };
    assert_eq!(attempt.heard, CallResult::Failed(CallError::Busy(64)));
    assert_eq!(rig.sandbox.in_use(), [0; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_worst_of_guests_everything_is_given_back() {
    let rig = AdapterRig::with(|_| Reply::Hangs).await;
    let mut loaded = Vec::new();
    for name in ["endless_loop", "memory_bomb", "deep_recursion", "panics", "pays_and_tells"] {
        loaded.push(
            rig.load_with(name, "timeouts = { call_ms = 50 }\nlimits = { cpu_ms = 20, memory_mib = 8 }")
                .await,
        );
    }
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("procfs").count();
    for round in 0..3 {
        let calls: Vec<_> = (0..10).flat_map(|_| &loaded).map(|loaded| rig.disburse(loaded)).collect();
        let ended = futures_util::future::join_all(calls).await;
        assert!(ended.iter().all(|attempt| matches!(attempt.heard, CallResult::Failed(_))), "round {round}");
        assert_eq!(rig.sandbox.in_use(), [0; 4], "round {round}");
    }
    let patience = Instant::now();
    while descriptors() > 60 && patience.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(descriptors() <= 60, "{} descriptors are open", descriptors());
}

#[tokio::test]
async fn a_payment_is_validated_without_being_sent() {
    let rig = AdapterRig::new().await;
    let loaded = rig.load_bytes(&guest("pays_and_tells")).await.expect("it loads");
    assert_eq!(loaded.call(&rig.sandbox, Task::Validate, instruction(), None).await.heard, CallResult::Valid);
    assert_eq!(rig.rail.asked().len(), 0);
    let asked = loaded.call(&rig.sandbox, Task::Query, instruction(), None).await;
    assert!(is_paid(&asked) && asked.witness.money().is_none(), "a question pays nothing");
}

#[tokio::test]
async fn nothing_that_a_guest_says_moves_a_cursor() {
    let rig = AdapterRig::new().await;
    let loaded = rig.load("escapes").await;
    let described = serde_json::to_string(&loaded.description).expect("JSON");
    let attempt = rig.disburse(&loaded).await;
    let CallError::Trap(said) = error(attempt.heard) else { panic!("no trap") };
    assert!(said.contains("panic"), "{said}");
    let refused = match rig.try_guest("refuses_all").await.heard {
        CallResult::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    assert!(attempt.log.iter().any(|line| line.contains("output")), "{:?}", attempt.log);
    for shown in [&described, &said, &refused].into_iter().chain(&attempt.log) {
        assert!(!shown.contains(is_unsafe), "{shown:?}");
        assert!(!shown.contains("\\u001b"), "{shown:?}");
    }
}

#[tokio::test]
async fn a_guest_that_fails_at_reading_brakes_and_hurts_nobody_else() {
    for (name, reply) in [("loops_in_read", "paid"), ("cannot_read", "refused"), ("cannot_read", "paid")] {
        let rig = AdapterRig::with(move |_| Reply::says(200, reply)).await;
        let attempt = rig.try_guest(name).await;
        let reading = reading(&attempt);
        assert!(reading.veto.is_some(), "{name}: {reading:?}");
        assert!(
            attempt.witness.denied.iter().all(|denied| denied.rule != GateRule::Reading),
            "it is no opposite"
        );
        assert_eq!(rig.sandbox.in_use(), [0; 4]);
    }
}
