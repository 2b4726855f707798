//! What a form is filled in with.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use payment::Instruction;
use uuid::Uuid;

/// What a request is made of, besides the form.
#[derive(Clone, Copy)]
pub struct Input<'i> {
    /// The payment that is written into the form. [`Form::check`](crate::Form::check) says beforehand whether it fits.
    pub payment: &'i Instruction,
    /// The adapter's values, by the names of its variables.
    pub values: &'i [(String, String)],
    /// What the host read in earlier replies about this payment.
    pub captured: &'i BTreeMap<String, String>,
    /// Where secrets, tokens and keys come from.
    pub secrets: &'i dyn Secrets,
    /// What the rail wants an answer to.
    pub challenge: Option<&'i str>,
    /// When the request is made: for `{date}`, `{time}` and the time in signatures.
    pub now: DateTime<Utc>,
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("payment", &self.payment.ids.outbox_id).finish_non_exhaustive()
    }
}

/// What only the host knows.
pub trait Secrets {
    /// It gives names in the place of values: for people, and for digests.
    fn is_shown(&self) -> bool {
        false
    }

    /// A secret by its name in `[secrets]`. Without it the request is not written.
    fn secret(&self, name: &str) -> Option<&str>;

    /// A token by its name in `[tokens]`, fetched before this request. Without it the request is not written.
    fn token(&self, name: &str) -> Option<&str>;

    /// A text under a public key. The error says what is wrong, such as that there is no such key.
    fn encrypt(&self, key: &str, text: &[u8]) -> Result<Vec<u8>, String>;

    /// An HMAC over a message. The error says what is wrong, such as that there is no such key.
    fn hmac(&self, key: &str, message: &[u8]) -> Result<Vec<u8>, String>;

    /// A signature over a message. The error says what is wrong, such as that there is no such key.
    fn sign(&self, key: &str, message: &[u8]) -> Result<Vec<u8>, String>;

    /// A signature or an HMAC, whichever the key is for.
    fn prove(&self, key: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        self.sign(key, message).or_else(|_| self.hmac(key, message))
    }

    /// A body under a fresh AES key, and that key under a public one, both in base64.
    fn envelope(&self, key: &str, body: &[u8]) -> Result<(String, String), String>;

    /// Where the rail may send news of this payment to.
    fn callback(&self, outbox_id: Uuid) -> Option<String>;
}
