//! A person's acts on one payment that the rail did not end well.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use railhost::outbox::operate::Operator;
use serde_json::json;
use uuid::Uuid;

use super::Signature;
use super::session::Session;

#[derive(Debug, Args)]
pub(super) struct Reissue {
    /// The outbox id of the payment that failed.
    id: Uuid,
    /// The instruction id of the new payment.
    #[arg(long)]
    instruction: String,
    /// Its idempotency key; the instruction id where it is not given.
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    signature: Signature,
}

impl Reissue {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let key = self.key.as_deref().unwrap_or(&self.instruction);
        let (outbox_id, sequence_id) = Operator::new(session.database())
            .reissue(self.id, &self.instruction, key, &self.signature.into())
            .await?;
        if session.json {
            let answer =
                json!({ "predecessor_id": self.id, "outbox_id": outbox_id, "sequence_id": sequence_id });
            println!("{answer}");
        } else {
            println!(
                "Payment {outbox_id}, number {sequence_id} of its stream, takes the place of {}.",
                self.id
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, Args)]
pub(super) struct Resolve {
    /// The outbox id of a payment on the review list.
    id: Uuid,
    /// What was found out.
    #[arg(long)]
    money_moved: Found,
    /// How it is known: a statement, a ticket of the rail, a call.
    #[arg(long)]
    evidence: String,
    #[command(flatten)]
    signature: Signature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Found {
    Yes,
    No,
}

impl Resolve {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let moved = self.money_moved == Found::Yes;
        Operator::new(session.database())
            .resolve(self.id, moved, &self.signature.into(), &self.evidence)
            .await?;
        if session.json {
            println!("{}", json!({ "outbox_id": self.id, "money_moved": moved }));
        } else {
            let finding = if moved { "moved" } else { "did not move; it may be reissued" };
            println!("Payment {} is resolved: the money {finding}.", self.id);
        }
        Ok(ExitCode::SUCCESS)
    }
}
