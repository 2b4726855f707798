//! What is asked of a call, and all that the host knows of it afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;

use verdict::answer::CallResult;
use verdict::digest::Digest;
use verdict::witness::Witness;

/// What is to be done with a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Validate, and where nothing is wrong disburse.
    Disburse,
    Query,
    /// Validate alone.
    Validate,
}

impl Task {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disburse => "disburse",
            Self::Query => "query-status",
            Self::Validate => "validate",
        }
    }
}

/// A call and all that the host knows of it.
#[derive(Debug, Clone)]
pub struct CallReport {
    pub heard: CallResult,
    pub witness: Witness,
    /// The component that spoke.
    pub digest: Digest,
    /// The rail file by which it was written and read.
    pub rail_digest: Digest,
    /// SHA-256 of the last request of the operation, without secrets.
    pub request_digest: Option<Digest>,
    /// SHA-256 of the reply to it, without secrets.
    pub reply_digest: Option<Digest>,
    /// Values read in the last reply for later requests, which are not kept yet.
    pub captured: BTreeMap<String, String>,
    /// Each exchange but those that bring tokens, without secrets; only where the rail is recorded.
    pub recorded: Vec<RecordedExchange>,
    /// What it wrote to its standard output and error, safe to show.
    pub log: Vec<String>,
    pub took: Duration,
}

/// One exchange, safe to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedExchange {
    pub step: String,
    /// First line, headers, an empty line, body, with names in place of secrets. Empty for a mock.
    pub request: Vec<u8>,
    /// The reply as it came, without secrets.
    pub reply: Option<RecordedReply>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What the host read in earlier replies about a payment, and who keeps what comes to it.
#[derive(Clone, Copy)]
pub struct Captures<'k> {
    pub known: &'k BTreeMap<String, String>,
    pub keeper: &'k dyn CaptureStore,
}

impl<'k> Captures<'k> {
    /// Nobody needs what comes to it afterwards.
    pub fn knowing(known: &'k BTreeMap<String, String>) -> Self {
        Self { known, keeper: &DiscardCaptured }
    }
}

impl std::fmt::Debug for Captures<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Captures").field("known", self.known).finish_non_exhaustive()
    }
}

/// Keeps what was captured.
pub trait CaptureStore: Send + Sync {
    /// True once it is durable and the payment is still ours: the next request leaves only then.
    fn keep<'k>(&'k self, values: &'k BTreeMap<String, String>) -> BoxFuture<'k, bool>;
}

/// For a call whose values nobody needs afterwards.
#[derive(Debug)]
struct DiscardCaptured;

impl CaptureStore for DiscardCaptured {
    fn keep<'k>(&'k self, _: &'k BTreeMap<String, String>) -> BoxFuture<'k, bool> {
        Box::pin(std::future::ready(true))
    }
}
