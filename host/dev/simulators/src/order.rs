//! A payment, as a rail got it.

use url::Url;

/// A payment as the rail was asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedPayment {
    /// The rail's form of the key.
    pub key: String,
    pub payee: String,
    pub amount: String,
    pub currency: String,
    /// A text of the payer's that the rail gives back.
    pub reference: String,
    pub note: String,
    /// The payer's name for the batch that it came in, where the rail has such.
    pub batch: String,
    /// Where it wants to hear of the outcome.
    pub callback: Option<Url>,
}

impl ReceivedPayment {
    /// One that nobody here has asked for.
    pub(crate) fn somebody_elses() -> Self {
        Self {
            key: "9f86d081-884c-4d65-9a2f-eaa0c55ad015".to_owned(),
            payee: "260960000000".to_owned(),
            amount: "1".to_owned(),
            currency: "ZMW".to_owned(),
            reference: "9f86d081-884c-4d65-9a2f-eaa0c55ad015".to_owned(),
            note: String::new(),
            batch: String::new(),
            callback: None,
        }
    }
}
