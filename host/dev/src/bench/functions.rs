//! The outbox alone: the shipped functions claim and complete in the same batches as a host, and nothing is called in between.

use std::time::Instant;

use anyhow::ensure;
use outbox::Error;
use outbox::complete::Completion;
use outbox::lease::{ClaimLimit, Executor, Lease};
use tokio::sync::mpsc::{self, Sender};
use verdict::outcome::{CompletionState, MoneyMoved, Outcome, Provenance};

use super::bed::Db;
use super::meter::{Meter, Phase};
use super::names::MOCK;
use super::process;

const ROWS_PER_BATCH: usize = 500;
/// Long enough that no lease runs out in a measurement.
const LEASE_SECONDS: f64 = 180.0;
const TAKEOVERS_MAX: i32 = 100;

pub(super) const SETTINGS: &str = "one connection claims while another completes, batches of 500";
pub(super) const LACKS: [&str; 1] = ["any call"];

/// Claims and completes the first so many payments.
pub(super) async fn empty(db: &Db, meter: &mut Meter<'_>, payments: usize) -> anyhow::Result<Phase> {
    let executor = |connections| Executor::new(&db.database(), "functions", connections);
    let (claimer, writer) = (executor(1), executor(1));
    let (claimed, mut claims) = mpsc::channel(2);
    let (mark, cpu_us) = (meter.mark().await?, process::own_cpu_us());
    let began = Instant::now();
    let claiming = tokio::spawn(claim(claimer, payments, claimed));
    let mut completed = 0;
    while let Some(leases) = claims.recv().await {
        let completions: Vec<_> = leases.iter().map(completion).collect();
        for answer in writer.complete_batch(&completions).await? {
            answer?;
            completed += 1;
        }
    }
    let ended = Instant::now();
    claiming.await??;
    ensure!(completed == payments, "{completed} of {payments} were completed");
    meter.phase(mark, (began, ended), payments, process::own_cpu_us() - cpu_us).await
}

async fn claim(executor: Executor, payments: usize, claimed: Sender<Vec<Lease>>) -> Result<(), Error> {
    let (mut left, mut after) = (payments, None);
    while left > 0 {
        let rows_max = left.min(ROWS_PER_BATCH) as i32;
        let limits = [ClaimLimit {
            rail_type: MOCK.to_owned(),
            rows_max,
            lease_seconds: LEASE_SECONDS,
            after,
            only: None,
        }];
        let leases = executor.claim(rows_max, &limits, TAKEOVERS_MAX).await?;
        let Some(last) = leases.iter().map(|lease| lease.next_attempt_at).max() else { break };
        (left, after) = (left.saturating_sub(leases.len()), Some(last));
        if claimed.send(leases).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// What a host writes of the mock's answer.
fn completion(lease: &Lease) -> Completion {
    Completion {
        lease: lease.lease_ref(),
        outcome: Outcome {
            money_moved: Some(MoneyMoved::Yes),
            rail_reference: Some("mock-0123456789abcdef".to_owned()),
            latency_ms: Some(1),
            proof: Provenance { adapter_digest: Some([7; 32]), ..Provenance::default() },
            ..Outcome::new(CompletionState::Dispatched)
        },
    }
}
