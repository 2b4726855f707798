//! The rail's messages, as types.

use rail_sdk::Instruction;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize)]
pub(crate) struct Payment {
    amount: String,
    currency: String,
    payee: String,
}

impl Payment {
    pub(crate) fn of(instruction: &Instruction) -> Self {
        Self {
            amount: instruction.amount.amount.clone(),
            currency: instruction.amount.currency.clone(),
            payee: instruction.destination.part("msisdn").unwrap_or_default().to_owned(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Status {
    pub(crate) status: String,
    pub(crate) reference: Option<String>,
    pub(crate) reason: Option<String>,
}
