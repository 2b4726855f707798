//! Loading rails, and swapping their components while calls are running.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use uuid::Uuid;
use wasmtime::component::InstancePre;

use crate::faults::{CrashPoint, crash_point};

use super::artifact::{self, Digest, Outline};
use super::call::{Description, Need};
use super::codes::CodeTable;
use super::contract::{Functions, RailAdapterPre};
use super::definition::{BUILTIN, Definition, Kind, Rate};
use super::desk::Inside;
use super::egress::dial::Dialer;
use super::egress::wire::Wire;
use super::egress::{Carrier, Gate, Script, tls};
use super::error::{CallError, LoadError};
use super::host::State;
use super::limits::{Limits, Timeouts};
use super::pace::Pace;
use super::sandbox::Sandbox;
use super::tokens::Tokens;
use super::vault::Vault;

/// The name of the key that makes callback addresses.
const CALLBACK_KEY: &str = "callback";

/// An adapter, ready to be called, with everything that its rail's file says.
pub struct Loaded {
    pub digest: Digest,
    pub description: Description,
    pub kind: Kind,
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub pace: Pace,
    /// For all hosts together.
    pub rate: Option<Rate>,
    pub codes: CodeTable,
    pub idempotent: bool,
    pub hand_over_marks: bool,
    /// Nothing had to be compiled.
    pub was_warm: bool,
    pub(super) inside: Arc<Inside>,
    pub(super) adapter: InstancePre<State>,
    pub(super) functions: Functions,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Loaded {
    pub async fn load(sandbox: &Sandbox, definition: &Definition) -> Result<Self, LoadError> {
        let file = &definition.file;
        let dialer = Dialer {
            reach: file.network.reach,
            timeout: file.timeouts.connect(),
            tls: tls::client(definition)?,
            resolver: sandbox.resolver.clone(),
        };
        let wire = Wire::new(dialer, file.timeouts.clone());
        let loaded =
            Self::assemble(sandbox, definition, Carrier::Wire(wire), Vault::open(definition)?).await?;
        loaded.check_needs()?;
        Ok(loaded)
    }

    /// What the database has to know of the rail, too.
    fn promises(&self) -> (bool, bool, Option<Rate>) {
        (self.idempotent, self.hand_over_marks, self.rate)
    }

    /// The same without a network: a script answers, and secrets and keys are made up.
    pub async fn offline(
        sandbox: &Sandbox,
        definition: &Definition,
        script: Arc<dyn Script>,
    ) -> Result<Self, LoadError> {
        let loaded =
            Self::assemble(sandbox, definition, Carrier::Script(script), Vault::made_up(definition)?).await?;
        loaded.check_needs()?;
        Ok(loaded)
    }

    /// What a component says of itself, whether or not the rail's file gives what it needs.
    pub async fn describe_only(
        sandbox: &Sandbox,
        definition: &Definition,
        script: Arc<dyn Script>,
    ) -> Result<Description, LoadError> {
        let vault = Vault::made_up(definition)?;
        Ok(Self::assemble(sandbox, definition, Carrier::Script(script), vault).await?.description)
    }

    /// From bytes to an adapter that has described itself. Any step that fails leaves nothing behind.
    async fn assemble(
        sandbox: &Sandbox,
        definition: &Definition,
        carrier: Carrier,
        vault: Vault,
    ) -> Result<Self, LoadError> {
        let bytes = component_bytes(definition)?;
        let digest = Digest::of(&bytes);
        check_pins(definition, &digest)?;
        Outline::read(&bytes)?.check(definition.file.profile)?;

        let (component, found) = {
            let (cache, engine) = (sandbox.cache.clone(), sandbox.engine.clone());
            tokio::task::spawn_blocking(move || cache.component(&engine, &digest, &bytes))
                .await
                .map_err(|error| LoadError::Compile(error.to_string()))??
        };
        let mismatch = |error: wasmtime::Error| LoadError::Mismatch(format!("{error:#}"));
        let linked = sandbox.linker(definition.file.profile).instantiate_pre(&component).map_err(mismatch)?;
        let adapter = RailAdapterPre::new(linked).map_err(mismatch)?.instance_pre().clone();
        let functions = Functions::find(&component)
            .ok_or_else(|| LoadError::Mismatch("it lacks a function of the contract".to_owned()))?;

        let file = &definition.file;
        let inside = Inside {
            settings: file.settings.clone(),
            gate: Gate { endpoints: definition.endpoints.clone(), carrier, limits: file.limits.clone() },
            vault,
            tokens: Tokens::new(&file.tokens),
        };
        let mut loaded = Self {
            digest,
            description: Description::unknown(),
            kind: file.kind,
            limits: file.limits.clone(),
            timeouts: file.timeouts.clone(),
            pace: file.pace.clone(),
            rate: file.rate,
            codes: file.codes.clone(),
            idempotent: file.idempotent,
            hand_over_marks: file.hand_over_marks,
            was_warm: found == super::cache::Found::Warm,
            inside: Arc::new(inside),
            adapter,
            functions,
        };
        loaded.description = loaded.describe(sandbox).await.map_err(|error| match error {
            CallError::Mismatch(why) => LoadError::Mismatch(why),
            other => LoadError::Describe(other),
        })?;
        loaded.description.can_query &= definition.file.status_query;
        Ok(loaded)
    }

    /// As if no call had been before.
    pub(crate) fn forget_sessions(&self) {
        self.inside.tokens.forget();
    }

    /// Whether a callback about a payment comes from where the adapter had it sent to: the proof is an HMAC of the outbox id under
    /// the key `callback`.
    pub fn vouches(&self, outbox_id: Uuid, proof: &str) -> bool {
        let expected = self.inside.vault.hmac(CALLBACK_KEY, outbox_id.to_string().as_bytes());
        match (expected, hex::decode(proof)) {
            (Ok(expected), Ok(proof)) => verify_slices_are_equal(&expected, &proof).is_ok(),
            _ => false,
        }
    }

    /// What the adapter cannot do without must be in the rail's file.
    fn check_needs(&self) -> Result<(), LoadError> {
        let unmet = |kind: &'static str, needs: &[Need], given: &dyn Fn(&str) -> bool| match needs
            .iter()
            .find(|need| need.required && !given(&need.name))
        {
            Some(need) => {
                Err(LoadError::Unmet { kind, name: need.name.clone(), purpose: need.purpose.clone() })
            }
            None => Ok(()),
        };
        let (described, inside) = (&self.description, &self.inside);
        unmet("setting", &described.settings, &|name| inside.settings.contains_key(name))?;
        unmet("secret", &described.secrets, &|name| inside.vault.secret(name).is_some())?;
        unmet("key", &described.keys, &|name| inside.vault.key_names().any(|key| key == name))?;
        unmet("token", &described.tokens, &|name| inside.tokens.names().any(|token| token == name))
    }
}

impl Description {
    fn unknown() -> Self {
        Self {
            name: String::new(),
            version: String::new(),
            currencies: Vec::new(),
            can_query: false,
            settings: Vec::new(),
            secrets: Vec::new(),
            keys: Vec::new(),
            tokens: Vec::new(),
        }
    }
}

fn component_bytes(definition: &Definition) -> Result<Vec<u8>, LoadError> {
    if let Some(name) = definition.file.component.strip_prefix(BUILTIN) {
        return crate::builtin::component(name).map(<[u8]>::to_vec).ok_or_else(|| LoadError::Definition {
            path: definition.path(Path::new(&format!("{}.toml", definition.name))),
            problem: format!(
                "component is {BUILTIN}{name}, expected one of {}",
                crate::builtin::names().join(", ")
            ),
        });
    }
    artifact::read(&definition.path(Path::new(&definition.file.component)))
}

fn check_pins(definition: &Definition, digest: &Digest) -> Result<(), LoadError> {
    if let Some(pinned) = &definition.file.sha256
        && Digest::parse(pinned) != Some(*digest)
    {
        return Err(LoadError::WrongDigest { pinned: pinned.clone(), found: digest.to_string() });
    }
    let Some(signature) = &definition.file.signature else { return Ok(()) };
    let path = definition.path(&signature.file);
    let text =
        fs::read_to_string(&path).map_err(|error| LoadError::Unreadable { path: path.clone(), error })?;
    let trusted: Vec<[u8; 32]> =
        signature.trusted.iter().filter_map(|key| hex::decode(key).ok()?.try_into().ok()).collect();
    match hex::decode(text.trim()) {
        Ok(bytes) if artifact::is_signed(digest, &bytes, &trusted) => Ok(()),
        _ => Err(LoadError::WrongSignature { path }),
    }
}

/// A rail: a name, and the component that speaks for it at the moment.
#[derive(Debug)]
pub struct Rail {
    pub name: String,
    current: ArcSwap<Loaded>,
    /// The one before, for questions about what it sent.
    previous: Mutex<Option<Arc<Loaded>>>,
}

impl Rail {
    fn new(name: &str, loaded: Loaded) -> Self {
        Self { name: name.to_owned(), current: ArcSwap::from_pointee(loaded), previous: Mutex::default() }
    }

