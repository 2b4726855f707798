//! Payments through a real PostgreSQL, two host processes and four rails of different temper; one host is killed in the
//! middle, and the history is the judge.

mod hosts;
mod proof;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use railhost::outbox::enqueue::{Ingest, NewPayment};
use railhost::outbox::read::Reader;
use railhost::outbox::retain::Retention;
use serde_json::json;
use uuid::Uuid;

use super::print::{say, seconds};
use super::session::Session;
use hosts::Hosts;

/// Rails of its own, so that the demo touches nobody else's payments.
const RAILS: [(&str, &str); 4] = [
    ("demo-fast", include_str!("rails/demo-fast.toml")),
    ("demo-slow", include_str!("rails/demo-slow.toml")),
    ("demo-flaky", include_str!("rails/demo-flaky.toml")),
    ("demo-lossy", include_str!("rails/demo-lossy.toml")),
];
const PARTICIPANTS: usize = 20;
/// One host dies when this share of the payments has its verdict.
const KILL_AT_PERCENT: u64 = 40;
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longer than any lease, repair and backoff of the demo's rails together.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// How many payments.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    payments: u32,
}

impl Demo {
    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let run = Uuid::now_v7();
        say(&format!(
            "Accepting {} payments of {PARTICIPANTS} participants on four mock rails: fast, slow, flaky, losing replies …",
            self.payments
        ));
        let accepted = accept(session, run, self.payments).await?;

        let mut hosts = Hosts::new(&session.config)?;
        hosts.start()?;
        hosts.start()?;
        say("Two hosts share the work …");
        let began = Instant::now();
        watch(session, &mut hosts, accepted.len()).await?;
        let took = began.elapsed();
        hosts.drain().await?;

        let reader = Reader::new(session.database());
        let endings = reader.endings(&accepted).await?;
        let gaps = reader.gaps(None).await?;
        println!("{}", proof::table(&endings, gaps.len()));
        println!(
            "{} payments in {}, {:.0} a second, a dead host's leases included.",
            self.payments,
            seconds(took.as_secs_f64()),
            f64::from(self.payments) / took.as_secs_f64()
        );
        proof::what_next(&endings);
        Ok(if proof::holds(&endings, gaps.len()) { ExitCode::SUCCESS } else { super::exit::disproved() })
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
            rail_type: RAILS[n % RAILS.len()].0.to_owned(),
            payload: json!({
                "amount": format!("{}.{:02}", 1 + n % 500, n / RAILS.len() % 100),
                "currency": "ZMW",
                "destination": { "msisdn": format!("26097{n:07}") },
                "narrative": "demo",
            })
            .into(),
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

/// Shows the queue going down, and kills a host on the way.
async fn watch(session: &Session, hosts: &mut Hosts, payments: usize) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} payments  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let progress = ProgressBar::new(payments as u64).with_style(style);
    let reader = Reader::new(session.database());
    let (began, mut killed) = (Instant::now(), false);
    loop {
        hosts.check()?;
        let status = reader.status().await?;
        let ours = || {
            status.iter().filter(|rail| {
                rail.rail_type.as_ref().is_some_and(|name| RAILS.iter().any(|(rail, _)| rail == name))
            })
        };
        let open: i64 = ours().map(|rail| rail.pending).sum();
        let done = (payments as u64).saturating_sub(open.unsigned_abs());
        progress.set_position(done);
        progress.set_message(format!(
            "{} in flight, {} to be asked about",
            ours().map(|rail| rail.leased_count).sum::<i64>(),
            ours().map(|rail| rail.unsettled).sum::<i64>()
        ));
        if !killed && done * 100 >= payments as u64 * KILL_AT_PERCENT {
            killed = true;
            let held = hosts.kill()?;
            progress.suspend(|| say(&format!("{held} is killed with SIGKILL. The other one goes on …")));
        }
        if open == 0 {
            progress.finish_and_clear();
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "{open} payments are still open after {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
