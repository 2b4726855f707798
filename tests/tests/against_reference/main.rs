//! Random sequences of all functions, from several sessions, against the reference model.
//!
//! `operation` says what may happen, `drive` runs it on both sides (by way of `payments`, `leases` and `acts`, over the
//! logins of `session`), `claim` judges where the database may choose, `tables` compares everything after every step. A
//! failure prints the shortest sequence that still fails. `RAILHOST_PROPERTY_CASES` raises the number of sequences,
//! `RAILHOST_PROPERTY_SEED` repeats the ones of a failed run; lease tokens stay random, so that a choice among leases that
//! ran out at the same moment may differ.

mod acts;
mod claim;
mod drive;
mod leases;
mod operation;
mod payments;
mod session;
mod tables;

use harness::on_each_postgres;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Handle;
use uuid::Uuid;

const CASES: u32 = 60;
/// Lengths are spread evenly, so that the usual one is half of this.
const OPERATIONS_MAX: usize = 80;

on_each_postgres! {
    async fn whatever_happens_the_tables_are_what_the_reference_says(db: Db) {
        let mut sessions = session::Sessions::open(&db).await;
        tables::all_are_known(&mut sessions.superuser).await;
        tokio::task::block_in_place(|| random_sequences(&mut sessions));
    }
}

fn random_sequences(sessions: &mut session::Sessions) {
    let cases =
        std::env::var("RAILHOST_PROPERTY_CASES").map_or(CASES, |n| n.parse().expect("a number of cases"));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    // 32 characters, and the 32 bytes that the generator wants.
    let seed =
        std::env::var("RAILHOST_PROPERTY_SEED").unwrap_or_else(|_| Uuid::new_v4().simple().to_string());
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, seed.as_bytes()));
    let sessions = std::cell::RefCell::new(sessions);
    let result = runner.run(&operation::sequence(OPERATIONS_MAX), |sequence| {
        Handle::current()
            .block_on(drive::run(&mut sessions.borrow_mut(), &sequence))
            .map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, sequence)) => {
            let steps: String =
                sequence.iter().enumerate().map(|(n, step)| format!("  {n} {step:?}\n")).collect();
            panic!("{reason}\n\nseed {seed}, the shortest sequence that fails so:\n{steps}");
        }
        Err(TestError::Abort(reason)) => panic!("given up: {reason}"),
    }
}
