//! Guests that misbehave while they run.

use std::time::{Duration, Instant};

use harness::yard::{Yard, guest, instruction};
use harness::{PATIENCE, forged};
use railhost::payment::is_unsafe;
use railhost::rail::{Answer, CallError, Heard, Left, LoadError, Task};

fn error(heard: Heard) -> CallError {
    match heard {
        Heard::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

fn answer(heard: Heard) -> Answer {
    match heard {
        Heard::Answer(answer) => answer,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_endless_loop_ends_with_its_processor_time() {
    let yard = Yard::new().await;
    let attempt = yard.try_guest("endless_loop").await;
    assert_eq!(error(attempt.heard), CallError::Cpu(100));
}

#[tokio::test]
async fn an_endless_loop_does_not_hold_up_its_neighbours() {
    let yard = Yard::new().await;
    let (looping, paying) = (yard.load("endless_loop").await, yard.load("pays_and_tells").await);
    // On the one thread of this test: the neighbour gets its turns because the loop is made to yield.
    let (looped, paid) = tokio::join!(yard.disburse(&looping), async {
        let mut paid = 0;
        for _ in 0..5 {
            if matches!(yard.disburse(&paying).await.heard, Heard::Answer(Answer::Settled { .. })) {
                paid += 1;
            }
        }
        paid
    });
    assert_eq!(error(looped.heard), CallError::Cpu(100));
    assert_eq!(paid, 5);
}

#[tokio::test]
async fn an_endless_loop_in_the_start_function_ends_too() {
    let yard = Yard::new().await;
    let component = forged::component(forged::as_it_is, |wat| {
        forged::with(wat, "(func $spin (loop $l br $l)) (start $spin)")
    });
    let refused = yard.load_bytes(&component).await.expect_err("it never described itself");
    assert!(matches!(refused, LoadError::Describe(CallError::Cpu(_))), "{refused}");
}

#[tokio::test]
async fn a_sleeper_is_woken_by_the_deadline() {
    let yard = Yard::new().await;
    let loaded = yard.load_with("sleeper", "timeouts = { call_ms = 400 }").await;
    let attempt = yard.disburse(&loaded).await;
    assert_eq!(error(attempt.heard), CallError::Deadline(Duration::from_millis(400)));
}

#[tokio::test]
async fn a_guest_that_waits_for_its_rail_uses_no_processor_time() {
    let yard = Yard::with(|_| {
        std::thread::sleep(Duration::from_millis(300));
        harness::rail::Reply::says(200, "paid")
    })
    .await;
    let loaded = yard.load_with("pays_and_tells", "limits = { cpu_ms = 100 }").await;
    assert!(matches!(answer(yard.disburse(&loaded).await.heard), Answer::Settled { .. }));
}

#[tokio::test]
async fn a_memory_bomb_bursts_at_the_limit() {
    let yard = Yard::new().await;
    let loaded = yard.load_with("memory_bomb", "limits = { memory_mib = 16 }").await;
    assert_eq!(error(yard.disburse(&loaded).await.heard), CallError::Memory(16));
}

#[tokio::test]
async fn a_table_bomb_bursts_at_the_limit() {
    let yard = Yard::new().await;
    let component = forged::component(forged::as_it_is, |wat| {
        let bomb = "(table $bomb 1 funcref)
                    (func $burst (loop $l (table.grow $bomb (ref.null func) (i32.const 10000)) drop br $l))
                    (start $burst)";
        forged::with(wat, bomb)
    });
    let refused = yard.load_bytes(&component).await.expect_err("it burst");
    assert!(matches!(refused, LoadError::Describe(CallError::Table(_))), "{refused}");
}

#[tokio::test]
async fn deep_recursion_ends_at_the_end_of_the_stack() {
    let yard = Yard::new().await;
    assert_eq!(error(yard.try_guest("deep_recursion").await.heard), CallError::Stack);
}

#[tokio::test]
async fn a_panic_is_a_trap_that_says_what_the_guest_said() {
    let yard = Yard::new().await;
    let CallError::Trap(said) = error(yard.try_guest("panics").await.heard) else { panic!("no trap") };
    assert!(said.contains("cannot pay 10.50"), "{said}");
}

#[tokio::test]
async fn a_header_flood_is_refused_at_the_gate() {
    let yard = Yard::new().await;
    let attempt = yard.try_guest("header_flood").await;
    assert!(
        matches!(answer(attempt.heard), Answer::Unclear { detail, .. } if detail.contains("limit: headers"))
    );
    assert_eq!(attempt.witness.money_left(), Left::Nothing);
    assert_eq!(yard.rail.asked().len(), 0);
}

#[tokio::test]
async fn a_huge_body_is_refused_at_the_gate() {
    let yard = Yard::new().await;
    let attempt = yard.try_guest("huge_body").await;
    assert!(
        matches!(answer(attempt.heard), Answer::Unclear { detail, .. } if detail.contains("limit: a request"))
    );
    assert_eq!(yard.rail.asked().len(), 0);
}

#[tokio::test]
async fn a_guest_that_hands_over_too_much_at_once_is_ended() {
    let yard = Yard::new().await;
    let CallError::Resources(what) = error(yard.try_guest("giant_hostcall").await.heard) else {
        panic!("not named")
    };
    assert!(what.contains("fuel allocated for hostcalls"), "{what}");
}

#[tokio::test]
async fn a_log_flood_is_cut_and_the_answer_still_counts() {
    let yard = Yard::new().await;
    let loaded = yard.load_with("log_flood", "limits = { cpu_ms = 30000, log_kib = 4 }").await;
    let attempt = yard.disburse(&loaded).await;
    assert!(matches!(answer(attempt.heard), Answer::Settled { .. }));
    let size: usize = attempt.log.iter().map(|line| line.message.len()).sum();
    assert!(size < 4096, "{size}");
    assert!(attempt.log.last().expect("a last line").message.contains("more lines were dropped"));
}

#[tokio::test]
async fn nothing_is_kept_from_one_call_to_the_next() {
    let yard = Yard::new().await;
    let loaded = yard.load("keeps_state").await;
    for _ in 0..20 {
        let Answer::Settled { reference, .. } = answer(yard.disburse(&loaded).await.heard) else {
            panic!("not settled")
        };
        assert_eq!(reference, "1", "every call is the first of its instance");
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_named() {
    let yard = Yard::new().await;
    assert_eq!(
        error(yard.try_guest("bad_answer").await.heard),
        CallError::BadAnswer("an empty reference".into())
    );
}

#[tokio::test]
async fn one_call_too_many_is_told_to_wait_and_hurts_nobody() {
    let yard = Yard::with(|_| harness::rail::Reply::Hangs).await;
    let timeouts = "timeouts = { call_ms = 35000, first_byte_ms = 35000, connect_ms = 35000 }";
    let loaded = yard.load_with("pays_and_tells", timeouts).await;
    let calls = futures_util::future::join_all((0..64).map(|_| yard.disburse(&loaded)));
    let one_more = async {
        let patience = Instant::now();
        while yard.rail.asked().len() < 64 {
            assert!(patience.elapsed() < PATIENCE, "{} calls have begun", yard.rail.asked().len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        yard.disburse(&loaded).await
    };
    // The others go on waiting for their rail, and are given up with the test.
    let attempt = tokio::select! {
        ended = calls => panic!("{ended:?}"),
        attempt = one_more => attempt,
    };
    assert_eq!(attempt.heard, Heard::Failed(CallError::Busy(64)));
    assert_eq!(yard.sandbox.in_use(), [0; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_worst_of_guests_everything_is_given_back() {
    let yard = Yard::with(|_| harness::rail::Reply::Hangs).await;
    let mut loaded = Vec::new();
    for name in ["endless_loop", "sleeper", "memory_bomb", "deep_recursion", "panics", "pays_and_tells"] {
        loaded.push(
            yard.load_with(name, "timeouts = { call_ms = 50 }\nlimits = { cpu_ms = 20, memory_mib = 8 }")
                .await,
        );
    }
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("procfs").count();
    for round in 0..3 {
        let calls: Vec<_> = (0..10).flat_map(|_| &loaded).map(|loaded| yard.disburse(loaded)).collect();
        let ended = futures_util::future::join_all(calls).await;
        assert!(ended.iter().all(|attempt| matches!(attempt.heard, Heard::Failed(_))), "round {round}");
        assert_eq!(yard.sandbox.in_use(), [0; 4], "round {round}");
    }
    let patience = Instant::now();
    while descriptors() > 60 && patience.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(descriptors() <= 60, "{} descriptors are open", descriptors());
}

#[tokio::test]
async fn a_guest_validates_without_paying_and_is_asked_without_paying() {
    let yard = Yard::new().await;
    let loaded = yard.load_bytes(&guest("pays_and_tells")).await.expect("it loads");
    assert_eq!(loaded.call(&yard.sandbox, Task::Validate, instruction(), None).await.heard, Heard::Valid);
    assert_eq!(yard.rail.asked().len(), 0);
    let attempt = loaded.call(&yard.sandbox, Task::Query, instruction(), None).await;
    let denied = &attempt.witness.denied[0];
    assert!(denied.why.contains("moves money, which Query may not"), "{denied:?}");
    assert!(denied.rule.is_tampering());
    assert_eq!(yard.rail.asked().len(), 0);
}

#[tokio::test]
async fn nothing_that_a_guest_says_moves_a_cursor() {
    let yard = Yard::new().await;
    let loaded = yard.load("escapes").await;
    let described = serde_json::to_string(&loaded.description).expect("JSON");
    let attempt = yard.disburse(&loaded).await;
    let CallError::Trap(said) = error(attempt.heard) else { panic!("no trap") };
    assert!(said.contains("panic"), "{said}");
    let asked = loaded.call(&yard.sandbox, Task::Query, instruction(), None).await;
    let Answer::Unclear { detail, .. } = answer(asked.heard) else { panic!("not unclear") };
    let lines: Vec<_> = attempt
        .log
        .iter()
        .flat_map(|line| line.fields.iter().flat_map(|(name, value)| [name, value]).chain([&line.message]))
        .collect();
    assert!(lines.len() > 2, "{lines:?}");
    for shown in [&described, &said, &detail].into_iter().chain(lines) {
        assert!(!shown.contains(is_unsafe), "{shown:?}");
        assert!(!shown.contains("\\u001b"), "{shown:?}");
    }
}