    /// For new calls. What it returns stays good for as long as it is held.
    pub fn current(&self) -> Arc<Loaded> {
        self.current.load_full()
    }

    /// The component with this digest while it is still loaded, the current one otherwise. Where only the rail's file
    /// changed, what it says now counts, and so it does for how long a call may take.
    pub fn preferring(&self, digest: &Digest) -> Arc<Loaded> {
        let current = self.current();
        let previous = self.previous.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match previous {
            Some(loaded)
                if current.digest != *digest
                    && loaded.digest == *digest
                    && loaded.timeouts.call_ms <= current.timeouts.call_ms =>
            {
                loaded
            }
            _ => current,
        }
    }

    fn swap(&self, loaded: Loaded) {
        crash_point(CrashPoint::Swapping);
        let old = self.current.swap(Arc::new(loaded));
        *self.previous.lock().unwrap_or_else(PoisonError::into_inner) = Some(old);
    }
}

/// All rails of a folder of rail files.
#[derive(Debug)]
pub struct Rails {
    pub(super) folder: PathBuf,
    slots: RwLock<BTreeMap<String, Slot>>,
}

#[derive(Debug, Clone)]
struct Slot {
    rail: Arc<Rail>,
    /// Of the rail's file and everything it refers to, as loaded.
    seen: Digest,
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
    /// Loads every rail of a folder; the first that fails stops the start.
    pub async fn load(sandbox: &Sandbox, folder: &Path) -> Result<Self, LoadError> {
        let mut slots = BTreeMap::new();
        for path in files(folder)? {
            let definition = Definition::load(&path)?;
            let seen = fingerprint(&path, &definition);
            let loaded = Loaded::load(sandbox, &definition).await.map_err(|error| in_file(&path, error))?;
            let rail = Arc::new(Rail::new(&definition.name, loaded));
            slots.insert(definition.name, Slot { rail, seen });
        }
        Ok(Self { folder: folder.to_owned(), slots: RwLock::new(slots) })
    }

