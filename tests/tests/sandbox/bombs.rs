//! Components that are endless to compile: another process ends under its limits, with one sentence, and the host does not
//! notice. How much memory that takes is measured on hosts in processes of their own.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::adapter_rig::{AdapterRig, guest};
use harness::{PATIENCE, forged};
use rail::{CompileLimits, LoadError, Reloaded, Rules};
use verdict::answer::CallResult;
use verdict::digest::Digest;

const WITHIN: CompileLimits =
    CompileLimits { memory_mib: 1024, cpu_seconds: 60, wall: Duration::from_secs(120) };

fn is_one_sentence(refused: &LoadError) -> bool {
    matches!(
        refused,
        LoadError::CompileMemory(_)
            | LoadError::CompileCpu(_)
            | LoadError::CompileTime(_)
            | LoadError::CompileSize(_)
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_that_take_gigabytes_to_compile_end_at_the_compilers_limit() {
    let rig = AdapterRig::compiling_within(WITHIN).await;
    let bomb = forged::nested_loops();
    assert!(bomb.len() < 200_000, "{} bytes", bomb.len());
    let refused = rig.load_bytes(&bomb).await.expect_err("it takes more");
    assert!(is_one_sentence(&refused), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_of_the_compiler_ends_it_with_its_own_sentence() {
    let limits = |memory_mib, cpu_seconds, wall_ms| CompileLimits {
        memory_mib,
        cpu_seconds,
        wall: Duration::from_millis(wall_ms),
    };
    let refused = async |limits, bomb: &[u8]| {
        let rig = AdapterRig::compiling_within(limits).await;
        rig.load_bytes(bomb).await.expect_err("it takes more").to_string()
    };
    let data = refused(limits(64, 60, 120_000), &forged::huge_data()).await;
    assert_eq!(data, "compiling it took more than 64 MiB of memory");
    let loops = refused(limits(16_384, 1, 120_000), &forged::nested_loops()).await;
    assert_eq!(loops, "compiling it took more than 1 s of processor time");
    let early = refused(limits(1024, 60, 1), &guest("pays_and_tells")).await;
    assert_eq!(early, "compiling it took longer than 0.001 s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_million_functions_are_compiled_within_the_limits_or_refused_in_one_sentence() {
    let few = CompileLimits { memory_mib: 128, cpu_seconds: 20, wall: Duration::from_secs(60) };
    let rig = AdapterRig::compiling_within(few).await;
    let bomb = forged::empty_functions();
    let refused = rig.load_bytes(&bomb).await.expect_err("it takes more");
    assert!(is_one_sentence(&refused), "{refused}");
    assert_eq!(fs::read_dir(rig.path("compiled")).expect("the cache").count(), 0, "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bomb_that_is_swapped_in_is_refused_and_payments_go_on_meanwhile() {
    let rig = Arc::new(AdapterRig::compiling_within(WITHIN).await);
    let old = guest("pays_and_tells");
    rig.put_rail("one", &old, |text| text);
    let (rails, _) = rig.load_rails(Rules::default()).await.expect("they load");
    rig.put_rail("one", &forged::nested_loops(), |text| text);
    let rail = rails.get("one").expect("it is there");
    let mut paid = 0;
    let paying = async {
        for _ in 0..u32::MAX {
            let attempt = rig.disburse(&rail.current()).await;
            assert!(matches!(attempt.heard, CallResult::Reading(_)), "{attempt:?}");
            paid += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let report = tokio::select! {
        report = rails.reload(&rig.sandbox) => report.expect("a report"),
        () = paying => unreachable!("it pays for ever"),
    };
    let Reloaded::Refused(refused) = &report["one"] else { panic!("{report:?}") };
    assert!(refused.to_string().contains("compiling it took"), "{refused}");
    assert_eq!(rail.current().digest, Digest::of(&old));
    assert!(paid > 10, "{paid} payments while it compiled");
}

/// The processes that compile under this limit.
fn compilers(memory_mib: u32) -> usize {
    let wanted = format!("compile-component\0{memory_mib}\0");
    fs::read_dir("/proc")
        .expect("procfs")
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(&wanted))
        .count()
}

async fn until(what: &str, fact: impl Fn() -> bool) {
    let patience = Instant::now();
    while !fact() {
        assert!(patience.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compiler_ends_with_the_wish_for_its_code() {
    // Nobody else has this limit, by which the process is found.
    let memory_mib = 16_000 + std::process::id() % 1_000;
    let rig = AdapterRig::compiling_within(CompileLimits { memory_mib, ..WITHIN }).await;
    let bomb = forged::nested_loops();
    {
        let loading = rig.load_bytes(&bomb);
        tokio::select! {
            ended = loading => panic!("{ended:?}"),
            () = until("it starts", || compilers(memory_mib) == 1) => {}
        }
    }
    until("it ends", || compilers(memory_mib) == 0).await;
    assert_eq!(fs::read_dir(rig.path("compiled")).expect("the cache").count(), 0, "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_component_is_compiled_at_a_time() {
    let memory_mib = 17_000 + std::process::id() % 1_000;
    let limits = CompileLimits { memory_mib, cpu_seconds: 1, wall: Duration::from_secs(120) };
    let rig = AdapterRig::compiling_within(limits).await;
    let bomb = forged::nested_loops();
    let mut most = 0;
    let watch = async {
        for _ in 0..u32::MAX {
            most = most.max(compilers(memory_mib));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        (one, other) = async { tokio::join!(rig.load_bytes(&bomb), rig.load_bytes(&bomb)) } => {
            assert!(matches!(one, Err(LoadError::CompileCpu(1))), "{one:?}");
            assert!(matches!(other, Err(LoadError::CompileCpu(1))), "{other:?}");
        }
        () = watch => unreachable!("it watches for ever"),
    }
    assert_eq!(most, 1);
}
