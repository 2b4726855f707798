//! Commits the marks that say a payment is about to leave, many in one statement: rails that do not deduplicate need them
//! on disk before the first byte.

use std::sync::Weak;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::Host;
use super::persist::{Refused, persist};
use crate::faults::{self, CrashPoint, crash_point};
use crate::outbox::lease::Held;

/// In one statement.
const BATCH_MAX: usize = 500;

#[derive(Debug)]
pub(super) struct Wish {
    held: Held,
    answer: oneshot::Sender<bool>,
}

#[derive(Debug)]
pub(super) struct Marker(UnboundedSender<Wish>);

impl Marker {
    /// And what [`run`] takes up.
    pub(super) fn new() -> (Self, UnboundedReceiver<Wish>) {
        let (wish, wishes) = unbounded_channel();
        (Self(wish), wishes)
    }

    /// True when the mark is on disk. Otherwise nothing may be sent.
    pub(super) async fn mark(&self, held: Held) -> bool {
        let (answer, answered) = oneshot::channel();
        self.0.send(Wish { held, answer }).is_ok() && answered.await.unwrap_or(false)
    }
}

/// Marks for as long as the host lives. While one batch is on its way the next one gathers.
pub(super) async fn run(host: Weak<Host>, mut wishes: UnboundedReceiver<Wish>) {
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
