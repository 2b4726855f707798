//! The real binary dies at every place where that could cost a payment, at its first, second and tenth hit; then another one
//! goes on, and the rails' ledgers are compared with the books.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use faults::{CRASH_AT, CrashPoint};
use futures_util::{StreamExt, stream};
use harness::PATIENCE;
use harness::evidence::Proof;
use harness::world::{Plan, Wanted, World};
use rail_simulators::Name;
use rustix::process::Signal;
use serde_json::json;
use toml::Table;

const HITS: [u32; 3] = [1, 2, 10];
/// Worlds at a time: most of them wait for a clock or a process.
const AT_A_TIME: usize = 4;
/// Longer than a lease, also than that of the stage with slow answers.
const LEASE_SECONDS: i64 = 30;
/// After which a host that was not struck down never will be. A place that is passed every five seconds is passed ten times in a
/// minute; the rest is for machines with other work.
const STRUCK_WITHIN: Duration = Duration::from_secs(300);
/// Payments without a verdict, beyond which no more come to a rail that holds them back.
const OPEN_MAX: i64 = 40;

/// What makes a host come to a place, ten times.
enum Stage {
    /// Payments come a few at a time.
    Waves,
    /// Replies come late, and leases have run out by then.
    Late,
    /// The rail holds back what was leased: the breaker opens again and again.
    Held,
    /// Nothing but time: it comes by every five seconds.
    Patience,
    /// The rail calls back.
    CalledBack,
    Swapped,
    Drained,
}

fn stage(point: CrashPoint) -> Stage {
    match point {
        CrashPoint::LateAnswerSent => Stage::Late,
        CrashPoint::ReleaseSent => Stage::Held,
        CrashPoint::ExtensionSent | CrashPoint::RepairSent => Stage::Patience,
        CrashPoint::HintSent => Stage::CalledBack,
        CrashPoint::Swapping => Stage::Swapped,
        CrashPoint::Draining => Stage::Drained,
        _ => Stage::Waves,
    }
}

fn script(stage: &Stage) -> String {
    match stage {
        Stage::Waves | Stage::Swapped => {
            "amount *.1*: pay close-after\namount *.2*: then pending, after 200ms settled".to_owned()
        }
        // Late enough for the clock to move first.
        Stage::Late => "otherwise: pay slow 1200".to_owned(),
        Stage::Patience => "otherwise: pay slow 500".to_owned(),
        Stage::Held => "amount *.1*: pay refuse 500 NOT_ALLOWED, accept\notherwise: pay slow 20".to_owned(),
        Stage::CalledBack => "otherwise: then pending, after 100ms settled; call 120ms, 50ms".to_owned(),
        // So many answers, so far apart, that ten are written one by one on a slow machine too. The first payment opens the rail.
        Stage::Drained => {
            (1..ANSWERS).map(|n| format!("amount *.{n:02}: pay slow {}\n", 3000 + 150 * n)).collect()
        }
    }
}

/// Moments at which a draining host hears from the rail, each with a payment of its own.
const ANSWERS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fi_03_dying_at_any_step_neither_loses_nor_repeats() {
    let proof = Proof::of("FI-03", "host killed at every step");
    // What takes longest begins first.
    let mut points = CrashPoint::ALL.to_vec();
    points.sort_by_key(|point| !matches!(stage(*point), Stage::Patience));
    let deaths = HITS.into_iter().rev().flat_map(|hit| points.iter().map(move |point| (*point, hit)));
    let died = stream::iter(deaths)
        .map(|(point, hit)| dies_at(point, hit))
        .buffer_unordered(AT_A_TIME)
        .count()
        .await;
    println!("{died} deaths at {} places, nothing lost, doubled or disagreed", CrashPoint::ALL.len());
    proof.holds(json!({ "places": CrashPoint::ALL.len(), "deaths": died }));
}

