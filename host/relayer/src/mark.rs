//! Commits the marks that say a payment is about to leave, many in one statement: rails that do not deduplicate need them
//! on disk before the first byte.

use std::sync::Weak;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::host::Host;
use crate::marker::Wish;
use crate::persist::{Refused, persist};
use faults::{self, CrashPoint, crash_point};

/// In one statement.
const BATCH_MAX: usize = 500;

/// Marks for as long as the host lives. While one batch is on its way the next one gathers.
pub(crate) async fn run(host: Weak<Host>, mut wishes: UnboundedReceiver<Wish>) {
    let mut batch = Vec::new();
    while wishes.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let Some(host) = host.upgrade() else { return };
        let held: Vec<_> = batch.iter().map(|wish| wish.held).collect();
        // Until it is known whether they are there: a mark without a sending would be a case for a person.
        let mark = persist(&host, "marks", Refused::Final, || host.writer.mark_handed_over(&held));
        let marked = faults::sending(CrashPoint::MarkSent, mark).await.unwrap_or_else(|error| {
            tracing::error!(%error, "{} payments are not sent, their marks were refused: {error}", held.len());
            Vec::new()
        });
        crash_point(CrashPoint::MarkCommitted);
        for wish in batch.drain(..) {
            // Who asked may be gone; the mark then goes with the lease.
            wish.answer.send(marked.contains(&wish.held.outbox_id)).ok();
        }
    }
}
