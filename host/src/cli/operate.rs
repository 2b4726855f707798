use std::process::ExitCode;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use outbox::operate::{Operator, Reason};
use serde_json::json;

use super::act_reason::ActReason;
use super::session::CommandContext;
use terminal::Missing;
use terminal::print::{out, out_json};

#[derive(Debug, Args)]
pub(super) struct RailArgs {
    /// The rail's name, as in config/rails.
    rail: String,
    #[command(flatten)]
    reason: ActReason,
}

impl RailArgs {
    pub(super) async fn pause(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        known(session, &self.rail)?;
        Operator::new(session.database()).pause_rail(&self.rail, &self.reason.into()).await?;
        done(session, "paused", &self.rail, 0)
    }

    pub(super) async fn resume(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        known(session, &self.rail)?;
        Operator::new(session.database()).resume_rail(&self.rail, &self.reason.into()).await?;
        done(session, "resumed", &self.rail, 0)
    }
}

/// A rail that no file describes is most likely misspelt.
fn known(session: &CommandContext, rail: &str) -> Result<(), Missing> {
    session.know_rail(rail).map_err(|error| Missing(error.to_string()))
}

#[derive(Debug, Args)]
pub(super) struct Suspend {
    /// The participant's id.
    participant: String,
    /// Accept an id that has never had a payment. Without this flag such an id is refused, because it is probably misspelt.
    #[arg(long)]
    unseen: bool,
    #[command(flatten)]
    reason: ActReason,
}

impl Suspend {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let operator = Operator::new(session.database()).also_unseen(self.unseen);
        operator.suspend_participant(&self.participant, &self.reason.into()).await?;
        done(session, "suspended", &self.participant, move_parked(&operator).await?)
    }
}

#[derive(Debug, Args)]
pub(super) struct Reinstate {
    /// The participant's id.
    participant: String,
    #[command(flatten)]
    reason: ActReason,
}

impl Reinstate {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let operator = Operator::new(session.database());
        operator.reinstate_participant(&self.participant, &self.reason.into()).await?;
        done(session, "reinstated", &self.participant, move_parked(&operator).await?)
    }
}

#[derive(Debug, Args)]
pub(super) struct OrderArgs {
    /// The participant's id.
    participant: String,
    order: DispatchOrder,
    /// Accept an id that has never had a payment.
    #[arg(long)]
    unseen: bool,
    #[command(flatten)]
    reason: ActReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DispatchOrder {
    /// A later payment waits for the verdict of the earlier one.
    Strict,
    /// Payments are dispatched as they fall due.
    Parallel,
}

impl OrderArgs {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let operator = Operator::new(session.database()).also_unseen(self.unseen);
        let strict = self.order == DispatchOrder::Strict;
        operator.order_strictly(&self.participant, strict, &self.reason.into()).await?;
        let act = if strict { "ordered strictly" } else { "dispatched in parallel" };
        done(session, act, &self.participant, move_parked(&operator).await?)
    }
}

/// The switch is thrown; this moves the waiting rows out of the claim's way, or back.
async fn move_parked(operator: &Operator) -> anyhow::Result<i64> {
    let progress = ProgressBar::new_spinner().with_message("moving waiting payments");
    let mut moved = 0;
    loop {
        match operator.reconcile_parking().await? {
            0 => break,
            rows => moved += i64::from(rows),
        }
        progress.set_position(moved.unsigned_abs());
        progress.tick();
    }
    progress.finish_and_clear();
    Ok(moved)
}

fn done(session: &CommandContext, act: &str, target: &str, moved: i64) -> anyhow::Result<ExitCode> {
    if session.json {
        out_json(&json!({ "act": act, "target": target, "payments_moved": moved }))?;
    } else if moved > 0 {
        out(&format!("{target} is {act}; {moved} waiting payment(s) moved.\n"))?;
    } else {
        out(&format!("{target} is {act}.\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl From<ActReason> for Reason {
    fn from(reason: ActReason) -> Self {
        Self { by: reason.by, why: reason.why }
    }
}
