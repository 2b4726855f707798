use std::process::ExitCode;

use clap::Args;
use railhost::outbox::read::{Reader, Status};
use railhost::payment::{KeyForm, RailKey};
use serde_json::json;
use uuid::Uuid;

use super::print::{seconds, table};
use super::session::Session;
use super::{BadArgument, exit};

const SHOWN_MAX: i64 = 20;

/// The queue per rail and in total, and what needs a person.
pub(super) async fn status(session: &Session) -> anyhow::Result<ExitCode> {
    let reader = Reader::new(session.database());
    let status = reader.status().await?;
    let reviews = reader.reviews(SHOWN_MAX).await?;
    let blocked = reader.blocked_streams(SHOWN_MAX).await?;
    if session.json {
        println!("{}", json!({ "rails": status, "needing_review": reviews, "blocked_streams": blocked }));
        return Ok(ExitCode::SUCCESS);
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
    print!("{}", table(&headings, &status.iter().map(row).collect::<Vec<_>>()));
    if let Some(total) = status.last() {
        println!(
            "\nAttempts on payments of the last 24 hours: {} dispatched, {} retryable, {} failed, {} taken over.",
            total.attempts_dispatched,
            total.attempts_retryable,
            total.attempts_failed,
            total.attempts_zombie_requeue
        );
    }
    if !blocked.is_empty() {
        println!(
            "\nWaits for the verdict before it, in strict order (the oldest {SHOWN_MAX} streams at most):"
        );
        let rows: Vec<_> = blocked
            .iter()
            .map(|stream| {
                vec![
                    stream.participant_id.clone(),
                    stream.waiting.to_string(),
                    stream.head_id.to_string(),
                    stream.rail_type.clone(),
                    stream.attempts.to_string(),
                    stream.since.format("%F %T").to_string(),
                ]
            })
            .collect();
        let headings = ["participant", "waiting", "for payment", "rail", "attempts", "since (UTC)"];
        print!("{}", table(&headings, &rows));
    }
    if !reviews.is_empty() {
        println!("\nNeeds a person (the oldest {SHOWN_MAX} at most):");
        let rows: Vec<_> = reviews
            .iter()
            .map(|review| {
                vec![
                    review.outbox_id.to_string(),
                    review.rail_type.clone(),
                    review.participant_id.clone(),
                    review.reason.clone(),
                    review.since.format("%F %T").to_string(),
                ]
            })
            .collect();
        print!("{}", table(&["payment", "rail", "participant", "reason", "since (UTC)"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn row(status: &Status) -> Vec<String> {
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
    /// Find the payment by its instruction id instead (with --key where that differs).
    #[arg(long)]
    instruction: Option<String>,
    /// The idempotency key; the instruction id where it is not given.
    #[arg(long, requires = "instruction")]
    key: Option<String>,
}

impl Timeline {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let reader = Reader::new(session.database());
        let (found, asked) = match (&self.id, &self.instruction) {
            (Some(id), _) => {
                let parsed = Uuid::parse_str(id)
                    .map_err(|_| BadArgument(format!("{id:?} is no outbox id, expected a UUID")))?;
                (Some(parsed), id.clone())
            }
            (None, instruction) => {
                let instruction = instruction.as_deref().unwrap_or_default();
                let key = self.key.as_deref().unwrap_or(instruction);
                (reader.find_by_key(instruction, key).await?, format!("({instruction}, {key})"))
            }
        };
        let events = match found {
            Some(outbox_id) => reader.timeline(outbox_id).await?,
            None => Vec::new(),
        };
        if session.json {
            let key = found.map(|id| RailKey::of(id).form(KeyForm::Hex));
            println!("{}", json!({ "outbox_id": found, "key": key, "events": events }));
        } else if let (Some(outbox_id), false) = (found, events.is_empty()) {
            let key = RailKey::of(outbox_id);
            println!("Payment {outbox_id} (times in UTC)");
            println!("Key at the rail: {}, or as a UUID {}", key.form(KeyForm::Hex), key.form(KeyForm::Uuid));
            for event in &events {
                println!("{}  {:<14}  {}", event.at.format("%F %T%.3f"), event.event, event.detail);
            }
        }
        if events.is_empty() {
            eprintln!("railhost: there is no payment {asked}");
            return Ok(exit::not_found());
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, Args)]
pub(super) struct Gaps {
    /// Prove one participant's stream only.
    #[arg(long)]
    participant: Option<String>,
}

impl Gaps {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let gaps = Reader::new(session.database()).gaps(self.participant.as_deref()).await?;
        if session.json {
            println!("{}", json!({ "gaps": gaps }));
        } else if gaps.is_empty() {
            println!("No number is missing.");
        } else {
            let rows: Vec<_> = gaps
                .iter()
                .map(|gap| {
                    vec![gap.participant_id.clone(), gap.gap_from.to_string(), gap.gap_until.to_string()]
                })
                .collect();
            print!("{}", table(&["participant", "missing from", "until"], &rows));
        }
        Ok(if gaps.is_empty() { ExitCode::SUCCESS } else { exit::disproved() })
    }
}
