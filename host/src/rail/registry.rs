//! The rails of a folder, and swapping what speaks for them while calls are running.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::spawn_blocking;

use crate::faults::{CrashPoint, crash_point};

use super::artifact::{BYTES_MAX, Digest};
use super::definition::Definition;
use super::error::LoadError;
use super::event::{LoadEvent, LoadOutcome};
use super::file;
use super::loaded::{Loaded, digest_wanted};
use super::production::Rules;
use super::revoked::Revoked;
use super::sandbox::Sandbox;

/// A rail: a name, and the component that speaks for it at the moment.
#[derive(Debug)]
pub struct Rail {
    pub name: String,
    current: ArcSwap<Loaded>,
    /// The one before, for questions about what it sent.
    previous: Mutex<Option<Arc<Loaded>>>,
    /// Of the rail's file and everything it refers to, as loaded.
    seen: Mutex<Digest>,
    revoked: Arc<Revoked>,
    /// The component whose revocation was told.
    told: Mutex<Option<Digest>>,
    events: UnboundedSender<LoadEvent>,
}

impl Rail {
    /// For new calls. What it returns stays good for as long as it is held.
    pub fn current(&self) -> Arc<Loaded> {
        self.current.load_full()
    }

    /// The component with this digest while it is still loaded, the current one otherwise; none where that one is revoked.
    /// Where only the rail's file changed, what it says now counts, and so it does for how long a call may take.
    pub fn preferring(&self, digest: &Digest) -> Option<Arc<Loaded>> {
        let current = self.current();
        let previous = self.previous.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let asked_for = previous.filter(|loaded| {
            current.digest != *digest
                && loaded.digest == *digest
                && loaded.timeouts.call_ms <= current.timeouts.call_ms
        });
        [asked_for, Some(current)].into_iter().flatten().find(|loaded| !self.revoked.contains(&loaded.digest))
    }

    /// Whether the component that speaks for it may not: every call of it fails, until it is replaced.
    pub fn is_revoked(&self) -> bool {
        self.revoked.contains(&self.current().digest)
    }

    /// Once per component.
    fn tell_if_revoked(&self) {
        let (rail, current) = (&self.name, self.current());
        let digest = current.digest;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.revoked.contains(&digest) || *told == Some(digest) {
            return;
        }
        *told = Some(digest);
        let detail = LoadError::Revoked(digest).to_string();
        tracing::error!(rail, %digest, "{rail}: {detail}; nothing is sent until it is replaced");
        let event = LoadEvent {
            rail: rail.clone(),
            outcome: LoadOutcome::Revoked,
            component: Some(digest),
            file: current.file_digest,
            detail,
            added: false,
        };
        // Nobody listens where no record is kept.
        self.events.send(event).ok();
    }

    fn swap(&self, loaded: Loaded, seen: Digest) {
        crash_point(CrashPoint::Swapping);
        let to = loaded.digest;
        let old = self.current.swap(Arc::new(loaded));
        // The same component with the secrets and limits of yesterday is of no use to anybody.
        *self.previous.lock().unwrap_or_else(PoisonError::into_inner) = (old.digest != to).then_some(old);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }
}

/// All rails of a folder of rail files.
#[derive(Debug)]
pub struct Rails {
    pub(super) folder: PathBuf,
    rules: Rules,
    events: UnboundedSender<LoadEvent>,
    revoked: Arc<Revoked>,
    rails: RwLock<BTreeMap<String, Arc<Rail>>>,
}

/// What a reload did to a rail.
#[derive(Debug)]
pub enum Reloaded {
    Unchanged,
    Swapped {
        from: Digest,
        to: Digest,
    },
    Added(Digest),
    /// The rail goes on with what it had, if it had anything.
    Refused(LoadError),
    /// Its file is gone; it goes on with what it had.
    Missing,
}

impl Rails {
    /// Loads every rail of a folder; the first that fails stops the start. What becomes of each, then and later, is told to
    /// `events`, whether or not anybody listens.
    pub async fn load(
        sandbox: &Sandbox,
        folder: &Path,
        rules: Rules,
        events: UnboundedSender<LoadEvent>,
    ) -> Result<Self, LoadError> {
        let rails = Self {
            folder: folder.to_owned(),
            rules,
            events,
            revoked: Arc::default(),
            rails: RwLock::default(),
        };
        for path in files(folder)? {
            if let Reloaded::Refused(error) = rails.renew(sandbox, &path, false).await {
                return Err(error);
            }
        }
        Ok(rails)
    }

