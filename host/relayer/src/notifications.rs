//! The database's notifications that a payment is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use outbox::wake::NotificationListener;
use outbox::{Database, Error};

/// Notifications within this time are one. The first is passed on at once.
const DEBOUNCE: Duration = Duration::from_millis(5);

/// A task of its own receives them: those that come while the host is busy are one, and the claimer does not pay for each.
pub(crate) struct Notifications {
    came: Arc<Notify>,
    /// Since they were counted last.
    count: Arc<AtomicU32>,
    passed_on_at: Option<Instant>,
    /// Ends with this.
    _receiver: JoinSet<()>,
}

impl Notifications {
    /// What is enqueued after this returns is heard of.
    pub(crate) async fn listen(database: &Database) -> Result<Self, Error> {
        let (listener, came, count) =
            (NotificationListener::listen(database).await?, Arc::default(), Arc::default());
        let mut receiver = JoinSet::new();
        receiver.spawn(receive(listener, Arc::clone(&came), Arc::clone(&count)));
        Ok(Self { came, count, passed_on_at: None, _receiver: receiver })
    }

    /// How many came since this was asked last.
    pub(crate) fn take_count(&self) -> u32 {
        self.count.swap(0, Ordering::Relaxed)
    }

    /// Waits for the next one. The first is passed on at once, those close behind it are one.
    pub(crate) async fn next(&mut self) {
        if let Some(since) = self.passed_on_at.map(|at| at.elapsed()).filter(|since| *since < DEBOUNCE) {
            tokio::time::sleep(DEBOUNCE - since).await;
        }
        self.came.notified().await;
        self.passed_on_at = Some(Instant::now());
    }
}

async fn receive(mut listener: NotificationListener, came: Arc<Notify>, count: Arc<AtomicU32>) {
    loop {
        listener.wait().await;
        count.fetch_add(1, Ordering::Relaxed);
        came.notify_one();
    }
}
