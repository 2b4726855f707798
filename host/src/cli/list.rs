//! Payments by what is known of them.

use std::process::ExitCode;

use clap::Args;
use outbox::read::{Filter, Reader};
use serde_json::json;

use super::choose::Filters;
use super::session::CommandContext;
use super::shown::{ShownPayment, as_csv, as_table};
use terminal::print::{out, out_json, say, write_out};
use terminal::{BadArgument, Missing};

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    form: ListOutput,
}

/// How many, and how they are written.
#[derive(Debug, Args)]
struct ListOutput {
    /// Maximum number of payments to show, newest first.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// As CSV with a header.
    #[arg(long)]
    csv: bool,
}

impl List {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let reader = Reader::new(session.database());
        let payments = reader.payments(&self.filters.filter(), self.form.rows_max()).await?;
        self.form.show(session, payments.into_iter().map(ShownPayment::from).collect())?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, Args)]
pub(super) struct Find {
    /// Any of: outbox id, instruction, idempotency key, the key at the rail (hexadecimal or as a UUID), the rail's
    /// reference, the payee, the amount.
    text: String,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    form: ListOutput,
}

impl Find {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let reader = Reader::new(session.database());
        let filter = self.filters.filter();
        let mut payments = self.by_what_they_say(&reader, &filter).await?;
        if payments.is_empty() {
            payments = self.by_rail_key(&reader, &filter).await?;
        }
        let found = !payments.is_empty();
        if found || session.json || self.form.csv {
            self.form.show(session, payments)?;
        }
        match found {
            true => Ok(ExitCode::SUCCESS),
            false => Err(Missing(format!("there is no payment that {:?} names", self.text)).into()),
        }
    }

    /// What has left the history comes last: it is older than all of the others.
    async fn by_what_they_say(&self, reader: &Reader, filter: &Filter) -> anyhow::Result<Vec<ShownPayment>> {
        let here = reader.find(&self.text, filter, self.form.rows_max()).await?;
        let departed = reader.find_departed(&self.text, filter).await?;
        Ok(here
            .into_iter()
            .map(ShownPayment::from)
            .chain(departed.into_iter().map(ShownPayment::from))
            .collect())
    }

    async fn by_rail_key(&self, reader: &Reader, filter: &Filter) -> anyhow::Result<Vec<ShownPayment>> {
        let Some(digits) = key_digits(&self.text) else { return Ok(Vec::new()) };
        let here = reader.find_by_rail_key(&digits, filter).await?;
        let departed = reader.find_departed_by_rail_key(&digits, filter).await?;
        Ok(here
            .into_iter()
            .map(ShownPayment::from)
            .chain(departed.into_iter().map(ShownPayment::from))
            .collect())
    }
}

impl ListOutput {
    /// One more than is shown, to know whether there are more.
    fn rows_max(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    fn show(&self, session: &CommandContext, mut shown: Vec<ShownPayment>) -> anyhow::Result<()> {
        if self.csv && session.json {
            return Err(BadArgument("--csv and --json exclude each other".to_owned()).into());
        }
        let limit = self.limit as usize;
        let more = shown.len() > limit;
        shown.truncate(limit);
        if self.csv {
            write_out(&as_csv(&shown)?)?;
        } else if session.json {
            out_json(&json!({ "payments": shown, "more": more }))?;
        } else if shown.is_empty() {
            out("No payment matches.\n")?;
        } else {
            out(&as_table(&shown))?;
        }
        if more {
            say(&format!("There are more than these {limit}. Use --limit to see more."));
        }
        Ok(())
    }
}

/// The digits of a text that can be a payment's key at its rail.
fn key_digits(text: &str) -> Option<String> {
    let digits = text.replace('-', "").to_ascii_lowercase();
    let sound = [32, 64].contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    sound.then_some(digits)
}
