//! Secrets and keys of one rail. They are written into the rail's form, and nowhere else. A client key goes to TLS alone
//! (`gate/tls.rs`).
//!
//! The path of a secret: `SecretSource` (`source.rs`) in the rail file, `Definition::read` (`definition.rs`), `Vault::open` when
//! the rail is loaded, `RequestSecrets` (here; made by `Call::fill` in `call.rs`), `Filling::source` for each slot
//! (`form/src/filling.rs`), `request` (`gate/exchange.rs`). An adapter is told what `contract::payment` (`contract.rs`) holds and
//! no more. `Call::weigh` (`call.rs`) keeps a reply with a secret in it from the adapter. In what is recorded of a request its name
//! stands in place of the secret (`redacted.rs`), and it is taken out of all texts that a rail or an adapter returns
//! (`gate/secret_filter.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use form::Secrets;
use form::file::Computed;
use secrecy::{ExposeSecret, SecretString};
use uuid::Uuid;

use super::definition::Definition;
use super::error::LoadError;
use super::gate::secret_filter::SecretFilter;
use super::key::Key;

#[derive(Debug)]
pub(super) struct Vault {
    secrets: BTreeMap<String, SecretString>,
    keys: BTreeMap<String, Key>,
    secret_filter: SecretFilter,
}

/// What is written into one request: the rail's secrets, and its tokens and published keys of this moment.
pub(super) struct RequestSecrets<'w> {
    pub vault: &'w Vault,
    pub tokens: &'w BTreeMap<String, SecretString>,
    pub published: &'w BTreeMap<String, Arc<Key>>,
    /// Where the rail may send news to.
    pub callback_url: Option<&'w str>,
}

/// The name of the key that makes callback addresses.
const CALLBACK_KEY: &str = "callback";

impl RequestSecrets<'_> {
    /// What the key of this name makes.
    fn by<T>(&self, name: &str, make: impl FnOnce(&Key) -> Result<T, String>) -> Result<T, String> {
        let key = self.vault.keys.get(name).or_else(|| self.published.get(name).map(AsRef::as_ref));
        let key = key.ok_or_else(|| format!("there is no key {name}"))?;
        make(key).map_err(|problem| format!("{name} {problem}"))
    }
}

impl Secrets for RequestSecrets<'_> {
    fn secret(&self, name: &str) -> Option<&str> {
        self.vault.secrets.get(name).map(|secret| secret.expose_secret())
    }

    fn token(&self, name: &str) -> Option<&str> {
        self.tokens.get(name).map(|token| token.expose_secret())
    }

    fn encrypt(&self, key: &str, text: &[u8]) -> Result<Vec<u8>, String> {
        self.by(key, |key| key.encrypt(text))
    }

    fn hmac(&self, key: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        self.by(key, |key| key.hmac(message))
    }

    fn sign(&self, key: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        self.by(key, |key| key.sign(message))
    }

    fn envelope(&self, key: &str, body: &[u8]) -> Result<(String, String), String> {
        self.by(key, |key| key.envelope(body))
    }

    /// Rails that sign nothing get an address that only they and we know; what arrives there is a hint to ask.
    fn callback(&self, outbox_id: Uuid) -> Option<String> {
        let proof = self.vault.callback_proof(outbox_id)?;
        Some(format!("{}/{outbox_id}/{}", self.callback_url?, hex::encode(proof)))
    }
}

impl Vault {
    pub(super) fn open(definition: &Definition) -> Result<Self, LoadError> {
        let (mut secrets, mut keys, mut private) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (name, source) in &definition.file.secrets {
            secrets.insert(name.clone(), definition.read(&format!("secrets.{name}"), source)?);
        }
        for (name, file) in &definition.file.keys {
            let Some(source) = &file.key else { continue };
            let value = definition.read(&format!("keys.{name}.key"), source)?;
            let key = Key::read(file.algorithm, file.bits, value.expose_secret()).map_err(|problem| {
                LoadError::Definition {
                    path: definition.own_path(),
                    problem: format!("keys.{name}.key: {problem}"),
                }
            })?;
            keys.insert(name.clone(), key);
            if !file.algorithm.is_public() {
                private.push(value);
            }
        }
        Ok(Self::of(secrets, keys, private, &definition.file.computed))
    }

    /// For conformance tests: every secret and key that the rail file names, with values that exist nowhere else.
    pub(super) fn made_up(definition: &Definition) -> Result<Self, LoadError> {
        let canary = |name: &String| SecretString::from(format!("canary-{name}-{}", Uuid::new_v4().simple()));
        let secrets = definition.file.secrets.keys().map(|name| (name.clone(), canary(name))).collect();
        let mut keys = BTreeMap::new();
        for (name, file) in definition.file.keys.iter().filter(|(_, file)| file.key.is_some()) {
            let key = Key::made_up(file.algorithm)
                .map_err(|_| LoadError::Network(format!("no key could be made for {name}")))?;
            keys.insert(name.clone(), key);
        }
        Ok(Self::of(secrets, keys, Vec::new(), &definition.file.computed))
    }

    /// What an address for news of a payment ends with.
    pub(super) fn callback_proof(&self, outbox_id: Uuid) -> Option<Vec<u8>> {
        self.keys.get(CALLBACK_KEY)?.hmac(outbox_id.to_string().as_bytes()).ok()
    }

    /// Whether a signature or an HMAC over a message is right.
    pub(super) fn verifies(&self, key: &str, message: &[u8], proof: &[u8]) -> bool {
        self.keys.get(key).is_some_and(|key| key.verifies(message, proof))
    }

    /// What is made of two secrets must not show either.
    fn of(
        secrets: BTreeMap<String, SecretString>,
        keys: BTreeMap<String, Key>,
        private: Vec<SecretString>,
        computed: &BTreeMap<String, Computed>,
    ) -> Self {
        let mut hidden: Vec<SecretString> = secrets.values().cloned().chain(private).collect();
        for computed in computed.values() {
            if let Computed::Basic { user, password } = computed
                && let (Some(user), Some(password)) = (secrets.get(user), secrets.get(password))
            {
                hidden.push(format!("{}:{}", user.expose_secret(), password.expose_secret()).into());
            }
        }
        Self { secret_filter: SecretFilter::over(&hidden), secrets, keys }
    }

    pub(super) fn secret_filter(&self) -> &SecretFilter {
        &self.secret_filter
    }
}