    pub fn get(&self, name: &str) -> Option<Arc<Rail>> {
        self.rails.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// By name.
    pub fn all(&self) -> Vec<Arc<Rail>> {
        self.rails.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// From now on these components may not speak, and are not loaded again. Those that are known already change nothing.
    pub fn revoke(&self, digests: &[Digest]) {
        self.revoked.add(digests);
        self.all().iter().for_each(|rail| rail.tell_if_revoked());
    }

    /// What each rail works with: its component and its file.
    pub fn digests(&self) -> BTreeMap<String, String> {
        let both = |loaded: &Loaded| format!("{} {}", loaded.digest, loaded.file_digest);
        self.all().iter().map(|rail| (rail.name.clone(), both(&rail.current()))).collect()
    }

    /// Looks at all files again and swaps in what changed. New calls go to the new component, calls in flight finish on the
    /// old one; a bad one changes nothing.
    pub async fn reload(&self, sandbox: &Sandbox) -> Result<BTreeMap<String, Reloaded>, LoadError> {
        let mut report: BTreeMap<String, Reloaded> =
            self.all().iter().map(|rail| (rail.name.clone(), Reloaded::Missing)).collect();
        for path in files(&self.folder)? {
            report.insert(name_of(&path), self.renew(sandbox, &path, true).await);
        }
        Ok(report)
    }

    /// Loads one rail if anything about it changed, and tells of it.
    async fn renew(&self, sandbox: &Sandbox, path: &Path, running: bool) -> Reloaded {
        let name = name_of(path);
        let (component, file, done) = match Definition::load(path) {
            Err(error) => {
                let file = Digest::of(&file::read(path, file::SMALL_BYTES_MAX).unwrap_or_default());
                (None, file, Reloaded::Refused(error))
            }
            Ok(definition) => {
                let wanted = digest_wanted(&definition);
                let done = self.exchange(sandbox, path, &definition).await;
                (
                    wanted,
                    definition.digest,
                    done.unwrap_or_else(|error| Reloaded::Refused(in_file(path, error))),
                )
            }
        };
        let (outcome, detail) = match &done {
            Reloaded::Unchanged | Reloaded::Missing => return done,
            Reloaded::Added(_) if running => (LoadOutcome::Loaded, "new while the host runs".to_owned()),
            Reloaded::Added(_) => (LoadOutcome::Loaded, "at the start".to_owned()),
            Reloaded::Swapped { from, .. } => (LoadOutcome::Loaded, format!("takes over from {from}")),
            Reloaded::Refused(error) => {
                let revoked = component.is_some_and(|digest| self.revoked.contains(&digest));
                (if revoked { LoadOutcome::Revoked } else { LoadOutcome::Refused }, error.to_string())
            }
        };
        let added = running && matches!(done, Reloaded::Added(_));
        // Nobody listens where no record is kept.
        self.events.send(LoadEvent { rail: name, outcome, component, file, detail, added }).ok();
        done
    }

    async fn exchange(
        &self,
        sandbox: &Sandbox,
        path: &Path,
        definition: &Definition,
    ) -> Result<Reloaded, LoadError> {
        let seen = fingerprint(definition).await;
        let rail = self.get(&definition.name);
        let known = rail.as_ref().map(|rail| *rail.seen.lock().unwrap_or_else(PoisonError::into_inner));
        if known == Some(seen) {
            return Ok(Reloaded::Unchanged);
        }
        let refused = |problem: String| LoadError::Definition { path: path.to_owned(), problem };
        if self.rules.production
            && let Some(problem) = definition.refused_in_production()
        {
            return Err(refused(problem));
        }
        if let Some(digest) = digest_wanted(definition).filter(|digest| self.revoked.contains(digest)) {
            return Err(LoadError::Revoked(digest));
        }
        let loaded = Loaded::load(sandbox, definition).await?.revocable(self.revoked.clone());
        let to = loaded.digest;
        match rail {
            // The database goes by what it was told of these.
            Some(rail) if rail.current().promises() != loaded.promises() => {
                let problem =
                    "idempotent, hand_over_marks or rate changed, expected a start after railhost migrate";
                Err(refused(problem.to_owned()))
            }
            Some(rail) => {
                let from = rail.current().digest;
                rail.swap(loaded, seen);
                Ok(Reloaded::Swapped { from, to })
            }
            None => {
                self.add(&definition.name, loaded, seen);
                Ok(Reloaded::Added(to))
            }
        }
    }

    fn add(&self, name: &str, loaded: Loaded, seen: Digest) {
        let rail = Rail {
            name: name.to_owned(),
            current: ArcSwap::from_pointee(loaded),
            previous: Mutex::default(),
            seen: Mutex::new(seen),
            revoked: self.revoked.clone(),
            told: Mutex::default(),
            events: self.events.clone(),
        };
        self.rails.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::new(rail));
    }
}

fn name_of(path: &Path) -> String {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned()
}

fn in_file(path: &Path, error: LoadError) -> LoadError {
    match error {
        named @ (LoadError::Definition { .. } | LoadError::Unreadable { .. }) => named,
        other => LoadError::Definition { path: path.to_owned(), problem: other.to_string() },
    }
}

pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let unreadable = |error| LoadError::Unreadable { path: folder.to_owned(), error };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Changes when the rail's file does, or the content of any file that it refers to: component, signature, secrets, keys and
/// certificates.
async fn fingerprint(definition: &Definition) -> Digest {
    let (file, referred) = (definition.digest, definition.refers_to());
    let look = move || {
        let mut all = file.as_bytes().to_vec();
        for path in referred {
            // One that cannot be read differs from an empty one.
            let content = file::read(&path, BYTES_MAX).map(|bytes| Digest::of(&bytes));
            all.push(u8::from(content.is_ok()));
            all.extend_from_slice(content.unwrap_or(file).as_bytes());
        }
        Digest::of(&all)
    };
    // It fails with the process only.
    spawn_blocking(look).await.unwrap_or(file)
}
