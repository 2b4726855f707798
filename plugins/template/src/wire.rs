//! The rail's messages, as types.

use rail_sdk::Instruction;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize)]
pub struct Payment {
    amount: String,
    currency: String,
    payee: String,
}

impl Payment {
    pub fn of(instruction: &Instruction) -> Self {
        Self {
            amount: instruction.amount.amount.clone(),
            currency: instruction.amount.currency.clone(),
            payee: instruction.destination.part("msisdn").unwrap_or_default().to_owned(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct Status {
    pub status: String,
    pub reference: Option<String>,
    pub reason: Option<String>,
}
