//! Writes down how attempts ended, many at a time. A place is free when its outcome is durable, not before.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Host;
use super::attempt::End;
use super::lane::Lane;
use crate::outbox::Error;
use crate::outbox::complete::Completion;
use crate::outbox::lease::Held;

/// In one statement.
const BATCH_MAX: usize = 500;
const FAILED_PAUSE_FIRST: Duration = Duration::from_millis(50);
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(5);

pub(super) struct Ended {
    pub lane: Arc<Lane>,
    pub held: Held,
    pub end: End,
    pub place: OwnedSemaphorePermit,
}

/// Runs until the last attempt has ended and is written. While one batch is on its way the next one gathers.
pub(super) async fn run(host: Arc<Host>, mut endings: UnboundedReceiver<Ended>) {
    let mut batch = Vec::new();
    while endings.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let (mut completions, mut unused, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for Ended { lane, held, end, place } in batch.drain(..) {
            match end {
                End::Outcome(outcome) => completions.push(Completion { held, outcome: *outcome }),
                End::Unused => unused.push(held),
            }
            places.push((lane, place));
        }
        complete(&host, &completions).await;
        release(&host, &unused).await;
        let mut flights = host.flights();
        for held in completions.iter().map(|completion| completion.held).chain(unused) {
            flights.remove(&held.outbox_id);
        }
        drop(flights);
        drop(places);
        host.freed.notify_one();
    }
}

/// The one write that is repeated for as long as the process lives: a token that has completed is recognised.
async fn complete(host: &Host, completions: &[Completion]) {
    let mut pause = FAILED_PAUSE_FIRST;
    let answers = loop {
        match host.executor.complete_batch(completions).await {
            Ok(answers) => break answers,
            Err(error) => {
                tracing::warn!(%error, waiting = completions.len(), "outcomes cannot be written, trying again: {error}");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(FAILED_PAUSE_MAX);
            }
        }
    };
    for (completion, answer) in completions.iter().zip(answers) {
        let payment = completion.held.outbox_id;
        match answer {
            Ok(_) => {}
            Err(Error::LeaseLost(_)) => {
                tracing::info!(%payment, "{payment}: the lease was lost, its answer is kept as late");
                if let Err(error) = host.executor.record_late_answer(completion).await {
                    tracing::error!(%payment, %error, "{payment}: a late answer was not kept: {error}");
                }
            }
            Err(error) => tracing::error!(%payment, %error, "{payment}: its outcome was refused: {error}"),
        }
    }
}

/// Rows that did not reach a rail go back at once. Where that fails they come back when their lease ends.
async fn release(host: &Host, unused: &[Held]) {
    if unused.is_empty() {
        return;
    }
    if let Err(error) = host.executor.release(unused).await {
        tracing::info!(%error, "{} unused leases are left to expire: {error}", unused.len());
    }
}
