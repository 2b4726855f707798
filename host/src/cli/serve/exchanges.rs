//! Keeps every exchange of a host without secrets, as cases that `plugin replay` judges again: `FOLDER/RAIL.jsonl`, a line each.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use conformance::{Case, CaseOperation};
use rail::Task;
use relayer::Exchanged;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use verdict::answer::CallResult;

/// Writes until the last sender is gone.
pub(super) fn keep(folder: &Path) -> anyhow::Result<(UnboundedSender<Exchanged>, JoinHandle<()>)> {
    fs::create_dir_all(folder).with_context(|| format!("relayer.record_to, {}", folder.display()))?;
    let (sender, receiver) = unbounded_channel();
    let folder = folder.to_owned();
    Ok((sender, tokio::task::spawn_blocking(move || write(&folder, receiver))))
}

fn write(folder: &Path, mut exchanged: UnboundedReceiver<Exchanged>) {
    let mut files: BTreeMap<String, File> = BTreeMap::new();
    while let Some(exchanged) = exchanged.blocking_recv() {
        let rail = exchanged.rail.clone();
        let Some(case) = case(exchanged) else { continue };
        let kept = line(folder, &mut files, &rail, &case);
        if let Err(error) = kept {
            tracing::error!(rail, %error, "an exchange was not kept: {error:#}");
        }
    }
}

/// Of a call that came to a reply: nobody can judge a trap or a silence again.
fn case(exchanged: Exchanged) -> Option<Case> {
    if !matches!(exchanged.report.heard, CallResult::Reading(_) | CallResult::Unprepared { .. }) {
        return None;
    }
    let operation = match exchanged.task {
        Task::Disburse => CaseOperation::Disburse,
        Task::Query => CaseOperation::QueryStatus,
        Task::Validate => return None,
    };
    let payment = serde_json::from_str(&exchanged.payment.payload).ok()?;
    let outbox_id = exchanged.payment.ids.outbox_id;
    Case::of(operation, outbox_id, payment, exchanged.captured, &exchanged.report)
}

fn line(folder: &Path, files: &mut BTreeMap<String, File>, rail: &str, case: &Case) -> anyhow::Result<()> {
    let file = match files.get_mut(rail) {
        Some(file) => file,
        None => {
            let path: PathBuf = folder.join(format!("{rail}.jsonl"));
            let file = OpenOptions::new().create(true).append(true).open(&path);
            let file = file.with_context(|| path.display().to_string())?;
            files.entry(rail.to_owned()).or_insert(file)
        }
    };
    // In one write: hosts that share a folder, and one that is killed, leave whole lines.
    let line = serde_json::to_string(case)? + "\n";
    Ok(file.write_all(line.as_bytes())?)
}
