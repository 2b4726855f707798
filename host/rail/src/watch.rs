//! Notices that a rail file or a file that it refers to changed, and swaps in what is new.

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::definition::Definition;
use super::error::LoadError;
use super::registry::{Rails, Reloaded, files};
use super::sandbox::Sandbox;

impl Rails {
    /// Looks for changes again and again, and at once on SIGHUP, for as long as it is polled.
    pub async fn watch(&self, sandbox: &Sandbox, every: Duration) -> io::Result<Infallible> {
        let mut hangup = signal(SignalKind::hangup())?;
        // Nothing is known at first: what changed since it was loaded is found by the first look.
        let mut known = None;
        loop {
            let asked = tokio::select! {
                _ = hangup.recv() => true,
                () = sleep(every) => false,
            };
            // Taken before the files are read: one that is still being written differs at the next look.
            let now = Some(stamps(&self.folder).await?);
            if self.look_again.swap(false, Ordering::AcqRel) || asked || now != known {
                known = now;
                report(match asked {
                    true => self.reload_asked(sandbox).await,
                    false => self.reload(sandbox).await,
                });
            }
        }
    }
}

type Stamps = Vec<(PathBuf, Option<Stamp>)>;

/// The file itself, when the kernel last saw it change in any way, and how long it is. Nobody can set the second of these.
#[derive(PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    changed: (i64, i64),
    bytes: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = path.metadata().ok()?;
        Some(Self {
            file: (found.dev(), found.ino()),
            changed: (found.ctime(), found.ctime_nsec()),
            bytes: found.len(),
        })
    }
}

/// Of every rail file and what it refers to.
async fn stamps(folder: &Path) -> io::Result<Stamps> {
    let folder = folder.to_owned();
    let look = move || {
        let mut paths = files(&folder).unwrap_or_default();
        for path in paths.clone() {
            paths.extend(Definition::load(&path).iter().flat_map(Definition::refers_to));
        }
        paths.into_iter().map(|path| (path.clone(), Stamp::of(&path))).collect()
    };
    Ok(spawn_blocking(look).await?)
}

fn report(reloaded: Result<std::collections::BTreeMap<String, Reloaded>, LoadError>) {
    let rails = match reloaded {
        Ok(rails) => rails,
        Err(error) => {
            tracing::error!(%error, "rail files cannot be reloaded; all rails continue unchanged: {error}");
            return;
        }
    };
    for (rail, done) in rails {
        match done {
            Reloaded::Unchanged => {}
            Reloaded::StillRefused(why) => {
                tracing::info!(
                    rail,
                    why,
                    "{rail}: its new file is still refused; the rail continues unchanged: {why}"
                );
            }
            Reloaded::Swapped { from, to } if from == to => {
                tracing::info!(rail, %to, "{rail}: reloaded with the same component {to}");
            }
            Reloaded::Swapped { from, to } => {
                tracing::info!(rail, %from, %to, "{rail}: component {to} takes over from {from}");
            }
            Reloaded::Added(digest) => tracing::info!(rail, %digest, "{rail}: new, component {digest}"),
            Reloaded::Missing => {
                tracing::warn!(rail, "{rail}: its file was removed; the rail continues unchanged")
            }
            Reloaded::Refused(error) => {
                tracing::error!(rail, %error, "{rail}: its new file is refused; the rail continues unchanged: {error}");
            }
        }
    }
}
