//! Payments through a real PostgreSQL, with a host that dies in the middle. No rail is attached: the demo itself says
//! what each attempt came to, by a fixed rule, and the outbox keeps the books.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use railhost::outbox::complete::{Completion, MoneyMoved, Outcome, State};
use railhost::outbox::enqueue::{Ingest, NewPayment};
use railhost::outbox::lease::{Executor, Lease, Room};
use railhost::outbox::read::Reader;
use railhost::outbox::{Error, retain::Retention};
use serde_json::json;
use uuid::Uuid;

use super::print::{say, seconds, table};
use super::session::Session;

/// A rail of its own, so that the demo touches nobody else's payments.
const RAIL: &str = "demo";
const BATCH_ROWS: i32 = 200;
const LEASE_SECONDS: f64 = 2.0;
/// One payment in this many meets a fault first, one in as many is refused.
const FAULT_EVERY: i64 = 20;
const PARTICIPANTS: usize = 20;

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// How many payments.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    payments: u32,
}

#[derive(Debug, Default)]
struct Seen {
    dispatched: BTreeMap<Uuid, u32>,
    failed: BTreeMap<Uuid, u32>,
    retried: usize,
    taken_over: usize,
    leases_lost: usize,
    late_kept: usize,
}

impl Demo {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let run = Uuid::now_v7();
        let began = Instant::now();
        say(&format!("Accepting {} payments of {PARTICIPANTS} participants …", self.payments));
        let accepted = accept(session, run, self.payments).await?;
        let accepting = began.elapsed();

        let began = Instant::now();
        let mut seen = Seen::default();
        let survivor = Executor::new(session.database(), format!("demo-survivor-{run}"), 2);
        survivor.report(&[RAIL.to_owned()], false).await?;
        let doomed = Executor::new(session.database(), format!("demo-doomed-{run}"), 2);
        let kept_by_the_dead = doomed.claim(BATCH_ROWS, &[room(None)], 0).await?;
        say(&format!(
            "A first host leases {} of them and dies without a word. A second one goes on …",
            kept_by_the_dead.len()
        ));
        drain(&survivor, &accepted, &mut seen).await?;
        let draining = began.elapsed();

        say(
            "The first host comes back and reports what its rail said. The fence refuses it; the answers are kept as evidence …",
        );
        speak_late(&doomed, &kept_by_the_dead, &mut seen).await?;
        survivor.retire().await?;

        let proof = prove(session, &accepted, &seen).await?;
        println!("{}", table(&["", "payments"], &proof));
        println!(
            "Accepted {:.0} a second, finished {:.0} a second (after a lease of {LEASE_SECONDS} s had run out: {}).",
            f64::from(self.payments) / accepting.as_secs_f64(),
            f64::from(self.payments) / draining.as_secs_f64(),
            seconds(draining.as_secs_f64())
        );
        what_next(&accepted, &kept_by_the_dead);
        Ok(ExitCode::SUCCESS)
    }
}

async fn accept(session: &Session, run: Uuid, payments: u32) -> anyhow::Result<Vec<Uuid>> {
    Retention::new(session.database(), session.config.retention.attempts_days)
        .create_ahead(session.config.retention.months_ahead)
        .await?;
    let ingest = Ingest::new(session.database(), 1);
    let wanted: Vec<NewPayment> = (0..payments as usize)
        .map(|n| NewPayment {
            instruction_id: format!("demo-{run}-{n}"),
            participant_id: format!("demo-participant-{:02}", n % PARTICIPANTS),
            idempotency_key: format!("demo-{run}-{n}"),
            rail_type: RAIL.to_owned(),
            payload: json!({
                "amount": format!("{}.{:02}", 1 + n % 500, n % 100),
                "currency": "ZMW",
                "destination": { "msisdn": format!("26097{n:07}") },
                "narrative": "demo",
            }),
        })
        .collect();
    let mut accepted = Vec::with_capacity(wanted.len());
    for batch in wanted.chunks(500) {
        for answer in ingest.enqueue_batch(batch).await? {
            accepted.push(answer?.outbox_id);
        }
    }
    Ok(accepted)
}

