//! From a rail's file to an adapter that can be called.

use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use uuid::Uuid;
use wasmtime::component::InstancePre;

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
use super::file;
use super::host::State;
use super::limits::{Limits, Timeouts};
use super::pace::Pace;
use super::revoked::Revoked;
use super::sandbox::Sandbox;
use super::tokens::Tokens;
use super::vault::Vault;

/// The name of the key that makes callback addresses.
const CALLBACK_KEY: &str = "callback";

/// An adapter, ready to be called, with everything that its rail's file says.
pub struct Loaded {
    pub digest: Digest,
    /// Of the rail's file.
    pub file_digest: Digest,
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
    certificates: Vec<(String, i64)>,
    pub(super) revoked: Arc<Revoked>,
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
        let tls = tls::client(definition)?;
        let dialer = Dialer {
            reach: file.network.reach,
            timeout: file.timeouts.connect(),
            tls: tls.config,
            resolver: sandbox.resolver.clone(),
        };
        let wire = Wire::new(dialer, file.timeouts.clone());
        let mut loaded =
            Self::assemble(sandbox, definition, Carrier::Wire(wire), Vault::open(definition)?).await?;
        loaded.certificates = tls.certificates;
        loaded.check_needs()?;
        Ok(loaded)
    }

    /// Each call is refused from the moment at which its digest is in this list.
    pub(super) fn revocable(self, revoked: Arc<Revoked>) -> Self {
        Self { revoked, ..self }
    }

    /// What the database has to know of the rail, too.
    pub(super) fn promises(&self) -> (bool, bool, Option<Rate>) {
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

        let (component, found) =
            sandbox.cache.component(&sandbox.engine, &sandbox.compiler, &digest, bytes).await?;
        let mismatch =
            |error: wasmtime::Error| LoadError::Mismatch(artifact::one_line(&format!("{error:#}")));
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
            file_digest: definition.digest,
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
            certificates: Vec::new(),
            revoked: Arc::default(),
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

    /// What the rail's file gives to be known by: `ca` and `client`, each with the moment, in Unix seconds, at which the
    /// first certificate in it ends.
    pub fn certificates(&self) -> &[(String, i64)] {
        &self.certificates
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

/// The component that a rail's file asks for, before it is read.
pub(super) fn digest_wanted(definition: &Definition) -> Option<Digest> {
    match definition.file.component.strip_prefix(BUILTIN) {
        Some(name) => crate::builtin::component(name).map(Digest::of),
        None => Digest::parse(definition.file.sha256.as_deref()?),
    }
}

fn component_bytes(definition: &Definition) -> Result<Vec<u8>, LoadError> {
    if let Some(name) = definition.file.component.strip_prefix(BUILTIN) {
        return crate::builtin::component(name).map(<[u8]>::to_vec).ok_or_else(|| LoadError::Definition {
            path: definition.own_path(),
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
    let text = file::read_text(&path).map_err(|error| LoadError::Unreadable { path: path.clone(), error })?;
    let trusted: Vec<[u8; 32]> =
        signature.trusted.iter().filter_map(|key| hex::decode(key).ok()?.try_into().ok()).collect();
    match hex::decode(text.trim()) {
        Ok(bytes) if artifact::is_signed(digest, &bytes, &trusted) => Ok(()),
        _ => Err(LoadError::WrongSignature { path }),
    }
}
