//! An act on one payment or on many: each payment is an act of its own, and one that is refused leaves the others alone.

use std::io::{IsTerminal, stderr, stdin};
use std::process::ExitCode;

use clap::Args;
use outbox::read::{Payment, Reader};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::choose::Filters;
use super::session::CommandContext;
use super::shown::money;
use super::sums::Sums;
use terminal::print::{out, out_json, say};
use terminal::{BadArgument, Missing, exit};

/// Payments by their ids, or all that the filters choose.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// Outbox ids.
    #[arg(value_name = "ID")]
    pub ids: Vec<Uuid>,
    #[command(flatten)]
    filters: Filters,
    /// Act on all that the filters choose, without asking first.
    #[arg(long)]
    yes: bool,
}

/// What an act is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verb {
    /// As in "cancel 12 payments".
    pub will: &'static str,
    /// As in "12 payments cancelled".
    pub done: &'static str,
}

/// What an act on one payment did.
#[derive(Debug)]
pub(super) struct Done {
    pub sentence: String,
    pub json: Value,
}

#[derive(Debug, Default)]
struct BulkReport {
    done: Vec<Value>,
    refused: Vec<(Uuid, String)>,
}

impl Selection {
    /// The only payment that is named, if it is only one.
    pub(super) fn single(&self) -> Option<Uuid> {
        match self.ids[..] {
            [id] => Some(id),
            _ => None,
        }
    }

    /// Performs the act on each payment.
    pub(super) async fn act(
        self,
        session: &CommandContext,
        verb: Verb,
        act: impl AsyncFn(Payment) -> Result<Done, outbox::Error>,
    ) -> anyhow::Result<ExitCode> {
        let reader = Reader::new(session.database());
        let filter = self.filters.filter();
        match (self.ids.is_empty(), filter.is_empty()) {
            (true, true) => {
                return Err(BadArgument(format!(
                    "say which payments to {}: ids, or filters such as --rail, --state or --since",
                    verb.will
                ))
                .into());
            }
            (false, false) => {
                return Err(BadArgument(
                    "name payments by their ids or choose them by filters, not both".to_owned(),
                )
                .into());
            }
            (false, true) => {
                let payments = named(&reader, &self.ids).await?;
                return match self.single() {
                    Some(_) => one(session, payments, act).await,
                    None => BulkReport::of(session, verb, payments, act).await,
                };
            }
            (true, false) => {}
        }
        let payments = reader.payments(&filter, i64::MAX).await?;
        if payments.is_empty() {
            say("No payment matches.");
            return BulkReport::default().tell(session, verb);
        }
        let mut sums = Sums::default();
        payments.iter().for_each(|payment| sums.add(&payment.rail_type, money(payment).as_ref()));
        let count = payments.len();
        say(&format!("{count} payment(s) match:\n{}", sums.table().trim_end()));
        if !self.yes && !agreed(verb, count).await {
            if session.json {
                out_json(&json!({ "chosen": count, "sums": sums.told(), "done": [], "refused": [] }))?;
            }
            say(&format!("Nothing was done; --yes will {} them.", verb.will));
            return Ok(exit::usage_code());
        }
        BulkReport::of(session, verb, payments, act).await
    }
}

/// In the order in which they were named. One that is not there stops all: most likely it is misspelt.
async fn named(reader: &Reader, ids: &[Uuid]) -> anyhow::Result<Vec<Payment>> {
    let mut found = reader.by_id(ids).await?;
    let mut payments = Vec::with_capacity(ids.len());
    for id in ids {
        match found.iter().position(|payment| payment.outbox_id == *id) {
            Some(place) => payments.push(found.swap_remove(place)),
            None if payments.iter().any(|payment: &Payment| payment.outbox_id == *id) => {}
            None if reader.timeline(*id).await?.is_empty() => {
                return Err(Missing(format!("there is no payment {id}; nothing was done")).into());
            }
            None => {
                let gone = format!("payment {id} is no longer in the history; its month was dropped");
                return Err(outbox::Error::NotAllowed(gone).into());
            }
        }
    }
    Ok(payments)
}

/// As an answer of its own.
async fn one(
    session: &CommandContext,
    payments: Vec<Payment>,
    act: impl AsyncFn(Payment) -> Result<Done, outbox::Error>,
) -> anyhow::Result<ExitCode> {
    for payment in payments {
        let done = act(payment).await?;
        match session.json {
            true => out_json(&done.json)?,
            false => out(&(done.sentence + "\n"))?,
        };
    }
    Ok(ExitCode::SUCCESS)
}

impl BulkReport {
    async fn of(
        session: &CommandContext,
        verb: Verb,
        payments: Vec<Payment>,
        act: impl AsyncFn(Payment) -> Result<Done, outbox::Error>,
    ) -> anyhow::Result<ExitCode> {
        let mut report = Self::default();
        for payment in payments {
            let id = payment.outbox_id;
            match act(payment).await {
                Ok(done) => {
                    if !session.json {
                        out(&(done.sentence + "\n"))?;
                    }
                    report.done.push(done.json);
                }
                Err(error) if is_of_this_payment(&error) => {
                    say(&format!("{id}: {error}"));
                    report.refused.push((id, error.to_string()));
                }
                // The others would fare no better.
                Err(error) => {
                    report.tell(session, verb)?;
                    return Err(error.into());
                }
            }
        }
        report.tell(session, verb)
    }

    fn tell(self, session: &CommandContext, verb: Verb) -> anyhow::Result<ExitCode> {
        let refused: Vec<_> =
            self.refused.iter().map(|(id, why)| json!({ "outbox_id": id, "why": why })).collect();
        match session.json {
            true => out_json(&json!({ "done": self.done, "refused": refused }))?,
            false => {
                out(&format!("{} payment(s) {}, {} refused.\n", self.done.len(), verb.done, refused.len()))?
            }
        };
        Ok(if refused.is_empty() { ExitCode::SUCCESS } else { exit::refused_some() })
    }
}

/// Refused for what the payment is, not for what the database is.
fn is_of_this_payment(error: &outbox::Error) -> bool {
    matches!(
        error,
        outbox::Error::NotAllowed(_)
            | outbox::Error::NotFound(_)
            | outbox::Error::KeyReused(_)
            | outbox::Error::ParticipantSuspended(_)
            | outbox::Error::InvalidArgument(_)
            | outbox::Error::LeaseLost(_)
            | outbox::Error::Conflict(_)
    )
}

/// Asks, where there is somebody to ask.
async fn agreed(verb: Verb, count: usize) -> bool {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return false;
    }
    say(&format!("Type yes to {} these {count} payment(s):", verb.will));
    let (send, answer) = oneshot::channel();
    // In a thread of its own, which does not keep the program from ending while nobody answers.
    std::thread::spawn(move || {
        let mut typed = String::new();
        let read = stdin().read_line(&mut typed);
        send.send(read.is_ok() && typed.trim() == "yes").ok();
    });
    answer.await.unwrap_or(false)
}
