//! What becomes of the rail files: shown in the metrics at once, and in the database as soon as it takes it.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use outbox::lease::{Executor, RailLoad};
use rail::{LoadEvent, LoadOutcome, Rails};
use relayer::Metrics;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const WRITTEN_AGAIN: Duration = Duration::from_secs(5);
/// A host that ends waits this long for its last rows.
const LAST_ROWS_WITHIN: Duration = Duration::from_secs(5);

/// Hears of every load and refusal, and has each written by a task of its own: a database that is away holds up no metric, and
/// what waits to be written outlives the host's other work.
#[derive(Debug)]
pub(super) struct LoadRecorder {
    told: UnboundedReceiver<LoadEvent>,
    rows: UnboundedSender<RailLoad>,
    writer: JoinHandle<()>,
}

impl LoadRecorder {
    pub(super) fn new(told: UnboundedReceiver<LoadEvent>, executor: Executor) -> Self {
        let (rows, waiting) = mpsc::unbounded_channel();
        Self { told, rows, writer: tokio::spawn(write(waiting, executor)) }
    }

    /// For as long as it is polled.
    pub(super) async fn hear(&mut self, rails: &Rails, metrics: &Metrics) -> Infallible {
        while let Some(event) = self.told.recv().await {
            show(rails, metrics);
            self.pass_on(event);
        }
        pending().await
    }

    /// Waits until all that was told is written, but not for ever.
    pub(super) async fn finish(mut self) {
        while let Ok(event) = self.told.try_recv() {
            self.pass_on(event);
        }
        let Self { rows, mut writer, .. } = self;
        // The writer ends after the last row, now that no further one can come.
        drop(rows);
        if timeout(LAST_ROWS_WITHIN, &mut writer).await.is_err() {
            writer.abort();
            tracing::warn!(
                "the last loads of rails are not recorded: the database did not take them in time"
            );
        }
    }

    fn pass_on(&self, event: LoadEvent) {
        // The writer ends after us.
        self.rows.send(row(event)).ok();
    }
}

/// Of all rails: what was told of one may be old by now, what they have is not.
fn show(rails: &Rails, metrics: &Metrics) {
    for rail in rails.all() {
        metrics.rails.certificates(&rail.name, rail.current().certificates());
        metrics.rails.revoked(&rail.name, rail.is_revoked());
    }
}

fn row(event: LoadEvent) -> RailLoad {
    RailLoad {
        rail_type: event.rail,
        outcome: match event.outcome {
            LoadOutcome::Loaded => "LOADED",
            LoadOutcome::Refused => "REFUSED",
            LoadOutcome::Revoked => "REVOKED",
        },
        component: event.component.map(|digest| *digest.as_bytes()),
        file: *event.file.as_bytes(),
        detail: event.detail,
    }
}

/// However long it takes, until nobody can tell of any more. A row that the database refuses for what it says is left out: it
/// would stand before all that come after it, for ever.
async fn write(mut waiting: UnboundedReceiver<RailLoad>, executor: Executor) {
    while let Some(load) = waiting.recv().await {
        let rail = &load.rail_type;
        while let Err(error) = executor.note_rail_load(&load).await {
            if !error.may_pass() {
                tracing::error!(rail, %error, "a load of {rail:?} cannot be recorded: {error}");
                break;
            }
            tracing::warn!(rail, %error, "a load of {rail:?} is not recorded yet: {error}");
            sleep(WRITTEN_AGAIN).await;
        }
    }
}
