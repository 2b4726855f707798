//! Starts each leased payment in a task of its own.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use tracing::{Instrument, Span};

use crate::attempt::{self, ClaimTimes};
use crate::host::{Host, LeaseGuard, TrustedLease};
use crate::report::FinishedAttempt;
use outbox::lease::Lease;
use verdict::pace::COMPLETION_MARGIN;

/// The task ends when what came of the payment is on its way to the database.
pub(crate) fn start(
    host: &Arc<Host>,
    ended: &UnboundedSender<FinishedAttempt>,
    lease: Lease,
    claim: ClaimTimes,
) {
    let Some(lane) = host.lanes.get(&lease.rail_type) else {
        tracing::error!(payment = %lease.outbox_id, "{} was leased for a rail unasked", lease.outbox_id);
        return;
    };
    let slot = lane.slot();
    let length = (lease.lease_expires_at - lease.claimed_at).to_std().unwrap_or_default();
    let trusted_until = claim.sent + length.saturating_sub(COMPLETION_MARGIN);
    let guard = LeaseGuard::new(host, TrustedLease { lease: lease.lease_ref(), length, trusted_until });
    let (host, ended) = (host.clone(), ended.clone());
    let span = match host.options.spans {
        false => Span::none(),
        true => tracing::info_span!(
            "payment",
            payment = %lease.outbox_id,
            rail = lease.rail_type,
            attempt = lease.attempt_count + 1,
            state = tracing::field::Empty,
            error_code = tracing::field::Empty,
        ),
    };
    let work = async move {
        let lease_ref = lease.lease_ref();
        let end = attempt::run(&host, &lane, &lease, claim).await;
        let span = Span::current();
        ended
            .send(FinishedAttempt {
                rail: lease.rail_type,
                sent: claim.sent,
                lease: lease_ref,
                end,
                span,
                slot,
                guard,
            })
            .ok();
    };
    // Boxed: a task is moved several times before it runs and after it ends, and a call is some kilobytes.
    tokio::spawn(Box::pin(work).instrument(span));
}
