//! Asks for the mark that says a payment is about to leave.

use outbox::lease::LeaseRef;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct MarkRequest {
    pub lease: LeaseRef,
    pub answer: oneshot::Sender<bool>,
}

#[derive(Debug)]
pub(crate) struct Marker(UnboundedSender<MarkRequest>);

impl Marker {
    /// And the wishes, of which the statement is made.
    pub(crate) fn new() -> (Self, UnboundedReceiver<MarkRequest>) {
        let (wish, wishes) = unbounded_channel();
        (Self(wish), wishes)
    }

    /// True once the mark is on disk. Otherwise nothing may be sent.
    pub(crate) async fn mark(&self, lease: LeaseRef) -> bool {
        let (answer, answered) = oneshot::channel();
        self.0.send(MarkRequest { lease, answer }).is_ok() && answered.await.unwrap_or(false)
    }
}
