//! What is left to pay from on a rail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::host::Host;
use crate::lane::Lane;

/// How often it checks whether a question is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Asks a rail as often as its file says, for as long as this is polled. A rail that does not answer changes nothing and delays no
/// other rail.
pub(crate) async fn watch(host: Arc<Host>, lane: Arc<Lane>) {
    let mut due: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        let (rail, loaded) = (&lane.rail.name, lane.rail.current());
        for (currency, float) in &loaded.form.float {
            let now = Instant::now();
            let next = due.entry(currency.clone()).or_insert(now);
            if *next > now {
                continue;
            }
            *next = now + Duration::from_secs(float.every_seconds.into());
            match loaded.balance(&host.sandbox, currency).await {
                Ok(left) => float_is(&host, &lane, currency, left, float.floor_minor(currency)),
                Err(error) => {
                    host.metrics.rails.float_unknown(rail);
                    tracing::warn!(rail, currency, %error, "{rail}: the float in {currency} is unknown: {error}");
                }
            }
        }
        if lane.set_float_asked() {
            host.freed.notify_one();
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn float_is(host: &Host, lane: &Lane, currency: &str, left: i128, floor: Option<i128>) {
    let rail = &lane.rail.name;
    let is_low = floor.is_some_and(|floor| left < floor);
    host.metrics.rails.float(rail, currency, left, is_low);
    if !lane.set_float_low(currency, is_low) {
        return;
    }
    match is_low {
        true => tracing::error!(
            rail,
            currency,
            "{rail}: what is left in {currency} is below its floor: nothing is paid in it"
        ),
        false => {
            tracing::info!(rail, currency, "{rail}: there is enough {currency} again");
            // As after a hold: with one payment.
            lane.breaker.begin_with_one();
            host.freed.notify_one();
        }
    }
}
