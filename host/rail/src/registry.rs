//! The rails of a folder, and swapping what speaks for them while calls are running.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use faults::{CrashPoint, crash_point};

use super::artifact::BYTES_MAX;
use super::definition::Definition;
use super::error::LoadError;
use super::event::{LoadEvent, LoadOutcome};
use super::file;
use super::loaded::{Loaded, digest_wanted};
use super::production::Rules;
use super::revoked::Revoked;
use super::sandbox::Sandbox;
use verdict::call_error::CallError;
use verdict::digest::Digest;

/// A rail: a name, and the component that speaks for it at the moment.
#[derive(Debug)]
pub struct Rail {
    pub name: String,
    current: ArcSwap<Loaded>,
    /// The component before, for questions about what it sent.
    previous: Mutex<Option<Arc<Loaded>>>,
    /// What was loaded before, perhaps the same component with older keys.
    rotated: Mutex<Option<Arc<Loaded>>>,
    /// Of the rail file and everything it refers to, as loaded.
    seen: Mutex<Digest>,
    /// The database may have been told what its file promises: that changes with `railhost migrate` only.
    is_promised: AtomicBool,
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
    /// Where only the rail file changed, what it says now counts, and so it does for how long a call may take.
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

    /// Whether a callback comes from where an adapter of this rail had it sent to, under its present key or the one before.
    pub fn vouches(&self, outbox_id: Uuid, proof: &str) -> bool {
        let rotated = self.rotated.lock().unwrap_or_else(PoisonError::into_inner).clone();
        [Some(self.current()), rotated].iter().flatten().any(|loaded| loaded.vouches(outbox_id, proof))
    }

    /// Whether the component that speaks for it may not: every call of it fails, until it is replaced.
    pub fn is_revoked(&self) -> bool {
        self.revoked.contains(&self.current().digest)
    }

    /// Whether what its file promises has to stay as it is. One that is not served yet may still be put right.
    pub fn set_promised(&self, is_promised: bool) {
        self.is_promised.store(is_promised, Ordering::Release);
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
        };
        // Nobody listens where no record is kept.
        self.events.send(event).ok();
    }

    fn swap(&self, loaded: Loaded, seen: Digest) {
        crash_point(CrashPoint::Swapping);
        let to = loaded.digest;
        let old = self.current.swap(Arc::new(loaded));
        // One with the secrets and limits of yesterday is of no use to a question.
        *self.previous.lock().unwrap_or_else(PoisonError::into_inner) =
            (old.digest != to).then(|| old.clone());
        *self.rotated.lock().unwrap_or_else(PoisonError::into_inner) = Some(old);
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
    /// What was refused last, by the rail file: in which state, and why.
    refused: Mutex<BTreeMap<PathBuf, (Digest, String)>>,
    /// Something could not be loaded just now, and may be a moment later.
    pub(super) look_again: AtomicBool,
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
    /// Nothing changed since it was refused, and so it was not tried again. The reason is the one of then.
    StillRefused(String),
    /// Its file is gone; it goes on with what it had.
    Missing,
}

