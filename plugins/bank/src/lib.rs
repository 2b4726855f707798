//! A bank that takes ISO 20022 over HTTPS: one pain.001 per payment, answered by a pain.002. What is sent is in the rail file; the
//! report is read in [`report`].

#![cfg_attr(target_family = "wasm", no_std)]

mod report;

use rail_sdk::prelude::*;
use rail_sdk::{Adapter, Description, Facts, Operation, Payment, Reply, Violation};

struct Bank;

/// Of an instructed amount.
const DIGITS_MAX: usize = 18;
const DECIMALS_MAX: usize = 5;

impl Adapter for Bank {
    fn describe() -> Description {
        Description::new("bank", env!("CARGO_PKG_VERSION")).facts(&[
            "tx_status",
            "payment_status",
            "group_status",
            "reason",
            "proprietary",
            "body",
            "text",
        ])
    }

    /// What the schema takes of an amount.
    fn validate(payment: &Payment) -> Result<(), Vec<Violation>> {
        let (whole, decimals) = payment.amount.split_once('.').unwrap_or((&payment.amount, ""));
        match whole.len() + decimals.len() <= DIGITS_MAX && decimals.len() <= DECIMALS_MAX {
            true => Ok(()),
            false => {
                let problem =
                    format!("must have {DIGITS_MAX} digits or less, {DECIMALS_MAX} of them decimals");
                Err(vec![Violation::new("amount", problem)])
            }
        }
    }

    fn read(operation: Operation, _: &str, reply: &Reply) -> Result<Facts, String> {
        if reply.is_blank() {
            return Ok(vec![("body".to_owned(), "blank".to_owned())]);
        }
        if operation == Operation::QueryStatus && reply.status == 404 {
            let text = String::from_utf8_lossy(&reply.body).trim().to_owned();
            return Ok(vec![("text".to_owned(), text)]);
        }
        report::facts(&reply.body)
    }
}

rail_sdk::export!(Bank);
