//! Warnings that PostgreSQL sends along with an answer. The one that counts: a commit that was cancelled while it waited for a
//! standby is answered as done, with a warning. The driver gives them to the log alone, so that is where they are heard.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

const TARGET: &str = "sqlx::postgres::notice";

/// What that warning says, where the server speaks English. In another language it is known only by what led to it.
const OF_A_STANDBY: &str = "synchronous replication";

tokio::task_local! {
    /// Of the statement that this task waits for.
    static HEARD: Warnings;
}

/// What the server warned of during one statement. Most warnings mean nothing here: that a database should be vacuumed soon, say.
#[derive(Debug, Clone, Default)]
pub(super) struct Warnings(Arc<(AtomicBool, AtomicBool)>);

impl Warnings {
    pub(super) fn any(&self) -> bool {
        self.0.0.load(Ordering::Acquire)
    }

    /// It said that a commit did not wait for its standby.
    pub(super) fn of_a_standby(&self) -> bool {
        self.0.1.load(Ordering::Acquire)
    }

    fn hear(&self, message: &str) {
        self.0.0.store(true, Ordering::Release);
        if message.contains(OF_A_STANDBY) {
            self.0.1.store(true, Ordering::Release);
        }
    }
}

static UNCONFIRMED: AtomicU64 = AtomicU64::new(0);

/// Does the work and notes whether the server warned of something meanwhile.
pub(super) async fn heard_by<T>(warnings: Warnings, work: impl Future<Output = T>) -> T {
    HEARD.scope(warnings, work).await
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
            let mut message = Message::default();
            event.record(&mut message);
            // Statements of other tasks are nobody's here.
            HEARD.try_with(|warnings| warnings.hear(&message.0)).ok();
        }
    }
}

/// The text of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    use super::*;

    #[test]
    fn only_the_warning_about_a_standby_is_one_about_a_standby() {
        let heard = |text: &'static str| {
            let warnings = Warnings::default();
            HEARD.sync_scope(warnings.clone(), || {
                tracing::subscriber::with_default(registry().with(Notices), || {
                    tracing::warn!(target: TARGET, message = text);
                });
            });
            (warnings.any(), warnings.of_a_standby())
        };
        assert_eq!(heard("canceling wait for synchronous replication due to user request"), (true, true));
        assert_eq!(
            heard("database \"template1\" must be vacuumed within 39000000 transactions"),
            (true, false)
        );
    }
}
