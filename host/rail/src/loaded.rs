//! From a rail file to an adapter that can be called.

use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use form::Form;
use form::callback::Callback;
use form::encoding::Encoding;
use form::json::Json;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use uuid::Uuid;
use wasmtime::component::InstancePre;

use crate::known_bad;

use super::artifact::{self, Outline, Pair};
use super::contract::{Functions, RailAdapterPre};
use super::definition::{BUILTIN, Definition, RailKind, Rate};
use super::description::{Description, Need};
use super::error::LoadError;
use super::file;
use super::gate::dial::Dialer;
use super::gate::wire::Wire;
use super::gate::{Carrier, Gate, RailStub, tls};
use super::guest::GuestState;
use super::limits::{Limits, Timeouts};
use super::published::PublishedKeys;
use super::revoked::Revoked;
use super::sandbox::Sandbox;
use super::tokens::Tokens;
use super::vault::Vault;
use verdict::call_error::CallError;
use verdict::digest::Digest;
use verdict::pace::Pace;

/// An adapter, ready to be called, with everything that its rail file says.
pub struct Loaded {
    pub digest: Digest,
    /// Of the rail file.
    pub file_digest: Digest,
    pub description: Description,
    pub kind: RailKind,
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub pace: Pace,
    /// Payments and questions, for all hosts together.
    pub rate: Option<Rate>,
    pub form: Arc<Form>,
    pub idempotent: bool,
    pub hand_over_marks: bool,
    /// A payment that is open for longer is for a person.
    pub sla_seconds: Option<i32>,
    /// In whose books, and under which forms of its key, a payment is known.
    pub key_forms: Option<String>,
    /// Its file names recorded exchanges that a pair has to judge as before.
    pub(super) is_examined: bool,
    /// Attempts come with their exchanges.
    pub(super) is_recorded: bool,
    /// Nothing had to be compiled.
    pub was_warm: bool,
    certificates: Vec<(String, i64)>,
    pub(super) revoked: Arc<Revoked>,
    pub(super) gate: Gate,
    pub(super) vault: Vault,
    pub(super) tokens: Tokens,
    pub(super) published: PublishedKeys,
    /// Guests of this rail that may compute at a time: half of the workers, so that the others are never all taken.
    pub(super) computing: Semaphore,
    pub(super) adapter: InstancePre<GuestState>,
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
        let (tokens, published) = (Tokens::new(&file.tokens), PublishedKeys::new(&file.keys));
        let mut loaded = Self::assemble(
            sandbox,
            definition,
            Carrier::Wire(wire),
            RailSecrets { vault: Vault::open(definition)?, tokens, published },
        )
        .await?;
        loaded.certificates = tls.certificates;
        loaded.check_needs()?;
        Ok(loaded)
    }

    /// The same, with every exchange kept in its attempt.
    #[must_use]
    pub fn recorded(self) -> Self {
        Self { is_recorded: true, ..self }
    }

    /// Each call is refused from the moment at which its digest is in this list.
    pub(super) fn revocable(self, revoked: Arc<Revoked>) -> Self {
        Self { revoked, ..self }
    }

    /// What the database has to know of the rail, too.
    pub(super) fn promises(&self) -> (bool, bool, Option<Rate>, Option<i32>, &Option<String>) {
        (self.idempotent, self.hand_over_marks, self.rate, self.sla_seconds, &self.key_forms)
    }

    /// The same without a network: a script answers, and secrets, keys and tokens are made up.
    pub async fn offline(
        sandbox: &Sandbox,
        definition: &Definition,
        script: Arc<dyn RailStub>,
    ) -> Result<Self, LoadError> {
        let held = RailSecrets::made_up(definition)?;
        let loaded = Self::assemble(sandbox, definition, Carrier::Script(script), held).await?;
        loaded.check_needs()?;
        Ok(loaded)
    }

    /// What a component says of itself, whether or not the rail file gives what it needs.
    pub async fn describe_only(
        sandbox: &Sandbox,
        definition: &Definition,
        script: Arc<dyn RailStub>,
    ) -> Result<Description, LoadError> {
        let held = RailSecrets::made_up(definition)?;
        Ok(Self::assemble(sandbox, definition, Carrier::Script(script), held).await?.description)
    }

    /// From bytes to an adapter that has described itself. Any step that fails leaves nothing behind.
    async fn assemble(
        sandbox: &Sandbox,
        definition: &Definition,
        carrier: Carrier,
        RailSecrets { vault, tokens, published }: RailSecrets,
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
        let mut loaded = Self {
            digest,
            file_digest: definition.digest,
            description: Description::unknown(),
            kind: file.kind,
            limits: file.limits.clone(),
            timeouts: file.timeouts.clone(),
            pace: file.pace.clone(),
            rate: definition.rate(),
            sla_seconds: file.sla_seconds,
            key_forms: definition.key_forms(),
            is_examined: file.exchanges.is_some(),
            is_recorded: false,
            form: known_bad::bound(definition.form.clone()),
            idempotent: file.idempotent,
            hand_over_marks: file.hand_over_marks,
            was_warm: found == super::cache::CodeOrigin::Warm,
            certificates: Vec::new(),
            revoked: Arc::default(),
            gate: Gate { carrier, limits: file.limits.clone() },
            vault,
            tokens,
            published,
            computing: Semaphore::new((Handle::current().metrics().num_workers() / 2).max(1)),
            adapter,
            functions,
        };
        loaded.description = loaded.describe(sandbox).await.map_err(|error| match error {
            CallError::Mismatch(why) => LoadError::Mismatch(why),
            other => LoadError::Describe(other),
        })?;
        Ok(loaded)
    }

    /// What the rail file gives to be known by: `ca` and `client`, each with the moment, in Unix seconds, at which the
    /// first certificate in it ends.
    pub fn certificates(&self) -> &[(String, i64)] {
        &self.certificates
    }

    /// Whether a callback about a payment comes from where the rail was told to send it: the proof is an HMAC of the outbox id under
    /// the key `callback`.
    pub fn vouches(&self, outbox_id: Uuid, proof: &str) -> bool {
        match (self.vault.callback_proof(outbox_id), hex::decode(proof)) {
            (Some(expected), Ok(proof)) => verify_slices_are_equal(&expected, &proof).is_ok(),
            _ => false,
        }
    }

    /// Whether a callback was signed by the rail, as its file says: an HMAC, a signature or a detached JWS over the body.
    pub fn is_signed(&self, callback: &Callback, headers: &[(String, String)], body: &[u8]) -> bool {
        let verify = &callback.verify;
        let mut found = headers.iter().filter(|(name, _)| *name == verify.header);
        let (Some((_, value)), None) = (found.next(), found.next()) else { return false };
        let Some(value) = value.strip_prefix(verify.prefix.as_str()) else { return false };
        if verify.jws {
            return self.is_signed_by_jws(&verify.key, value, body);
        }
        let proof = match verify.encoding {
            Encoding::Base64 => STANDARD.decode(value).ok(),
            Encoding::Hex => hex::decode(value).ok(),
        };
        proof.is_some_and(|proof| self.vault.verifies(&verify.key, body, &proof))
    }

    /// The algorithm is that of the key, whatever the protected header says.
    fn is_signed_by_jws(&self, key: &str, value: &str, body: &[u8]) -> bool {
        let parts: Vec<&str> = value.split('.').collect();
        let [protected, "", signature] = parts[..] else { return false };
        let header = URL_SAFE_NO_PAD.decode(protected).ok().and_then(|header| Json::read(&header).ok());
        let (Some(header), Ok(signature)) = (header, URL_SAFE_NO_PAD.decode(signature)) else { return false };
        let is_encoded = !matches!(header.at("/b64"), Some(Json::Bool(false)));
        let mut signed = format!("{protected}.").into_bytes();
        match is_encoded {
            true => signed.extend_from_slice(URL_SAFE_NO_PAD.encode(body).as_bytes()),
            false => signed.extend_from_slice(body),
        }
        self.vault.verifies(key, &signed, &signature)
    }

    /// The rail file must have what the adapter cannot do without, and the adapter must know what the file leaves to it.
    fn check_needs(&self) -> Result<(), LoadError> {
        let (described, form) = (&self.description, &self.form);
        let unmet = |kind: &'static str, needs: &[Need], given: &dyn Fn(&str) -> bool| match needs
            .iter()
            .find(|need| need.required && !given(&need.name))
        {
            Some(need) => {
                Err(LoadError::Unmet { kind, name: need.name.clone(), purpose: need.purpose.clone() })
            }
            None => Ok(()),
        };
        unmet("setting", &described.settings, &|name| form.settings().any(|(given, _)| given == name))?;
        unmet("variable", &described.variables, &|name| form.variables().any(|(given, ..)| given == name))?;
        let unknown = form.variables().find(|(name, _, optional)| {
            !optional && described.variables.iter().all(|variable| variable.name != *name)
        });
        if let Some((name, purpose, _)) = unknown {
            return Err(LoadError::Unfilled { name: name.to_owned(), purpose: purpose.to_owned() });
        }
        let strange = |code: &&String| !form.currencies.is_empty() && !described.currencies.contains(code);
        match form.currencies.iter().find(|code| !described.currencies.is_empty() && strange(code)) {
            Some(code) => Err(LoadError::Currency(code.clone())),
            None => Ok(()),
        }
    }
}

/// What the host alone knows of a rail.
struct RailSecrets {
    vault: Vault,
    tokens: Tokens,
    published: PublishedKeys,
}

impl RailSecrets {
    /// With values that exist nowhere else.
    fn made_up(definition: &Definition) -> Result<Self, LoadError> {
        Ok(Self {
            vault: Vault::made_up(definition)?,
            tokens: Tokens::made_up(&definition.file.tokens),
            published: PublishedKeys::made_up(&definition.file.keys).map_err(LoadError::Network)?,
        })
    }
}

impl Description {
    fn unknown() -> Self {
        Self {
            name: String::new(),
            version: String::new(),
            currencies: Vec::new(),
            settings: Vec::new(),
            variables: Vec::new(),
            facts: Vec::new(),
        }
    }
}

/// The component that a rail file asks for, before it is read.
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
    let pair = Pair { component: *digest, file: definition.digest };
    match hex::decode(text.trim()) {
        Ok(bytes) if artifact::is_signed(&pair, &bytes, &trusted) => Ok(()),
        _ => Err(LoadError::WrongSignature { path }),
    }
}
