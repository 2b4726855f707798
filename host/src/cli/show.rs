use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use outbox::read::{BlockedStream, Gap, Payment, QueueStatus, Reader, Review};
use payment::{KeyForm, RailKey};
use serde_json::json;
use uuid::Uuid;

use super::choose::Span;
use super::session::CommandContext;
use super::shown::{ShownPayment, as_table};
use terminal::print::{complain, json_text, out, out_json, seconds, table, write_out};
use terminal::{BadArgument, Missing, exit};

const SHOWN_MAX: i64 = 20;

const WATCH_EVERY: Duration = Duration::from_secs(2);
/// Clears a terminal and goes to its first line.
const CLEAR: &[u8] = b"\x1b[2J\x1b[H";

#[derive(Debug, Args)]
pub(super) struct Status {
    /// Show it again every two seconds, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
}

impl Status {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let reader = Reader::new(session.database());
        if !self.watch {
            out(&picture(session, &reader).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        loop {
            let shown = picture(session, &reader).await;
            if stdout().is_terminal() {
                write_out(CLEAR)?;
            }
            // A database that is away for a while is part of the picture.
            let shown = shown.unwrap_or_else(|error| format!("{error:#}\n"));
            if !out(&shown)? {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }
}

/// The queue per rail and in total, and what needs a person.
async fn picture(session: &CommandContext, reader: &Reader) -> anyhow::Result<String> {
    let status = reader.status().await?;
    let reviews = reader.reviews(SHOWN_MAX).await?;
    let blocked = reader.blocked_streams(SHOWN_MAX).await?;
    if session.json {
        let answer = json!({ "rails": status, "needing_review": reviews, "blocked_streams": blocked });
        return Ok(json_text(&answer)? + "\n");
    }
    let headings = [
        "rail",
        "state",
        "pending",
        "leased",
        "expired",
        "due",
        "scheduled",
        "parked",
        "unsettled",
        "unroutable",
        "oldest",
        "dead letters",
    ];
    let mut text = table(&headings, &status.iter().map(row).collect::<Vec<_>>());
    if let Some(total) = status.last() {
        text += &format!(
            "\nAttempts on payments of the last 24 hours: {} dispatched, {} retryable, {} failed, {} taken over.\n",
            total.attempts_dispatched,
            total.attempts_retryable,
            total.attempts_failed,
            total.attempts_zombie_requeue
        );
    }
    if !blocked.is_empty() {
        let headings = ["participant", "waiting", "for payment", "rail", "attempts", "since (UTC)"];
        text += &format!(
            "\nWaits for the verdict before it, in strict order (the oldest {SHOWN_MAX} streams at most):\n{}",
            table(&headings, &blocked.iter().map(blocked_row).collect::<Vec<_>>())
        );
    }
    if !reviews.is_empty() {
        let headings = ["payment", "rail", "participant", "reason", "since (UTC)"];
        text += &format!(
            "\nNeeds a person (the oldest {SHOWN_MAX} at most):\n{}",
            table(&headings, &reviews.iter().map(review_row).collect::<Vec<_>>())
        );
    }
    Ok(text)
}

fn blocked_row(stream: &BlockedStream) -> Vec<String> {
    vec![
        stream.participant_id.clone(),
        stream.waiting.to_string(),
        stream.head_id.to_string(),
        stream.rail_type.clone(),
        stream.attempts.to_string(),
        stream.since.format("%F %T").to_string(),
    ]
}

fn review_row(review: &Review) -> Vec<String> {
    vec![
        review.outbox_id.to_string(),
        review.rail_type.clone(),
        review.participant_id.clone(),
        review.reason.clone(),
        review.since.format("%F %T").to_string(),
    ]
}

fn row(status: &QueueStatus) -> Vec<String> {
    vec![
        status.rail_type.clone().unwrap_or_else(|| "all".to_owned()),
        status.rail_state.clone().unwrap_or_default(),
        status.pending.to_string(),
        status.leased_count.to_string(),
        status.expired_lease_count.to_string(),
        status.due_unleased_count.to_string(),
        status.scheduled.to_string(),
        status.parked.to_string(),
        status.unsettled.to_string(),
        status.unroutable.to_string(),
        status.oldest_pending_age_seconds.map(seconds).unwrap_or_default(),
        status.dead_letters.to_string(),
    ]
}

#[derive(Debug, Args)]
pub(super) struct Timeline {
    /// The payment's outbox id.
    #[arg(required_unless_present = "instruction", conflicts_with = "instruction")]
    id: Option<String>,
    /// Find the payment by its instruction id instead.
    #[arg(long)]
    instruction: Option<String>,
    /// The idempotency key, needed if the instruction has several payments.
    #[arg(long, requires = "instruction")]
    key: Option<String>,
}

impl Timeline {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let reader = Reader::new(session.database());
        let id = match (&self.id, &self.instruction) {
            (Some(id), _) => Uuid::parse_str(id)
                .map_err(|_| BadArgument(format!("{id:?} is not an outbox id, expected a UUID")))?,
            (None, instruction) => {
                let instruction = instruction.as_deref().unwrap_or_default();
                match self.by_instruction(&reader, instruction).await? {
                    PaymentMatch::One(id) => id,
                    PaymentMatch::Many(payments) => return candidates(session, instruction, payments),
                }
            }
        };
        let events = reader.timeline(id).await?;
        if events.is_empty() {
            return Err(Missing(format!("there is no payment {id}")).into());
        }
        let key = RailKey::of(id);
        if session.json {
            out_json(&json!({ "outbox_id": id, "key": key.form(KeyForm::Hex), "events": events }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut text = format!(
            "Payment {id} (times in UTC)\nKey at the rail: {}, or as a UUID {}\n",
            key.form(KeyForm::Hex),
            key.form(KeyForm::Uuid)
        );
        for event in &events {
            let (at, detail) = (event.at.format("%F %T%.3f"), json_text(&event.detail)?);
            text += &format!("{at}  {:<14}  {detail}\n", event.event);
        }
        out(&text)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn by_instruction(&self, reader: &Reader, instruction: &str) -> anyhow::Result<PaymentMatch> {
        // The whole key also names a payment whose history is gone.
        let key = self.key.as_deref().unwrap_or(instruction);
        let by_key = reader.find_by_key(instruction, key).await?;
        if let (Some(_), Some(id)) = (&self.key, by_key) {
            return Ok(PaymentMatch::One(id));
        }
        let mut payments = reader.of_instruction(instruction).await?;
        payments.retain(|payment| self.key.as_ref().is_none_or(|key| payment.idempotency_key == *key));
        match (&payments[..], by_key) {
            ([], Some(id)) => Ok(PaymentMatch::One(id)),
            ([only], _) => Ok(PaymentMatch::One(only.outbox_id)),
            ([], None) => Err(Missing(format!("there is no payment of instruction {instruction:?}")).into()),
            _ => Ok(PaymentMatch::Many(payments)),
        }
    }
}

enum PaymentMatch {
    One(Uuid),
    Many(Vec<Payment>),
}

/// Says which payments were meant, if it cannot be said which one.
fn candidates(
    session: &CommandContext,
    instruction: &str,
    payments: Vec<Payment>,
) -> anyhow::Result<ExitCode> {
    let count = payments.len();
    let shown: Vec<ShownPayment> = payments.into_iter().map(ShownPayment::from).collect();
    match session.json {
        true => out_json(&json!({ "candidates": shown }))?,
        false => out(&as_table(&shown))?,
    };
    complain(&format!(
        "railhost: instruction {instruction:?} has {count} payments; name one by its id or with --key"
    ));
    Ok(exit::usage_code())
}

#[derive(Debug, Args)]
pub(super) struct Gaps {
    /// Check one participant's stream only.
    #[arg(long)]
    participant: Option<String>,
    #[command(flatten)]
    span: Span,
}

impl Gaps {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let reader = Reader::new(session.database());
        let participant = self.participant.as_deref();
        if let Some(participant) = participant
            && !reader.has_stream(participant).await?
        {
            return Err(Missing(format!("participant {participant} has never had a payment")).into());
        }
        let gaps = match (self.span.since, self.span.until) {
            (None, None) => reader.gaps(participant).await?,
            (since, until) => reader.gaps_between(participant, since, until).await?,
        };
        if session.json {
            out_json(&json!({ "gaps": gaps }))?;
        } else if gaps.is_empty() {
            out("No number is missing.\n")?;
        } else {
            let row = |gap: &Gap| {
                vec![gap.participant_id.clone(), gap.gap_from.to_string(), gap.gap_until.to_string()]
            };
            let rows: Vec<_> = gaps.iter().map(row).collect();
            out(&table(&["participant", "missing from", "until"], &rows))?;
        }
        Ok(if gaps.is_empty() { ExitCode::SUCCESS } else { exit::disproved() })
    }
}
