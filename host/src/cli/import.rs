//! A file of payments: read line by line, sent in batches, refused lines named by number while the others go in.
//!
//! Running it again is always safe, for every line has its key. A note beside the file says how far an interrupted run
//! came, so that a long file goes on from there; a file that has changed since begins again.

mod lines;
mod progress;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use railhost::outbox::enqueue::{Ingest, NewPayment};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::exit;
use super::session::Session;
use lines::{Line, Lines};
use progress::Progress;

#[derive(Debug)]
pub(super) struct Import {
    file: PathBuf,
    batch_rows: usize,
}

/// What became of the lines.
#[derive(Debug, Default, Serialize)]
struct Tally {
    accepted: u64,
    replayed: u64,
    refused: Vec<Refused>,
    /// Lines that an earlier, interrupted run had done.
    skipped: u64,
}

#[derive(Debug, Serialize)]
struct Refused {
    line: u64,
    why: String,
}

impl Import {
    pub(super) fn new(file: PathBuf, batch_rows: usize) -> Self {
        Self { file, batch_rows }
    }

    pub(super) async fn run(self, session: &Session) -> anyhow::Result<ExitCode> {
        let shown = self.file.display();
        let sha256 = digest(&self.file).with_context(|| format!("cannot read {shown}"))?;
        let mut progress = Progress::load(&self.file, &sha256);
        let mut lines = Lines::open(&self.file)?;
        let ingest = Ingest::new(session.database(), 1);
        let bar = bar(self.file.metadata()?.len());
        let mut tally = Tally::default();
        let mut batch: Vec<(u64, NewPayment)> = Vec::with_capacity(self.batch_rows);
        let mut records = 0;
        loop {
            let next = lines.next();
            if let Some(line) = &next {
                records += 1;
                if records <= progress.records_done {
                    tally.skipped += 1;
                    continue;
                }
                take(line, session, &mut batch, &mut tally);
            }
            if batch.len() >= self.batch_rows || next.is_none() {
                let done = send(&ingest, &mut batch, &mut tally).await;
                done.with_context(|| {
                    format!("{shown} is not finished; run the same command again to go on")
                })?;
                progress.records_done = records;
                progress.save()?;
                bar.set_position(lines.bytes_read());
            }
            if next.is_none() {
                break;
            }
        }
        bar.finish_and_clear();
        progress.remove()?;
        report(session, &self.file, tally)
    }
}

fn take(line: &Line, session: &Session, batch: &mut Vec<(u64, NewPayment)>, tally: &mut Tally) {
    let judged = match &line.payment {
        Ok(payment) => {
            session.know_rail(&payment.rail_type).map(|()| payment.clone()).map_err(|error| error.to_string())
        }
        Err(why) => Err(why.clone()),
    };
    match judged {
        Ok(payment) => batch.push((line.number, payment)),
        Err(why) => tally.refused.push(Refused { line: line.number, why }),
    }
}

async fn send(ingest: &Ingest, batch: &mut Vec<(u64, NewPayment)>, tally: &mut Tally) -> anyhow::Result<()> {
    let (numbers, payments): (Vec<u64>, Vec<NewPayment>) = batch.drain(..).unzip();
    if payments.is_empty() {
        return Ok(());
    }
    for (line, answer) in numbers.into_iter().zip(ingest.enqueue_batch(&payments).await?) {
        match answer {
            Ok(accepted) if accepted.replayed => tally.replayed += 1,
            Ok(_) => tally.accepted += 1,
            Err(error) => tally.refused.push(Refused { line, why: error.to_string() }),
        }
    }
    Ok(())
}

fn report(session: &Session, file: &std::path::Path, mut tally: Tally) -> anyhow::Result<ExitCode> {
    tally.refused.sort_by_key(|refused| refused.line);
    if session.json {
        println!("{}", json!(tally));
    } else {
        for refused in &tally.refused {
            eprintln!("{}:{}: {}", file.display(), refused.line, refused.why);
        }
        if tally.skipped > 0 {
            println!("{} line(s) had been done by an earlier run.", tally.skipped);
        }
        println!(
            "{} payment(s) accepted, {} known already, {} line(s) refused.",
            tally.accepted,
            tally.replayed,
            tally.refused.len()
        );
    }
    Ok(if tally.refused.is_empty() { ExitCode::SUCCESS } else { exit::refused_some() })
}

fn digest(file: &std::path::Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut file = File::open(file)?;
    let mut chunk = [0; 1 << 16];
    loop {
        let count = io::Read::read(&mut file, &mut chunk)?;
        if count == 0 {
            break;
        }
        digest.update(&chunk[..count]);
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {bytes} of {total_bytes}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}
