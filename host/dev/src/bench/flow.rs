//! Payments that are accepted, one like the other.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;
use outbox::enqueue::{Accepted, Ingest, NewPayment};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::bed::Db;
use super::figures::number;
use terminal::print::say;

const CONNECTIONS: u32 = 2;
const ROWS_PER_BATCH: usize = 2_500;
/// Whoever waits for millions is told at every so many.
const SAID_EVERY: usize = 500_000;
const PARTICIPANTS: usize = 1_000;
/// Of every payload, as compact JSON.
const PAYLOAD_BYTES: usize = 300;

/// Payments of some participants over one rail. Their name tells flows in one database apart.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub rail: String,
    pub name: &'static str,
    pub participants: usize,
    pub payload: Value,
}

impl Flow {
    /// Of a thousand participants, over a rail that does not look at the payee.
    pub(super) fn over(rail: &str) -> Self {
        Self { rail: rail.to_owned(), name: "p", participants: PARTICIPANTS, payload: payload() }
    }

    /// Accepts so many, in batches over some connections.
    pub(super) async fn accept(&self, db: &Db, payments: usize) -> anyhow::Result<()> {
        let ingest = Ingest::new(&db.database(), CONNECTIONS);
        let next = Arc::new(AtomicUsize::new(0));
        let mut lanes = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (flow, ingest, next) = (self.clone(), ingest.clone(), next.clone());
            lanes.spawn(async move {
                loop {
                    let first = next.fetch_add(ROWS_PER_BATCH, Ordering::Relaxed);
                    if first >= payments {
                        return anyhow::Ok(());
                    }
                    if first > 0 && first.is_multiple_of(SAID_EVERY) {
                        say(&format!("    {} of {} accepted", number(first as f64), number(payments as f64)));
                    }
                    flow.accept_part(&ingest, first..payments.min(first + ROWS_PER_BATCH)).await?;
                }
            });
        }
        while let Some(ended) = lanes.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// Accepts some in one transaction.
    pub(super) async fn accept_part(
        &self,
        ingest: &Ingest,
        numbers: Range<usize>,
    ) -> anyhow::Result<Vec<Accepted>> {
        let payments: Vec<_> = numbers.map(|n| self.payment(n)).collect();
        let answers = ingest.enqueue_batch(&payments).await?;
        answers
            .into_iter()
            .map(|answer| answer.map_err(|error| anyhow!("a payment was refused: {error}")))
            .collect()
    }

    fn payment(&self, n: usize) -> NewPayment {
        NewPayment {
            instruction_id: format!("{}-{n:09}", self.name),
            participant_id: format!("{}-{}", self.name, n % self.participants),
            idempotency_key: format!("{}-key-{n:09}", self.name),
            rail_type: self.rail.clone(),
            payload: self.payload.clone().into(),
        }
    }
}

/// An instruction as customers send them; every contestant gets the same.
pub(super) fn payload() -> Value {
    let with = |reference: &str| {
        json!({
            "amount": "12.50",
            "currency": "ZMW",
            "destination": { "msisdn": "260961234567" },
            "narrative": "salary of the month",
            "reference_text": reference,
        })
    };
    let bytes = with("").to_string().len();
    with(&"x".repeat(PAYLOAD_BYTES.saturating_sub(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_has_the_size_that_is_told() {
        assert_eq!(payload().to_string().len(), PAYLOAD_BYTES);
    }

    #[test]
    fn no_two_payments_of_two_flows_share_a_name() {
        let (cold, hot) = (Flow::over("mock"), Flow { name: "hot", participants: 1, ..Flow::over("mock") });
        assert_ne!(cold.payment(7).instruction_id, hot.payment(7).instruction_id);
        assert_eq!(hot.payment(7).participant_id, hot.payment(8).participant_id);
    }
}
