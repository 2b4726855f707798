//! Writes what must not be forgotten, for as long as it takes. A place is free only when what came of it is durable; until then
//! the host takes nothing new, whatever the reason.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::host::Host;
use faults::{self, Guard};
use outbox::Error;

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Between two log lines about the same write.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Between two tries to begin.
const BEGUN_AGAIN: Duration = Duration::from_millis(500);

/// Counts among what cannot be written while it lives.
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

/// Whether a refusal is of what was said, and saying it again is in vain. An outcome is never given up like that: what is wrong
/// with one row is that row's answer, and everything else is for somebody to mend.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Final,
    Never,
}

/// Repeats a write until the database has taken it, or refuses what it says. `what` is told where it has to wait.
///
/// After an answer that did not come nobody knows whether the write took effect, or whether a standby has it. Saying it again is
/// safe, and what follows is a commit of its own that waits for whatever commits have to wait for.
pub(crate) async fn persist<T, F: Future<Output = Result<T, Error>>>(
    host: &Host,
    what: &str,
    refused: Refused,
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
                        && faults::is_left_out(Guard::PlaceWaitsForItsOutcome) =>
            {
                host.metrics.writes.writes_failed.inc();
                return Err(error);
            }
            Err(error) if refused == Refused::Final && !error.may_pass() => return Err(error),
            Err(error) => error,
        };
        host.metrics.writes.writes_failed.inc();
        match &mut waits {
            Some((_, told)) if told.elapsed() < TOLD_EVERY => {}
            Some((_, told)) => {
                *told = Instant::now();
                tracing::error!(%error, "{what}: still not written: {error}");
            }
            // One conflict is nothing to tell of.
            None => {
                if !matches!(error, Error::Conflict(_)) {
                    tracing::error!(%error, "{what}: cannot be written, nothing new is taken until it is: {error}");
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

/// What a host has to do before its first claim. A server that is restarted in this moment ends no host: it is waited for.
pub(crate) async fn patiently<T, F>(host: &Host, act: impl Fn() -> F) -> Result<T, Error>
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
