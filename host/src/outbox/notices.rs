//! Warnings that PostgreSQL sends along with an answer. The one that counts: a commit that was cancelled while it waited for a
//! standby is answered as done, with a warning. The driver gives them to the log alone, so that is where they are heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

const TARGET: &str = "sqlx::postgres::notice";

tokio::task_local! {
    /// Of the statement that this task waits for.
    static WARNED: Arc<AtomicBool>;
}

static UNCONFIRMED: AtomicU64 = AtomicU64::new(0);

/// Does the work and notes whether the server warned of something meanwhile.
pub(super) async fn heard_by<T>(warned: Arc<AtomicBool>, work: impl Future<Output = T>) -> T {
    WARNED.scope(warned, work).await
}

pub(super) fn count() {
    UNCONFIRMED.fetch_add(1, Ordering::Relaxed);
}

/// Commits of this process that a standby may not have.
pub fn unconfirmed_commits() -> u64 {
    UNCONFIRMED.load(Ordering::Relaxed)
}

/// Has to be part of the process's subscriber: without it no warning is heard.
#[derive(Debug, Clone, Copy)]
pub struct Notices;

impl Notices {
    /// A filter in front of this layer must let these through.
    pub fn hears(metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET && *metadata.level() <= Level::WARN
    }
}

impl<S: Subscriber> Layer<S> for Notices {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if Self::hears(event.metadata()) {
            // Statements of other tasks are nobody's here.
            WARNED.try_with(|warned| warned.store(true, Ordering::Release)).ok();
        }
    }
}