async fn dies_at(point: CrashPoint, hit: u32) {
    let stage = stage(point);
    let marks = matches!(point, CrashPoint::MarkSent | CrashPoint::MarkCommitted);
    let wanted = Wanted { forgetful: marks, ..Wanted::new(Name::Mtn, &script(&stage)) };
    let change = match stage {
        // They wait for their turn while the breaker opens.
        Stage::Held => |file: &mut Table| merge(file, "rate = { per_second = 100, burst = 1 }"),
        // The last answer is waited for.
        Stage::Drained => |file: &mut Table| {
            merge(
                file,
                "timeouts = { call_ms = 15000, first_byte_ms = 14000, idle_ms = 14000, connect_ms = 5000 }",
            );
            merge(file["pace"].as_table_mut().expect("a section"), "lease_seconds = 25");
        },
        _ => |_: &mut Table| {},
    };
    let mut world = World::build(Plan { change, ..Plan::new(u64::from(hit), vec![wanted]) }).await;
    world.hosts[0].start(&[(CRASH_AT, &format!("{point:?}:{hit}"))]);
    let died = play(&mut world, &stage).await;
    assert_eq!(
        died.and_then(|status| status.signal()),
        Some(Signal::ABORT.as_raw()),
        "{point:?} was not hit {hit} times; the host ended with {died:?} (none: it still runs), and said\n{}",
        world.hosts[0].last_words()
    );

    world.move_clock(LEASE_SECONDS).await;
    world.heal().await;
    let open = world.converge(PATIENCE).await;
    assert_eq!(open, 0, "{point:?}:{hit}: payments are stuck");
    assert!(world.drain().await, "{point:?}:{hit}: the second host did not drain");
    let audit = world.audit().await;
    assert!(audit.is_clean(), "{point:?}:{hit}: {audit:#?}");
}

fn merge(file: &mut Table, text: &str) {
    file.extend(text.parse::<Table>().expect("TOML"));
}

/// How the host ended.
async fn play(world: &mut World, stage: &Stage) -> Option<ExitStatus> {
    let amounts = |from: usize, count: usize| -> Vec<String> {
        (from..from + count).map(|n| format!("{}.{}0", n + 1, n % 5)).collect()
    };
    world.hosts[0].serves().await;
    let (mut wave, began) = (0, Instant::now());
    match stage {
        Stage::Waves | Stage::CalledBack => {
            while goes_on(world, &mut wave, began) {
                world.owe(0, &amounts(wave * 3, 3)).await;
                tokio::time::sleep(Duration::from_millis(60)).await;
            }
        }
        Stage::Late => {
            while goes_on(world, &mut wave, began) {
                world.owe(0, &amounts(wave * 30, 30)).await;
                let leased = "payment_outbox_pending where claimed_by is not null";
                // It may die any moment, and leases nothing then.
                while world.hosts[0].is_up()
                    && began.elapsed() < STRUCK_WITHIN
                    && world.count(leased).await < 20
                {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                world.move_clock(LEASE_SECONDS).await;
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        }
        Stage::Held => {
            while goes_on(world, &mut wave, began) {
                // The breaker opens again for each that is held: who comes after the dead has to work them off in time.
                if world.count("payment_outbox_pending").await < OPEN_MAX {
                    world.owe(0, &amounts(wave * 20, 20)).await;
                }
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
        }
        Stage::Patience => {
            while goes_on(world, &mut wave, began) {
                world.owe(0, &amounts(wave * 2, 2)).await;
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
        Stage::Swapped => {
            world.owe(0, &amounts(0, 30)).await;
            while goes_on(world, &mut wave, began) {
                world.touch_rail(0);
                world.hosts[0].send(Signal::HUP);
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
        }
        Stage::Drained => {
            let amounts: Vec<_> = (0..ANSWERS).map(|n| format!("{}.{n:02}", n + 1)).collect();
            world.owe(0, &amounts).await;
            world.until("payment_outbox_pending where claimed_by is not null", |rows| rows >= 30).await;
            world.hosts[0].send(Signal::TERM);
        }
    }
    world.hosts[0].ended().await
}

/// Until the host is dead, or could have been a long time ago.
fn goes_on(world: &mut World, wave: &mut usize, began: Instant) -> bool {
    *wave += 1;
    began.elapsed() < STRUCK_WITHIN && world.hosts[0].is_up()
}