    pub fn get(&self, name: &str) -> Option<Arc<Rail>> {
        self.slot(name).map(|slot| slot.rail)
    }

    /// By name.
    pub fn all(&self) -> Vec<Arc<Rail>> {
        self.slots
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .map(|slot| slot.rail.clone())
            .collect()
    }

    fn slot(&self, name: &str) -> Option<Slot> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Looks at all files again and swaps in what changed. New calls go to the new component, calls in flight finish on the
    /// old one; a bad one changes nothing.
    pub async fn reload(&self, sandbox: &Sandbox) -> Result<BTreeMap<String, Reloaded>, LoadError> {
        let mut report: BTreeMap<String, Reloaded> =
            self.all().iter().map(|rail| (rail.name.clone(), Reloaded::Missing)).collect();
        for path in files(&self.folder)? {
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
            let done = match Definition::load(&path) {
                Err(error) => Reloaded::Refused(error),
                Ok(definition) => self.renew(sandbox, &path, definition).await,
            };
            report.insert(name, done);
        }
        Ok(report)
    }

    async fn renew(&self, sandbox: &Sandbox, path: &Path, definition: Definition) -> Reloaded {
        let seen = fingerprint(path, &definition);
        let slot = self.slot(&definition.name);
        if slot.as_ref().is_some_and(|slot| slot.seen == seen) {
            return Reloaded::Unchanged;
        }
        let loaded = match Loaded::load(sandbox, &definition).await {
            Ok(loaded) => loaded,
            Err(error) => return Reloaded::Refused(in_file(path, error)),
        };
        let to = loaded.digest;
        let (rail, done) = match slot {
            // The database goes by what it was told of these.
            Some(slot) if slot.rail.current().promises() != loaded.promises() => {
                let problem =
                    "idempotent, hand_over_marks or rate changed, expected a start after railhost migrate";
                return Reloaded::Refused(LoadError::Definition {
                    path: path.to_owned(),
                    problem: problem.to_owned(),
                });
            }
            Some(slot) => {
                let from = slot.rail.current().digest;
                slot.rail.swap(loaded);
                (slot.rail, Reloaded::Swapped { from, to })
            }
            None => (Arc::new(Rail::new(&definition.name, loaded)), Reloaded::Added(to)),
        };
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        slots.insert(definition.name, Slot { rail, seen });
        done
    }
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

/// Changes when the rail's file, its component or its signature does.
fn fingerprint(path: &Path, definition: &Definition) -> Digest {
    let mut all = fs::read(path).unwrap_or_default();
    for referred in definition.refers_to() {
        let bytes = fs::read(&referred).unwrap_or_default();
        all.extend_from_slice(Digest::of(&bytes).as_bytes());
    }
    Digest::of(&all)
}
