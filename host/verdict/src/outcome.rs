//! What is written of an attempt.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error_code::ErrorCode;

/// What a holder may say of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CompletionState {
    /// The rail paid. This is final.
    Dispatched,
    /// It is not tried again. Whether the money moved is for [`MoneyMoved`] to say.
    Failed,
    /// It is due again after a pause: to be sent, or to be asked about.
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
    /// The rail says that it paid.
    Yes,
    /// It did not move and will not under this key.
    No,
    /// It may have moved; nobody can say.
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
    /// What becomes of the payment.
    pub state: CompletionState,
    /// Set with a final state. None where the payment goes on.
    pub money_moved: Option<MoneyMoved>,
    /// `None` leaves the past as settled as it was, `Some(false)` says that a query allowed sending again.
    pub unsettled: Option<bool>,
    /// The rail's own name for the payment, if it gave one.
    pub rail_reference: Option<String>,
    /// The rail's code that decided. None where none did.
    pub rail_code: Option<String>,
    /// Why it is no plain success. None where it is one.
    pub error_code: Option<ErrorCode>,
    /// The same in a sentence, for people.
    pub error_message: Option<String>,
    /// How long the call took, in milliseconds. None where there was no call.
    pub latency_ms: Option<i32>,
    /// Seconds until the payment is due again. None with a final state.
    pub retry_delay_seconds: Option<f64>,
    /// What was read for later requests of the payment.
    pub captured: Option<Value>,
    /// The first characters of the rail key, on a rail whose callbacks name a payment by it.
    pub key_prefix: Option<String>,
    /// What it was judged by. Empty until the host that made the call fills it in.
    pub proof: Provenance,
}

/// The component, file and messages from which an outcome was judged.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// SHA-256 of the component.
    pub adapter_digest: Option<[u8; 32]>,
    /// SHA-256 of the rail file.
    pub rail_digest: Option<[u8; 32]>,
    /// SHA-256 of the last request of the operation, with a name in the place of each secret.
    pub request_digest: Option<[u8; 32]>,
    /// SHA-256 of the whole reply to it, without secrets. None where no whole reply came.
    pub reply_digest: Option<[u8; 32]>,
    /// What the host saw of each request.
    pub witness: Option<String>,
    /// What the host read in the reply.
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
