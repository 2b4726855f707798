use std::sync::atomic::{AtomicUsize, Ordering};

use outbox::complete::Completion;
use outbox::enqueue::NewPayment;
use outbox::lease::Lease;
use serde_json::{Value, json};
use verdict::outcome::{CompletionState, Outcome};

pub(crate) const RAIL: &str = "mtn";
pub(crate) const BATCH: usize = 500;
/// The length that hosts take unless told otherwise.
pub(crate) const LEASE_SECONDS: f64 = 45.0;
const PARTICIPANTS: usize = 1000;

/// An instruction as customers send them: 330 bytes as jsonb.
pub(crate) fn payload() -> Value {
    json!({
        "amount_minor": 125_000,
        "currency": "UGX",
        "destination": { "msisdn": "256772123456", "name": "Nakato Grace" },
        "originator": { "account": "0012345678", "name": "Kampala Wholesale Ltd" },
        "purpose": "supplier payment for invoice 2024-000123",
        "requested_at": "2025-01-01T12:00:00Z",
        "channel": "file",
    })
}

/// New payments over a thousand participants. No two calls in one run give the same key.
pub(crate) fn payments(count: usize) -> Vec<NewPayment> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let first = COUNT.fetch_add(count, Ordering::Relaxed);
    let payload = payload();
    (first..first + count)
        .map(|n| NewPayment {
            instruction_id: format!("bench-instruction-{n:09}"),
            participant_id: format!("participant-{}", n % PARTICIPANTS),
            idempotency_key: format!("bench-key-{n:09}"),
            rail_type: RAIL.to_owned(),
            payload: payload.clone().into(),
        })
        .collect()
}

/// Every lease ends well.
pub(crate) fn completions(leases: &[Lease]) -> Vec<Completion> {
    leases
        .iter()
        .map(|lease| Completion {
            lease: lease.lease_ref(),
            outcome: Outcome {
                rail_reference: Some(format!("reference-{}", lease.sequence_id)),
                latency_ms: Some(180),
                ..Outcome::new(CompletionState::Dispatched)
            },
        })
        .collect()
}
