//! Writes what must not be forgotten, for as long as it takes. A slot is free only when its outcome is durable. Until then the host
//! takes nothing new, whatever the reason.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::host::Host;
use faults::{self, Guard};
use outbox::Error;

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Between two log lines about the same write.
const LOGGED_EVERY: Duration = Duration::from_secs(60);
/// Between two tries to begin.
const BEGUN_AGAIN: Duration = Duration::from_millis(500);

/// While this lives, its write counts as one that the database does not take.
struct Unwritten<'h>(&'h Host);

impl<'h> Unwritten<'h> {
    fn new(host: &'h Host) -> Self {
        host.unwritten.fetch_add(1, Ordering::AcqRel);
        host.metrics.writes.writes_waiting.inc();
        Self(host)
    }
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        self.0.unwritten.fetch_sub(1, Ordering::AcqRel);
        self.0.metrics.writes.writes_waiting.dec();
        self.0.freed.notify_one();
    }
}

/// Whether the database's refusal of a write is final, so that another try is in vain. For outcomes it never is: what is wrong with
/// one row is that row's answer, and a person mends everything else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteRefusal {
    Final,
    Never,
}

/// Repeats a write until the database has taken it, or refuses it for good. `what` names it in the log.
///
/// Where the answer did not come, nobody knows whether the write took effect, or whether a standby has it. To repeat it is safe. A
/// commit of its own follows, which waits for whatever commits have to wait for.
pub(crate) async fn persist<T, F: Future<Output = Result<T, Error>>>(
    host: &Host,
    what: &str,
    refused: WriteRefusal,
    write: impl Fn() -> F,
) -> Result<T, Error> {
    let mut pause = PAUSE_FIRST;
    let mut waits: Option<(Unwritten<'_>, Instant)> = None;
    let mut gives_up = host.gives_up.subscribe();
    loop {
        let error = match write().await {
            Ok(written) if waits.is_none() => return Ok(written),
            Ok(written) => match host.writer.confirm().await {
                Ok(()) => {
                    tracing::info!("{what}: written after all");
                    return Ok(written);
                }
                Err(error) => error,
            },
            Err(error)
                if faults::is_left_out(Guard::OutcomeIsWritten)
                    || matches!(error, Error::Denied(_) | Error::Schema(_))
                        && faults::is_left_out(Guard::CallSlotWaitsForItsOutcome) =>
            {
                host.metrics.writes.writes_failed.inc();
                return Err(error);
            }
            Err(error) if refused == WriteRefusal::Final && !error.may_pass() => return Err(error),
            Err(error) => error,
        };
        host.metrics.writes.writes_failed.inc();
        match &mut waits {
            Some((_, logged)) if logged.elapsed() < LOGGED_EVERY => {}
            Some((_, logged)) => {
                *logged = Instant::now();
                tracing::error!(%error, "{what}: still not written: {error}");
            }
            // A single conflict is not logged.
            None => {
                if !matches!(error, Error::Conflict(_)) {
                    tracing::error!(%error, "{what}: cannot be written; no new payments are leased until it is: {error}");
                }
                waits = Some((Unwritten::new(host), Instant::now()));
            }
        }
        if *gives_up.borrow_and_update() {
            return Err(error);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = gives_up.changed() => {}
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What a host has to do before its first claim. If the server restarts at this moment, the host waits for it and does not end.
pub(crate) async fn retry_while_unreachable<T, F>(host: &Host, act: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match act().await {
            Err(error @ Error::Unreachable(_)) if !host.is_stopping() => {
                tracing::warn!(%error, "cannot begin yet, trying again: {error}");
                tokio::time::sleep(BEGUN_AGAIN).await;
            }
            done => return done,
        }
    }
}