/// Why the files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    Start,
    Change,
    /// Somebody wants it.
    Asked,
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
            refused: Mutex::default(),
            look_again: AtomicBool::new(false),
        };
        for path in files(folder)? {
            if let Reloaded::Refused(error) = rails.renew(sandbox, &path, Occasion::Start).await {
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
    /// old one; a bad one changes nothing. What was refused before is tried again only where something about it changed:
    /// a component that is endless to compile costs a minute each time.
    pub async fn reload(&self, sandbox: &Sandbox) -> Result<BTreeMap<String, Reloaded>, LoadError> {
        self.look(sandbox, Occasion::Change).await
    }

    /// The same for somebody who asks: what was refused is tried again. A full disk or a busy machine may have been the reason.
    pub async fn reload_asked(&self, sandbox: &Sandbox) -> Result<BTreeMap<String, Reloaded>, LoadError> {
        self.look(sandbox, Occasion::Asked).await
    }

    async fn look(
        &self,
        sandbox: &Sandbox,
        occasion: Occasion,
    ) -> Result<BTreeMap<String, Reloaded>, LoadError> {
        let mut report: BTreeMap<String, Reloaded> =
            self.all().iter().map(|rail| (rail.name.clone(), Reloaded::Missing)).collect();
        let paths = files(&self.folder)?;
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).retain(|path, _| paths.contains(path));
        for path in &paths {
            report.insert(name_of(path), self.renew(sandbox, path, occasion).await);
        }
        Ok(report)
    }

    /// Loads one rail if anything about it changed, and tells of it.
    async fn renew(&self, sandbox: &Sandbox, path: &Path, occasion: Occasion) -> Reloaded {
        let name = name_of(path);
        let ScannedFile { definition, file, seen, state } = ScannedFile::at(path).await;
        if occasion == Occasion::Change
            && let Some(why) = self.refused_before(path, &state)
        {
            return Reloaded::StillRefused(why);
        }
        let component = definition.as_ref().ok().and_then(digest_wanted);
        let done = match definition {
            Ok(definition) => self.exchange(sandbox, path, &definition, seen, occasion).await,
            Err(error) => Err(error),
        };
        // It says nothing of the component, and passes by itself.
        let passes = matches!(&done, Err(LoadError::Describe(CallError::Busy(_))));
        let done = done.unwrap_or_else(|error| Reloaded::Refused(in_file(path, error)));
        if passes {
            self.look_again.store(true, Ordering::Release);
            return done;
        }
        self.remember(path, state, &done);
        let (outcome, detail) = match &done {
            Reloaded::Unchanged | Reloaded::Missing | Reloaded::StillRefused(_) => return done,
            Reloaded::Added(_) if occasion == Occasion::Start => {
                (LoadOutcome::Loaded, "at the start".to_owned())
            }
            Reloaded::Added(_) => (LoadOutcome::Loaded, "new while the host runs".to_owned()),
            Reloaded::Swapped { from, .. } => (LoadOutcome::Loaded, format!("takes over from {from}")),
            Reloaded::Refused(error) => {
                let revoked = component.is_some_and(|digest| self.revoked.contains(&digest));
                (if revoked { LoadOutcome::Revoked } else { LoadOutcome::Refused }, error.to_string())
            }
        };
        // Nobody listens where no record is kept.
        self.events.send(LoadEvent { rail: name, outcome, component, file, detail }).ok();
        done
    }

    fn refused_before(&self, path: &Path, state: &Digest) -> Option<String> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(path).filter(|(then, _)| then == state).map(|(_, why)| why.clone())
    }

    fn remember(&self, path: &Path, state: Digest, done: &Reloaded) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Reloaded::Refused(error) => {
                refused.insert(path.to_owned(), (state, error.to_string()));
            }
            _ => {
                refused.remove(path);
            }
        }
    }

    async fn exchange(
        &self,
        sandbox: &Sandbox,
        path: &Path,
        definition: &Definition,
        seen: Digest,
        occasion: Occasion,
    ) -> Result<Reloaded, LoadError> {
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
        if let Some(examine) = self.rules.examine {
            // A pair does not choose whether it is examined.
            if definition.file.exchanges.is_none()
                && rail.as_ref().is_some_and(|rail| rail.current().is_examined)
            {
                return Err(refused(
                    "exchanges is missing; expected the recorded exchanges that the previous rail file was tested with"
                        .to_owned(),
                ));
            }
            examine(sandbox, definition).await?;
        }
        let loaded = Loaded::load(sandbox, definition).await?.revocable(self.revoked.clone());
        let loaded = if self.rules.recorded { loaded.recorded() } else { loaded };
        let to = loaded.digest;
        match rail {
            // The database goes by what it was told of these.
            Some(rail)
                if rail.is_promised.load(Ordering::Acquire)
                    && rail.current().promises() != loaded.promises() =>
            {
                let problem = "idempotent, hand_over_marks, rate, sla_seconds, the provider or the form of the key changed, run railhost migrate and restart the host";
                Err(refused(problem.to_owned()))
            }
            Some(rail) => {
                let from = rail.current().digest;
                rail.swap(loaded, seen);
                Ok(Reloaded::Swapped { from, to })
            }
            None => {
                self.add(&definition.name, loaded, seen, occasion == Occasion::Start);
                Ok(Reloaded::Added(to))
            }
        }
    }

    fn add(&self, name: &str, loaded: Loaded, seen: Digest, is_promised: bool) {
        let rail = Rail {
            name: name.to_owned(),
            current: ArcSwap::from_pointee(loaded),
            previous: Mutex::default(),
            rotated: Mutex::default(),
            seen: Mutex::new(seen),
            is_promised: AtomicBool::new(is_promised),
            revoked: self.revoked.clone(),
            told: Mutex::default(),
            events: self.events.clone(),
        };
        self.rails.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::new(rail));
    }
}

/// A rail file as it was found, with everything that decides whether it can be loaded.
struct ScannedFile {
    definition: Result<Definition, LoadError>,
    /// Of the file itself.
    file: Digest,
    /// Of that, and of the content of all that it refers to: component, signature, secrets, keys and certificates.
    seen: Digest,
    /// Of that, and of who may read and write these files.
    state: Digest,
}

impl ScannedFile {
    async fn at(path: &Path) -> Self {
        match Definition::load(path) {
            Ok(definition) => {
                let (seen, state) = fingerprints(path, &definition).await;
                Self { file: definition.digest, definition: Ok(definition), seen, state }
            }
            Err(error) => {
                let file = Digest::of(&file::read(path, file::SMALL_BYTES_MAX).unwrap_or_default());
                Self { definition: Err(error), file, seen: file, state: file }
            }
        }
    }
}

/// For people: a file whose name is not UTF-8 is refused, and told of all the same.
fn name_of(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
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

/// What is seen of a rail files, and the state that they are in.
async fn fingerprints(path: &Path, definition: &Definition) -> (Digest, Digest) {
    let (own, file, referred) = (path.to_owned(), definition.digest, definition.refers_to());
    let look = move || {
        let mode = |path: &Path| fs::metadata(path).map_or(0, |found| found.mode()).to_le_bytes();
        let (mut all, mut modes) = (file.as_bytes().to_vec(), mode(&own).to_vec());
        for path in referred {
            let content = file::open(&path).and_then(|opened| Digest::of_reader(opened.take(BYTES_MAX + 1)));
            // One that cannot be read differs from an empty one.
            all.push(u8::from(content.is_ok()));
            all.extend_from_slice(content.unwrap_or(file).as_bytes());
            modes.extend_from_slice(&mode(&path));
        }
        let seen = Digest::of(&all);
        all.extend_from_slice(&modes);
        (seen, Digest::of(&all))
    };
    // It fails with the process only.
    spawn_blocking(look).await.unwrap_or((file, file))
}
