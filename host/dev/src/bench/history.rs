use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::bed::Db;

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// When a payment's last attempt was claimed and when its verdict was written, by the database's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub claimed_at: DateTime<Utc>,
    pub completed_at: DateTime<Utc>,
}

/// Waits until each of these payments has its verdict.
pub(super) async fn times(db: &Db, payments: &[Uuid]) -> anyhow::Result<HashMap<Uuid, Times>> {
    let mut connection = db.connect().await?;
    loop {
        let rows: Vec<(Uuid, DateTime<Utc>, DateTime<Utc>)> = sqlx::query_as(
            "select outbox_id, claimed_at, completed_at
               from symphony.payment_outbox_attempts
              where outbox_id = any ($1) and state in ('DISPATCHED', 'FAILED')",
        )
        .bind(payments)
        .fetch_all(&mut connection)
        .await?;
        if rows.len() >= payments.len() {
            let times = |(id, claimed_at, completed_at)| (id, Times { claimed_at, completed_at });
            return Ok(rows.into_iter().map(times).collect());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// From one moment to a later one. Clocks of two processes may differ by less than what is measured: never negative.
pub(super) fn milliseconds(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    (to - from).to_std().unwrap_or_default().as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards() {
        let (early, late) = (DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH + Duration::from_micros(1500));
        assert_eq!(milliseconds(early, late), 1.5);
        assert_eq!(milliseconds(late, early), 0.0);
    }
}
