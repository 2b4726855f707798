use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use outbox::Error;
use outbox::enqueue::{Ingest, NewPayment};
use serde_json::json;

use super::accept::Acceptance;
use super::import::{Format, Import};
use super::session::CommandContext;
use super::strict_json;
use super::sums::Sums;
use terminal::print::{out, out_json};
use terminal::{BadArgument, Missing, Refused};

/// One payment by its parts, or --file for many.
#[derive(Debug, Args)]
pub(super) struct Enqueue {
    /// A .csv or .jsonl file, or - for standard input. CSV needs the columns instruction_id, participant_id and rail_type;
    /// idempotency_key is the instruction_id where it is missing; a column payload holds JSON, or else every further column
    /// becomes a field of the payload. JSON lines have the same fields, with payload as an object. Cells are taken as
    /// written. Running it again is always safe: a line that was accepted before is recognised.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["instruction", "participant", "rail", "payload", "key"])]
    file: Option<PathBuf>,
    /// Format of the file. Default: taken from its file extension.
    #[arg(long, requires = "file")]
    format: Option<Format>,
    /// Number of lines per transaction.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=10_000), requires = "file")]
    batch: u16,
    /// Only check: accept nothing, and say what would be accepted.
    #[arg(long)]
    dry_run: bool,
    /// Accept without the checks of the rails' adapters, for machines that do not have them. Names and money are checked
    /// nevertheless. A payment that the adapter would have refused fails later, and its key stays used.
    #[arg(long)]
    unchecked: bool,
    #[arg(long, required_unless_present = "file")]
    instruction: Option<String>,
    #[arg(long, required_unless_present = "file")]
    participant: Option<String>,
    #[arg(long, required_unless_present = "file")]
    rail: Option<String>,
    /// The payment as a JSON object: amount, currency, destination and what else the rail needs.
    #[arg(long, required_unless_present = "file")]
    payload: Option<String>,
    /// The idempotency key. Default: the instruction id.
    #[arg(long)]
    key: Option<String>,
}

impl Enqueue {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        match self.file {
            Some(file) => {
                let import = Import {
                    file,
                    format: self.format,
                    batch_rows: self.batch.into(),
                    dry_run: self.dry_run,
                    unchecked: self.unchecked,
                };
                import.run(session).await
            }
            None => one(self, session).await,
        }
    }
}

async fn one(arguments: Enqueue, session: &CommandContext) -> anyhow::Result<ExitCode> {
    let instruction_id = arguments.instruction.unwrap_or_default();
    let rail_type = arguments.rail.unwrap_or_default();
    session.know_rail(&rail_type).map_err(|error| Missing(error.to_string()))?;
    let payment = NewPayment {
        idempotency_key: arguments.key.unwrap_or_else(|| instruction_id.clone()),
        instruction_id,
        participant_id: arguments.participant.unwrap_or_default(),
        rail_type,
        payload: payload(&arguments.payload.unwrap_or_default())?.into(),
    };
    let sound = Acceptance::new(session, arguments.unchecked).check(payment).await?.map_err(Refused)?;
    if arguments.dry_run {
        let mut sums = Sums::default();
        sums.add(&sound.payment.rail_type, Some(&sound.money));
        match session.json {
            true => {
                out_json(&json!({ "dry_run": true, "acceptable": 1, "refused": [], "sums": sums.told() }))?
            }
            false => out(&format!(
                "The payment of {} {} would be accepted. Nothing was written. The database was not asked whether the key is already used.\n",
                sound.money.amount(),
                sound.money.currency()
            ))?,
        };
        return Ok(ExitCode::SUCCESS);
    }
    let accepted = Ingest::new(session.database(), 1).enqueue(&sound.payment).await.map_err(refusal)?;
    if session.json {
        out_json(&accepted)?;
    } else {
        let how = if accepted.replayed { "was accepted before" } else { "is accepted" };
        out(&format!(
            "Payment {} {how}: number {} of {}, {}.\n",
            accepted.outbox_id, accepted.sequence_id, sound.payment.participant_id, accepted.state
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What speaks against the payment itself ends like any other refusal of it.
fn refusal(error: Error) -> anyhow::Error {
    match error {
        Error::KeyReused(_) | Error::ParticipantSuspended(_) | Error::InvalidArgument(_) => {
            Refused(error.to_string()).into()
        }
        other => other.into(),
    }
}

/// The value of an argument --payload.
pub(super) fn payload(text: &str) -> Result<serde_json::Value, BadArgument> {
    let read = strict_json::read(text).map_err(|problem| BadArgument(format!("--payload: {problem}")))?;
    match read.is_object() {
        true => Ok(read),
        false => Err(BadArgument("--payload: expected a JSON object".to_owned())),
    }
}