/// Claims and completes until every payment has its verdict, waiting for the dead host's leases to run out.
async fn drain(host: &Executor, accepted: &[Uuid], seen: &mut Seen) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} payments")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let progress = ProgressBar::new(accepted.len() as u64).with_style(style);
    let ours: BTreeSet<Uuid> = accepted.iter().copied().collect();
    let mut open = ours.clone();
    while !open.is_empty() {
        let leases = host.claim(BATCH_ROWS, &[room(None)], BATCH_ROWS).await?;
        if leases.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        let completions: Vec<Completion> =
            leases.iter().map(|lease| Completion { held: lease.held(), outcome: verdict(lease) }).collect();
        for (lease, answer) in leases.iter().zip(host.complete_batch(&completions).await?) {
            let completed = answer?;
            // An earlier demo that was interrupted may have left payments; they are finished and not counted.
            if !ours.contains(&completed.outbox_id) {
                continue;
            }
            seen.taken_over += usize::from(lease.unsettled);
            match completed.state.as_str() {
                "DISPATCHED" => *seen.dispatched.entry(completed.outbox_id).or_default() += 1,
                "FAILED" => *seen.failed.entry(completed.outbox_id).or_default() += 1,
                _ => {
                    seen.retried += 1;
                    continue;
                }
            }
            open.remove(&completed.outbox_id);
        }
        progress.set_position((accepted.len() - open.len()) as u64);
    }
    progress.finish_and_clear();
    Ok(())
}

/// The fixed rule that stands in for a rail.
fn verdict(lease: &Lease) -> Outcome {
    let turn = lease.sequence_id % FAULT_EVERY;
    let mut outcome = match turn {
        0 if lease.attempt_count == 0 => Outcome {
            error_code: Some("RAIL_BUSY".to_owned()),
            retry_delay_seconds: Some(0.2),
            ..Outcome::new(State::Retryable)
        },
        1 => Outcome {
            money_moved: Some(MoneyMoved::No),
            error_code: Some("PAYEE_NOT_FOUND".to_owned()),
            ..Outcome::new(State::Failed)
        },
        _ => Outcome::new(State::Dispatched),
    };
    if outcome.state == State::Dispatched {
        outcome.rail_reference = Some(format!("demo-{}", lease.outbox_id.simple()));
    }
    outcome
}

async fn speak_late(host: &Executor, leases: &[Lease], seen: &mut Seen) -> anyhow::Result<()> {
    for lease in leases {
        let completion = Completion { held: lease.held(), outcome: verdict(lease) };
        match host.complete(&completion).await {
            Err(Error::LeaseLost(_)) => seen.leases_lost += 1,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        seen.late_kept += usize::from(host.record_late_answer(&completion).await?);
    }
    Ok(())
}

async fn prove(session: &Session, accepted: &[Uuid], seen: &Seen) -> anyhow::Result<Vec<Vec<String>>> {
    let gaps = Reader::new(session.database()).gaps(None).await?;
    let ends = |id: &Uuid| seen.dispatched.get(id).unwrap_or(&0) + seen.failed.get(id).unwrap_or(&0);
    let lost = accepted.iter().filter(|id| ends(id) == 0).count();
    let doubled = accepted.iter().filter(|id| ends(id) > 1).count();
    let line = |name: &str, count: usize| vec![name.to_owned(), count.to_string()];
    Ok(vec![
        line("accepted", accepted.len()),
        line("dispatched", seen.dispatched.len()),
        line("failed", seen.failed.len()),
        line("retried first", seen.retried),
        line("taken over from the dead host", seen.taken_over),
        line("completions refused by the fence", seen.leases_lost),
        line("late answers kept", seen.late_kept),
        line("lost", lost),
        line("with two verdicts", doubled),
        line("gaps in the streams", gaps.len()),
    ])
}

fn what_next(accepted: &[Uuid], taken_over: &[Lease]) {
    let me = std::env::args().next().unwrap_or_else(|| "railhost".to_owned());
    let looked_at = taken_over
        .first()
        .map(|lease| lease.outbox_id)
        .or_else(|| accepted.first().copied())
        .unwrap_or_default();
    println!(
        "\nThe books are kept. Look further:
  {me} --dev status
  {me} --dev timeline {looked_at}
  {me} --dev gaps
  {me} --dev enqueue --instruction inv-1 --participant acme --rail mock \\
      --payload '{{\"amount\":\"12.50\",\"currency\":\"ZMW\",\"destination\":\"260971234567\"}}'
  {me} --help"
    );
}

fn room(after: Option<chrono::DateTime<chrono::Utc>>) -> Room {
    Room { rail_type: RAIL.to_owned(), limit: BATCH_ROWS, lease_seconds: LEASE_SECONDS, after }
}
