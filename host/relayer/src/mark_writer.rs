//! Commits the marks that say a payment is about to leave, many in one statement. For rails that do not deduplicate they must be on
//! disk before the first byte is sent.

use std::sync::Weak;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::host::Host;
use crate::mark_requests::MarkRequest;
use crate::persist::{WriteRefusal, persist};
use faults::{self, CrashPoint, crash_point};

/// In one statement.
const BATCH_MAX: usize = 500;

/// Marks for as long as the host lives. While one batch is on its way the next one gathers.
pub(crate) async fn run(host: Weak<Host>, mut requests: UnboundedReceiver<MarkRequest>) {
    let mut batch = Vec::new();
    while requests.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let Some(host) = host.upgrade() else { return };
        let leases: Vec<_> = batch.iter().map(|request| request.lease).collect();
        // Repeated until it is known whether the marks are there: a mark on a payment that was never sent would need a person.
        let mark = persist(&host, "marks", WriteRefusal::Final, || host.writer.mark_handed_over(&leases));
        let marked = faults::sending(CrashPoint::MarkSent, mark).await.unwrap_or_else(|error| {
            tracing::error!(%error, "{} payments are not sent, their marks were refused: {error}", leases.len());
            Vec::new()
        });
        crash_point(CrashPoint::MarkCommitted);
        for request in batch.drain(..) {
            // The task that asked may be gone. Then the mark goes with the lease.
            request.answer.send(marked.contains(&request.lease.outbox_id)).ok();
        }
    }
}
