//! The storm of every push. Longer ones: `cargo run -p railhost-tests --bin storm -- --help`.

use std::env;

use harness::evidence;
use harness::storm::{Size, round};

/// Three hosts, on PostgreSQL 18.
const SEED: u64 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_faults_loses_doubles_and_misjudges_nothing() {
    let seed = env::var("RAILHOST_STORM_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    println!("seed {seed}: RAILHOST_STORM_SEED={seed} repeats it");
    let report = round(seed, Size::PUSH, |_, _, _| {}).await;
    println!("{}", serde_json::to_string_pretty(&report).expect("JSON"));
    evidence::keep("storm", &report);
    report.audit.assert_clean(seed);
    assert_eq!(report.leaked, Vec::<String>::new(), "secrets show");
    assert_eq!(report.judged_otherwise, Vec::<String>::new(), "an exchange is judged in two ways");
    assert!(report.judged_again >= 10_000, "{} exchanges were judged again", report.judged_again);
    assert!(report.faults_total() >= 500, "{} faults", report.faults_total());
    assert!(report.payments >= 5_000, "{} payments", report.payments);
    assert_eq!(report.missed(), Vec::<String>::new(), "these did not happen once");
}
