//! Payments through a real PostgreSQL, two host processes and four rails, three of them simulated and misbehaving; one host is
//! killed in the middle, and the history and the rails' own ledgers are the judges.

mod hosts;
mod proof;
mod rails;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use outbox::Database;
use outbox::enqueue::{Ingest, NewPayment};
use outbox::read::Reader;
use outbox::retain::Retention;
use uuid::Uuid;

use hosts::DemoHosts;
use rails::RAILS;
use terminal::print::{out, say, seconds};

const PARTICIPANTS: usize = 20;
/// One host dies when this share of the payments has its verdict.
const KILL_AT_PERCENT: u64 = 40;
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longer than any lease, repair and backoff of the demo's rails together.
const PATIENCE: Duration = Duration::from_secs(180);

/// Under its help.
pub const EXAMPLES: &str = "Examples:
  railhost demo";

#[derive(Debug, Args)]
pub struct Demo {
    /// How many payments.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    payments: u32,
}

/// What the demo stands on.
#[derive(Debug)]
pub struct DemoSetup<'g> {
    pub database: &'g Database,
    pub attempts_days: i32,
    pub months_ahead: i32,
    /// Of the private PostgreSQL.
    pub postgres: &'g Path,
    /// Of compiled adapters.
    pub cache: &'g Path,
}

impl Demo {
    pub async fn run(self, ground: &DemoSetup<'_>) -> anyhow::Result<ExitCode> {
        let run = Uuid::now_v7();
        say(&format!(
            "Accepting {} payments of {PARTICIPANTS} participants on four rails: MTN, Airtel, a bank (simulated, one reply in ten goes wrong) and the mock …",
            self.payments
        ));
        let accepted = accept(ground, run, self.payments).await?;

        let mut hosts = DemoHosts::new(ground.postgres, ground.cache)?;
        let played = rails::start(&hosts.rails()).await?;
        hosts.start()?;
        hosts.start()?;
        say("Two hosts share the work …");
        let began = Instant::now();
        watch(ground, &mut hosts, accepted.len()).await?;
        let took = began.elapsed();
        hosts.drain().await?;

        let reader = Reader::new(ground.database);
        let endings = reader.endings(&accepted).await?;
        let gaps = reader.gaps(None).await?;
        let audits = proof::audits(&played, &accepted, &endings);
        out(&format!("{}\n{}\n", proof::table(&endings, gaps.len()), proof::ledgers(&audits)))?;
        out(&format!(
            "{} payments in {}, {:.0} a second, a dead host's leases included.\n{}",
            self.payments,
            seconds(took.as_secs_f64()),
            f64::from(self.payments) / took.as_secs_f64(),
            proof::what_next(&endings)
        ))?;
        Ok(if proof::holds(&endings, gaps.len()) && audits.iter().all(|(_, audit, _)| audit.agrees()) {
            ExitCode::SUCCESS
        } else {
            terminal::exit::disproved()
        })
    }
}

async fn accept(ground: &DemoSetup<'_>, run: Uuid, payments: u32) -> anyhow::Result<Vec<Uuid>> {
    Retention::new(ground.database, ground.attempts_days).create_ahead(ground.months_ahead).await?;
    let ingest = Ingest::new(ground.database, 1);
    let wanted: Vec<NewPayment> = (0..payments as usize)
        .map(|n| NewPayment {
            instruction_id: format!("demo-{run}-{n}"),
            participant_id: format!("demo-participant-{:02}", n % PARTICIPANTS),
            idempotency_key: format!("demo-{run}-{n}"),
            rail_type: RAILS[n % RAILS.len()].to_owned(),
            payload: rails::payload(RAILS[n % RAILS.len()], n).into(),
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
async fn watch(ground: &DemoSetup<'_>, hosts: &mut DemoHosts, payments: usize) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} payments  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let progress = ProgressBar::new(payments as u64).with_style(style);
    let reader = Reader::new(ground.database);
    let (began, mut killed) = (Instant::now(), false);
    loop {
        hosts.check()?;
        let status = reader.status().await?;
        let ours = || {
            status.iter().filter(|rail| rail.rail_type.as_deref().is_some_and(|name| RAILS.contains(&name)))
        };
        let open: i64 = ours().map(|rail| rail.pending).sum();
        let done = (payments as u64).saturating_sub(open.unsigned_abs());
        progress.set_position(done);
        progress.set_message(format!(
            "{} in flight, {} to be queried",
            ours().map(|rail| rail.leased_count).sum::<i64>(),
            ours().map(|rail| rail.unsettled).sum::<i64>()
        ));
        if !killed
            && done * 100 >= payments as u64 * KILL_AT_PERCENT
            && let Some(host) = hosts.kill_at_work(&reader).await?
        {
            killed = true;
            progress.suspend(|| say(&format!("{host} is killed with SIGKILL. The other one goes on …")));
        }
        if open == 0 {
            progress.finish_and_clear();
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "{open} payments are still open after {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
