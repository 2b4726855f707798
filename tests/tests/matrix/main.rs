//! The robustness matrix: every row a test with its id in its name, its result in `target/evidence/matrix.json`. FI-03 is the
//! target `crash`.

mod faults;
mod idempotency;
mod loss;
mod retries;
mod stress;

use std::sync::Arc;

use harness::Db;
use outbox::enqueue::{Accepted, Ingest, NewPayment};
use tokio::task::JoinSet;

fn payment(n: usize, payload: serde_json::Value) -> NewPayment {
    NewPayment {
        instruction_id: format!("i-{n}"),
        participant_id: format!("p-{}", n % 5),
        idempotency_key: "k".to_owned(),
        rail_type: "mock".to_owned(),
        payload: payload.into(),
    }
}

/// The same request so many times at once, over a few dozen connections.
async fn at_once(db: &Db, payment: NewPayment, times: usize) -> Vec<Accepted> {
    let ingest = Arc::new(Ingest::new(&db.database(), 32));
    let mut taps = JoinSet::new();
    for _ in 0..times {
        let (ingest, payment) = (ingest.clone(), payment.clone());
        taps.spawn(async move { ingest.enqueue(&payment).await.expect("answered") });
    }
    taps.join_all().await
}
