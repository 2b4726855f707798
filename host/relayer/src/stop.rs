//! A rail that only a person may start again.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::host::Host;
use crate::persist::{WriteRefusal, persist};

/// Pauses a rail: here at once, and everywhere as soon as that is written.
pub(crate) fn stop_rail(host: &Arc<Host>, rail: &str, why: &str) {
    tracing::error!(rail, "{rail}: stopped until a person resumes it: {why}");
    host.metrics.calls.stopped(rail);
    // Here at once, for payments that are leased and wait for their turn. Later the database says it.
    if let Some(lane) = host.lanes.get(rail) {
        lane.breaker.stop();
    }
    let (teller, rail, why) = (host.clone(), rail.to_owned(), why.to_owned());
    let told = tokio::spawn(async move {
        let stop =
            persist(&teller, "a stopped rail", WriteRefusal::Final, || teller.writer.stop_rail(&rail, &why));
        match stop.await {
            Ok(_) => drop(teller.pause_told_at().insert(rail, Instant::now())),
            Err(error) => {
                tracing::error!(rail, %error, "{rail}: the database was not told that it is stopped: {error}");
            }
        }
    });
    host.pause_writes.lock().unwrap_or_else(PoisonError::into_inner).push(told);
}
