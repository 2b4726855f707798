//! Asks for the mark that says a payment is about to leave.

use outbox::lease::Held;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct Wish {
    pub held: Held,
    pub answer: oneshot::Sender<bool>,
}

#[derive(Debug)]
pub(crate) struct Marker(UnboundedSender<Wish>);

impl Marker {
    /// And what the statement is made of.
    pub(crate) fn new() -> (Self, UnboundedReceiver<Wish>) {
        let (wish, wishes) = unbounded_channel();
        (Self(wish), wishes)
    }

    /// True when the mark is on disk. Otherwise nothing may be sent.
    pub(crate) async fn mark(&self, held: Held) -> bool {
        let (answer, answered) = oneshot::channel();
        self.0.send(Wish { held, answer }).is_ok() && answered.await.unwrap_or(false)
    }
}
