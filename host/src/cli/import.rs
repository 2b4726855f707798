//! A file of payments: read line by line, checked, sent in batches; refused lines are named by number while the others go in.
//!
//! Nothing is noted beside the file. Running it again is always safe, for every line has its key: what was accepted before is
//! recognised, and what was refused is refused and named again.

mod csv;
mod format;
mod lines;
mod physical;
mod source;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use outbox::enqueue::{Accepted, Ingest, NewPayment};
use serde::Serialize;
use serde_json::json;

pub(super) use self::format::Format;
use super::accept::Acceptance;
use super::session::CommandContext;
use super::sums::Sums;
use lines::ImportLine;
use source::Source;
use terminal::exit;
use terminal::print::{complain, out, out_json, say};

#[derive(Debug)]
pub(super) struct Import {
    /// `-` is standard input.
    pub file: PathBuf,
    pub format: Option<Format>,
    pub batch_rows: usize,
    pub dry_run: bool,
    pub unchecked: bool,
}

/// A PostgreSQL that restarts, or fails over, is back by then.
const WAIT_MAX: Duration = Duration::from_secs(120);
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What became of the lines.
#[derive(Debug, Default)]
struct Tally {
    /// Or acceptable, in a dry run.
    accepted: u64,
    replayed: u64,
    refused: Vec<RefusedLine>,
    sums: Sums,
}

#[derive(Debug, Serialize)]
struct RefusedLine {
    line: u64,
    why: String,
}

/// One run over a file.
struct ImportRun<'a> {
    file: &'a Path,
    ingest: Ingest,
    acceptance: Acceptance<'a>,
    dry_run: bool,
    tally: Tally,
    bar: ProgressBar,
    /// Those of a dry run, and what was asked for under each.
    keys: HashMap<(String, String), u64>,
}

impl Import {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let source = Source::open(&self.file, self.format)?;
        let bar = bar(source.bytes());
        let mut chunks = source.read(self.batch_rows)?;
        let mut run = ImportRun {
            file: &self.file,
            ingest: Ingest::new(session.database(), 1),
            acceptance: Acceptance::new(session, self.unchecked),
            dry_run: self.dry_run,
            tally: Tally::default(),
            bar,
            keys: HashMap::new(),
        };
        let unfinished = || format!("{} is not finished; run the same command again", self.file.display());
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk?;
            run.take(chunk.lines).await.with_context(unfinished)?;
            run.bar.set_position(chunk.bytes_read);
        }
        run.bar.finish_and_clear();
        run.tally.report(session, self.dry_run)
    }
}

impl ImportRun<'_> {
    async fn take(&mut self, lines: Vec<ImportLine>) -> anyhow::Result<()> {
        let mut numbers = Vec::with_capacity(lines.len());
        let mut payments = Vec::with_capacity(lines.len());
        for line in lines {
            match line.payment {
                Ok(payment) => {
                    numbers.push(line.number);
                    payments.push(payment);
                }
                Err(why) => self.refuse(line.number, why),
            }
        }
        let mut sound_numbers = Vec::with_capacity(numbers.len());
        let mut sound = Vec::with_capacity(numbers.len());
        for (number, checked) in numbers.into_iter().zip(self.acceptance.check_all(payments).await?) {
            match checked {
                Ok(checked) if self.dry_run => match self.first_of_its_key(&checked.payment) {
                    Ok(true) => {
                        self.tally.accepted += 1;
                        self.tally.sums.add(&checked.payment.rail_type, Some(&checked.money));
                    }
                    Ok(false) => self.tally.replayed += 1,
                    Err(why) => self.refuse(number, why),
                },
                Ok(checked) => {
                    sound_numbers.push(number);
                    sound.push(checked.payment);
                }
                Err(why) => self.refuse(number, why),
            }
        }
        if sound.is_empty() {
            return Ok(());
        }
        for (number, answer) in sound_numbers.into_iter().zip(self.send(&sound).await?) {
            match answer {
                Ok(accepted) if accepted.replayed => self.tally.replayed += 1,
                Ok(_) => self.tally.accepted += 1,
                Err(error) => self.refuse(number, error.to_string()),
            }
        }
        Ok(())
    }

    /// What the database would say of a key that stands in the file more than once.
    fn first_of_its_key(&mut self, payment: &NewPayment) -> Result<bool, String> {
        let body = payment.body().map_err(|violation| violation.to_string())?;
        let mut request = DefaultHasher::new();
        (&payment.participant_id, &payment.rail_type, body).hash(&mut request);
        let request = request.finish();
        let key = (payment.instruction_id.clone(), payment.idempotency_key.clone());
        match self.keys.insert(key, request) {
            None => Ok(true),
            Some(before) if before == request => Ok(false),
            Some(_) => Err(format!(
                "key ({}, {}) appears earlier in this file with a different request",
                payment.instruction_id, payment.idempotency_key
            )),
        }
    }

    /// Sends a batch. While PostgreSQL is away the same batch is sent again: whatever of it was accepted is recognised.
    async fn send(
        &self,
        payments: &[NewPayment],
    ) -> Result<Vec<Result<Accepted, outbox::Error>>, outbox::Error> {
        let began = Instant::now();
        let mut pause = PAUSE_FIRST;
        loop {
            let error = match self.ingest.enqueue_batch(payments).await {
                Err(error @ (outbox::Error::Unreachable(_) | outbox::Error::Conflict(_))) => error,
                answered => return answered,
            };
            if began.elapsed() + pause > WAIT_MAX {
                return Err(error);
            }
            if pause == PAUSE_FIRST {
                let seconds = WAIT_MAX.as_secs();
                self.bar.suspend(|| say(&format!("{error}; waiting up to {seconds} s for PostgreSQL.")));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Says so at once: whoever interrupts the run knows what was met so far.
    fn refuse(&mut self, line: u64, why: String) {
        self.bar.suspend(|| say(&format!("{}:{line}: {}", self.file.display(), why.replace('\n', " "))));
        self.tally.refused.push(RefusedLine { line, why });
    }
}

impl Tally {
    fn report(mut self, session: &CommandContext, dry_run: bool) -> anyhow::Result<ExitCode> {
        self.refused.sort_by_key(|refused| refused.line);
        let refused = self.refused.len();
        match (session.json, dry_run) {
            (true, true) => out_json(&json!({
                "dry_run": true, "acceptable": self.accepted, "repeated": self.replayed, "refused": self.refused,
                "sums": self.sums.told()
            }))?,
            (true, false) => out_json(&json!({
                "accepted": self.accepted, "replayed": self.replayed, "refused": self.refused
            }))?,
            (false, true) => out(&format!(
                "Dry run: {} payment(s) would be accepted, {} repeated, {refused} line(s) refused. Nothing was written. The database was not asked which keys are already used.\n{}",
                self.accepted,
                self.replayed,
                self.sums.table()
            ))?,
            (false, false) => out(&format!(
                "{} payment(s) accepted, {} known already, {refused} line(s) refused.\n",
                self.accepted, self.replayed
            ))?,
        };
        if self.accepted + self.replayed == 0 && refused == 0 {
            complain("railhost: the file contains no payments");
            return Ok(exit::refused_some());
        }
        Ok(if self.refused.is_empty() { ExitCode::SUCCESS } else { exit::refused_some() })
    }
}

fn bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{wide_bar} {bytes} of {total_bytes}, {eta} left"),
        None => (ProgressBar::no_length(), "{bytes} read, {elapsed}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style)
}
