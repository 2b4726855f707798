//! Notifications that something is due, and the next due time.

use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};

use super::{Database, Error};

const RECONNECT_PAUSE_FIRST: Duration = Duration::from_millis(100);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why the listener returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// Somebody enqueued while a host slept.
    Notified,
    /// The connection was lost and is back. Notifications may have been missed in between, so look at the queue.
    Reconnected,
}

/// Receives notifications on a connection of its own, apart from every pool: LISTEN belongs to a session, and a pooler in
/// transaction mode would lose it.
#[derive(Debug)]
pub struct NotificationListener {
    database: Database,
    listener: Option<PgListener>,
}

impl NotificationListener {
    /// Registers first: a look at the queue after this returns misses nothing that comes later.
    pub async fn listen(database: &Database) -> Result<Self, Error> {
        let mut listening = Self { database: database.clone(), listener: None };
        listening.listener = Some(listening.connect().await?);
        Ok(listening)
    }

    /// Waits for the next notification, reconnecting for as long as it takes. Safe to cancel.
    pub async fn wait(&mut self) -> Wakeup {
        let mut pause = RECONNECT_PAUSE_FIRST;
        loop {
            if let Some(listener) = &mut self.listener {
                match listener.try_recv().await {
                    Ok(Some(_)) => return Wakeup::Notified,
                    Ok(None) => tracing::info!("LISTEN connection closed, reconnecting"),
                    Err(error) => tracing::info!(%error, "LISTEN connection lost, reconnecting"),
                }
                self.listener = None;
            }
            match self.connect().await {
                Ok(listener) => {
                    self.listener = Some(listener);
                    return Wakeup::Reconnected;
                }
                Err(error) => {
                    tracing::debug!(%error, pause_ms = pause.as_millis(), "LISTEN connection cannot be opened yet");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RECONNECT_PAUSE_MAX);
                }
            }
        }
    }

    async fn connect(&self) -> Result<PgListener, Error> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(self.database.direct()?.application_name("railhost listener"));
        let mut listener = PgListener::connect_with(&pool).await?;
        // Reconnecting is ours: the library's own would hide that notifications may have been missed.
        listener.eager_reconnect(false);
        listener.listen(&self.database.schema().channel()).await?;
        Ok(listener)
    }
}
