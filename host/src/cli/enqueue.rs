use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use railhost::outbox::enqueue::{Ingest, NewPayment};
use serde_json::{Value, json};

use super::BadArgument;
use super::import::Import;
use super::session::Session;

/// One payment by its parts, or --file for many.
#[derive(Debug, Args)]
pub(super) struct Enqueue {
    /// A .csv or .jsonl file. CSV needs the columns instruction_id, participant_id and rail_type; idempotency_key is the
    /// instruction_id where it is missing; a column payload holds JSON, or else every further column becomes a field of
    /// the payload. JSON lines have the same fields, with payload as an object.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["instruction", "participant", "rail", "payload", "key"])]
    file: Option<PathBuf>,
    /// How many lines travel in one transaction.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=10_000), requires = "file")]
    batch: u16,
    #[arg(long, required_unless_present = "file")]
    instruction: Option<String>,
    #[arg(long, required_unless_present = "file")]
    participant: Option<String>,
    #[arg(long, required_unless_present = "file")]
    rail: Option<String>,
    /// The payment as a JSON object: amount, currency, destination and what else the rail needs.
    #[arg(long, required_unless_present = "file")]
    payload: Option<String>,
    /// The idempotency key; the instruction id where it is not given.
    #[arg(long)]
    key: Option<String>,
}

impl Enqueue {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        match self.file {
            Some(file) => Import::new(file, self.batch.into()).run(session).await,
            None => one(self, session).await,
        }
    }
}

async fn one(arguments: Enqueue, session: &Session) -> anyhow::Result<ExitCode> {
    let instruction_id = arguments.instruction.unwrap_or_default();
    let rail_type = arguments.rail.unwrap_or_default();
    session.know_rail(&rail_type)?;
    let payload: Value = serde_json::from_str(&arguments.payload.unwrap_or_default())
        .map_err(|error| BadArgument(format!("--payload is no JSON: {error}")))?;
    let payment = NewPayment {
        idempotency_key: arguments.key.unwrap_or_else(|| instruction_id.clone()),
        instruction_id,
        participant_id: arguments.participant.unwrap_or_default(),
        rail_type,
        payload: payload.into(),
    };
    let accepted = Ingest::new(session.database(), 1).enqueue(&payment).await?;
    if session.json {
        println!("{}", json!(accepted));
    } else {
        let how = if accepted.replayed { "was accepted before" } else { "is accepted" };
        println!(
            "Payment {} {how}: number {} of {}, {}.",
            accepted.outbox_id, accepted.sequence_id, payment.participant_id, accepted.state
        );
    }
    Ok(ExitCode::SUCCESS)
}
