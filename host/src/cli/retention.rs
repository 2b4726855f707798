use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{self, Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use futures_util::TryStreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use outbox::retain::{Month, Retention};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::session::CommandContext;
use crate::config::Config;
use terminal::print::{out, out_json, say, table};

#[derive(Debug, Args)]
pub(super) struct RetentionArgs {
    /// Only show the months and why each is kept.
    #[arg(long)]
    dry_run: bool,
    /// Folder for the exports. Default: retention.export_folder of the configuration, relative to the
    /// configuration file. Only their owner may read them.
    #[arg(long, value_name = "FOLDER")]
    export: Option<PathBuf>,
}

impl RetentionArgs {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        let settings = &session.config.retention;
        let folder = self.folder(&session.config)?;
        let retention = Retention::new(session.database(), settings.attempts_days);
        let mut made = 0;
        let mut retired = Vec::new();
        if !self.dry_run {
            made = retention.create_ahead(settings.months_ahead).await?;
            for month in retention.months().await? {
                if month.obstacle.is_none() {
                    retire(&retention, &month, &folder)
                        .await
                        .with_context(|| month.partition_name.clone())?;
                    retired.push(month.partition_name);
                }
            }
        }
        let months = retention.months().await?;
        let days_left = retention.days_left().await?;
        if session.json {
            out_json(&json!({
                "months_made": made, "retired": retired, "export_folder": folder, "days_left": days_left, "months": months
            }))?;
        } else {
            out(&format!(
                "{made} month(s) created ahead, {} retired; partitions exist for the next {days_left:.0} days. Exports go to {}. What is kept:\n{}",
                retired.len(),
                folder.display(),
                table(
                    &["month", "from", "until", "why it stays"],
                    &months.iter().map(row).collect::<Vec<_>>()
                )
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Absolute: the same exports go to the same place wherever the command runs.
    fn folder(&self, config: &Config) -> io::Result<PathBuf> {
        match &self.export {
            Some(folder) => path::absolute(folder),
            None => {
                let beside = config.file.parent().unwrap_or(Path::new(""));
                path::absolute(beside.join(&config.retention.export_folder))
            }
        }
    }
}

/// In the only order that loses nothing: out to a file, verdicts to the permanent record, then away. A run that was
/// interrupted exports again: since then the month may have got another row.
async fn retire(retention: &Retention, month: &Month, folder: &Path) -> anyhow::Result<()> {
    if month.detached_at.is_none() {
        export(retention, month, folder).await?;
        let progress = bar(&format!("{}: copying verdicts", month.partition_name));
        loop {
            match retention.copy_verdicts(month).await? {
                0 => break,
                rows => progress.inc(u64::from(rows.unsigned_abs())),
            }
        }
        progress.finish_and_clear();
    }
    retention.detach_and_drop(month).await?;
    Ok(())
}

async fn export(retention: &Retention, month: &Month, folder: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{}.jsonl", retention.export_name(month)));
    let partial = path.with_extension("jsonl.partial");
    let mut file = BufWriter::new(
        private_file(&partial).with_context(|| format!("cannot write {}", partial.display()))?,
    );
    let mut digest = Sha256::new();
    let mut rows = 0_i64;
    let progress = bar(&format!("{}: exporting", month.partition_name));
    let mut lines = pin!(retention.rows(month));
    while let Some(mut line) = lines.try_next().await? {
        line.push('\n');
        digest.update(&line);
        file.write_all(line.as_bytes())?;
        rows += 1;
        progress.inc(1);
    }
    progress.finish_and_clear();
    let sha256 = hex::encode(digest.finalize());
    refuse_unknown_export(&path, &[Some(&sha256), month.exported_sha256.as_ref()])?;
    // On disk under its final name before the database hears of it.
    file.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    fs::rename(&partial, &path)?;
    File::open(folder)?.sync_all()?;
    retention.note_export(month, rows, &sha256).await?;
    say(&format!("{} rows exported to {} (SHA-256 {sha256}).", rows, path.display()));
    Ok(())
}

/// Another outbox may export into the same folder. What it wrote is all that is left of its month.
fn refuse_unknown_export(path: &Path, ours: &[Option<&String>]) -> anyhow::Result<()> {
    let mut there = match File::open(path) {
        Ok(there) => BufReader::with_capacity(1 << 20, there),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut digest = Sha256::new();
    loop {
        let read = there.fill_buf()?.len();
        if read == 0 {
            break;
        }
        digest.update(there.buffer());
        there.consume(read);
    }
    let there = hex::encode(digest.finalize());
    if !ours.contains(&Some(&there)) {
        bail!(
            "{} is there already, and this outbox does not know it (SHA-256 {there}): move it away, or give each outbox an export folder of its own",
            path.display()
        );
    }
    Ok(())
}

/// A new file that only its owner may read: payments are in it.
fn private_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn bar(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {human_pos} rows, {per_sec}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::no_length().with_style(style).with_message(what.to_owned())
}

fn row(month: &Month) -> Vec<String> {
    vec![
        month.partition_name.clone(),
        month.from_at.format("%F").to_string(),
        month.until_at.format("%F").to_string(),
        month.obstacle.clone().unwrap_or_else(|| "ready to go".to_owned()),
    ]
}
