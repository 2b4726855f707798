//! What is written of an attempt.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error_code::ErrorCode;

/// What a holder may say of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CompletionState {
    Dispatched,
    Failed,
    Retryable,
}

impl CompletionState {
    /// As the history has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dispatched => "DISPATCHED",
            Self::Failed => "FAILED",
            Self::Retryable => "RETRYABLE",
        }
    }
}

/// What is known of the money after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MoneyMoved {
    Yes,
    No,
    Unknown,
}

impl MoneyMoved {
    /// As the history has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// The outcome of one attempt. Text may come from a guest or a rail: it is made safe for the database on the way there.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub state: CompletionState,
    pub money_moved: Option<MoneyMoved>,
    /// `None` leaves the past as settled as it was, `Some(false)` says that a query allowed sending again.
    pub unsettled: Option<bool>,
    pub rail_reference: Option<String>,
    pub rail_code: Option<String>,
    pub error_code: Option<ErrorCode>,
    pub error_message: Option<String>,
    pub latency_ms: Option<i32>,
    pub retry_delay_seconds: Option<f64>,
    /// What was read for later requests of the payment.
    pub captured: Option<Value>,
    /// Of its key, on a rail that names a payment by that when it calls back.
    pub key_prefix: Option<String>,
    pub proof: Provenance,
}

/// By what, and from what, an outcome was judged.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// Of the component that spoke.
    pub adapter_digest: Option<[u8; 32]>,
    /// Of the rail's file.
    pub rail_digest: Option<[u8; 32]>,
    pub request_digest: Option<[u8; 32]>,
    pub reply_digest: Option<[u8; 32]>,
    /// What the host saw of each request.
    pub witness: Option<String>,
    /// What it read in the reply.
    pub facts: Option<Value>,
}

impl Outcome {
    /// Nothing is known but the state.
    pub fn new(state: CompletionState) -> Self {
        Self {
            state,
            money_moved: None,
            unsettled: None,
            rail_reference: None,
            rail_code: None,
            error_code: None,
            error_message: None,
            latency_ms: None,
            retry_delay_seconds: None,
            captured: None,
            key_prefix: None,
            proof: Provenance::default(),
        }
    }
}
