//! A rail that only a person may start again.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::host::Host;
use crate::persist::{Refused, persist};

/// Has a rail paused, here at once and everywhere as soon as it is written.
pub(crate) fn stop_rail(host: &Arc<Host>, rail: &str, why: &str) {
    tracing::error!(rail, "{rail}: stopped until a person resumes it: {why}");
    host.metrics.calls.stopped(rail);
    // Here at once, for what is leased and waits for its turn, until the database speaks for it.
    if let Some(lane) = host.lanes.get(rail) {
        lane.breaker.stop();
    }
    let (teller, rail, why) = (host.clone(), rail.to_owned(), why.to_owned());
    let told = tokio::spawn(async move {
        let stop =
            persist(&teller, "a stopped rail", Refused::Final, || teller.writer.stop_rail(&rail, &why));
        match stop.await {
            Ok(_) => drop(teller.told_of_stop().insert(rail, Instant::now())),
            Err(error) => {
                tracing::error!(rail, %error, "{rail}: the database was not told that it is stopped: {error}");
            }
        }
    });
    host.stops.lock().unwrap_or_else(PoisonError::into_inner).push(told);
}
