//! A rail's file: `config/rails/<rail>.toml`. Unknown keys and impossible pairs are refused with the key and what was
//! expected there.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::artifact::Digest;
use super::codes::CodeTable;
use super::egress::address::Reach;
use super::egress::rules::{Endpoint, EndpointFile};
use super::error::LoadError;
use super::file;
use super::limits::{Limits, Timeouts};
use super::pace::Pace;

/// Whether money can move over the rail at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Live,
    /// No network, nothing that a witness could see; refused in production.
    Mock,
}

/// What a component finds when it looks around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Nothing but what the contract grants; a component that imports more is refused.
    #[default]
    Strict,
    /// Files and sockets that are not there, for language runtimes that import them regardless.
    Inert,
}

/// A rail's file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RailFile {
    #[serde(default)]
    pub kind: Kind,
    /// A file, relative to this one, or `builtin:NAME`.
    pub component: String,
    /// Required where the component is a file.
    pub sha256: Option<String>,
    pub signature: Option<SignatureFile>,
    #[serde(default)]
    pub profile: Profile,
    /// The rail recognises a key that it has seen.
    pub idempotent: bool,
    /// Each payment is marked before its first byte leaves; required where the rail is not idempotent.
    pub hand_over_marks: bool,
    /// False: this rail cannot be asked what became of a payment, whatever its adapter can.
    #[serde(default = "yes")]
    pub status_query: bool,
    /// A payment that is open for longer needs a look.
    pub sla_seconds: Option<i32>,
    pub rate: Option<Rate>,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub timeouts: Timeouts,
    #[serde(default)]
    pub pace: Pace,
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    #[serde(default)]
    pub secrets: BTreeMap<String, Source>,
    #[serde(default)]
    pub keys: BTreeMap<String, KeyFile>,
    #[serde(default)]
    pub tokens: BTreeMap<String, TokenRule>,
    #[serde(default)]
    pub network: Network,
    #[serde(default)]
    pub endpoints: Vec<EndpointFile>,
    #[serde(default)]
    pub codes: CodeTable,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureFile {
    /// 64 bytes as hexadecimal digits, relative to the rail's file.
    pub file: PathBuf,
    /// Ed25519 public keys as hexadecimal digits; one of them must have signed.
    pub trusted: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// For all hosts together.
    pub per_second: i32,
    pub burst: i32,
}

/// Where a value comes from that does not stand in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "{ env = \"NAME\" } or { file = \"path\" }: a secret does not stand in a rail's file"
)]
pub enum Source {
    Env { env: String },
    File { file: PathBuf },
}

/// A key for computations that an adapter may ask for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    pub algorithm: Algorithm,
    /// PEM, or for HMAC the secret itself.
    pub key: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Algorithm {
    #[serde(rename = "rsa-pkcs1-sha256")]
    SignRsaPkcs1Sha256,
    #[serde(rename = "rsa-pss-sha256")]
    SignRsaPssSha256,
    #[serde(rename = "ed25519")]
    SignEd25519,
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    #[serde(rename = "hmac-sha512")]
    HmacSha512,
    #[serde(rename = "rsa-encrypt-pkcs1")]
    EncryptRsaPkcs1,
    #[serde(rename = "rsa-encrypt-oaep-sha1")]
    EncryptRsaOaepSha1,
    #[serde(rename = "rsa-encrypt-oaep-sha256")]
    EncryptRsaOaepSha256,
}

impl Algorithm {
    /// Whether the key is the rail's public one.
    fn is_public(self) -> bool {
        matches!(self, Self::EncryptRsaPkcs1 | Self::EncryptRsaOaepSha1 | Self::EncryptRsaOaepSha256)
    }
}

/// Who may know a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Secret,
    /// Everybody may read it, but nobody else may replace it.
    Public,
}

/// How the host takes an access token from a reply.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRule {
    /// The name of a session endpoint.
    pub endpoint: String,
    /// A JSON pointer into its reply.
    pub value: String,
    /// A JSON pointer to the seconds that the token lives, as a number or a text.
    pub lifetime: String,
    /// It is fetched anew this long before its end.
    #[serde(default = "TokenRule::early_default")]
    pub early_seconds: u32,
}

impl TokenRule {
    fn early_default() -> u32 {
        30
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    pub reach: Reach,
    /// PEM; instead of the system's roots.
    pub ca: Option<PathBuf>,
    pub client: Option<ClientCertificate>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// PEM, leaf first.
    pub certificate: PathBuf,
    pub key: Source,
}

/// A rail's file, checked, with its references not yet followed.
#[derive(Debug)]
pub struct Definition {
    pub name: String,
    /// Where relative paths start.
    pub folder: PathBuf,
    /// Of the file's text.
    pub digest: Digest,
    pub file: RailFile,
    pub endpoints: Vec<Endpoint>,
}

const NAME_CHARS_MAX: usize = 64;
/// The prefix of components that are part of this host.
pub const BUILTIN: &str = "builtin:";

impl Definition {
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let text =
            file::read_text(path).map_err(|error| LoadError::Unreadable { path: path.to_owned(), error })?;
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(name, folder, &text)
            .map_err(|problem| LoadError::Definition { path: path.to_owned(), problem })
    }

    pub fn parse(name: &str, folder: &Path, text: &str) -> Result<Self, String> {
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
            return Err(format!("the file's name is the rail's, expected 1 to {NAME_CHARS_MAX} characters"));
        }
        let file: RailFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            line.map_or_else(
                || error.message().to_owned(),
                |line| format!("line {line}: {}", error.message()),
            )
        })?;
        let endpoints = file.endpoints.iter().map(Endpoint::read).collect::<Result<Vec<_>, _>>()?;
        let (name, folder, digest) = (name.to_owned(), folder.to_owned(), Digest::of(text.as_bytes()));
        let definition = Self { name, folder, digest, file, endpoints };
        match definition.problem() {
            Some(problem) => Err(problem),
            None => Ok(definition),
        }
    }

    fn problem(&self) -> Option<String> {
        let file = &self.file;
        if !file.idempotent && !file.hand_over_marks {
            return Some("hand_over_marks is false, expected true where idempotent is false".to_owned());
        }
        if file.sla_seconds.is_some_and(|seconds| seconds < 1) {
            return Some("sla_seconds must be positive".to_owned());
        }
        if file.rate.is_some_and(|rate| rate.per_second < 1 || rate.burst < 1) {
            return Some("rate.per_second and rate.burst must be positive".to_owned());
        }
        file.limits
            .problem()
            .or_else(|| file.timeouts.problem())
            .or_else(|| file.pace.problem(file.timeouts.call(), file.idempotent))
            .or_else(|| self.component_problem())
            .or_else(|| self.endpoint_problem())
            .or_else(|| self.token_problem())
            .or_else(|| file.codes.problem())
    }

    fn component_problem(&self) -> Option<String> {
        let file = &self.file;
        match (&file.sha256, file.component.strip_prefix(BUILTIN)) {
            (Some(_), Some(name)) => {
                Some(format!("sha256 is given, but {BUILTIN}{name} is part of the host"))
            }
            (None, None) => Some(
                "sha256 is missing, expected the component's digest: railhost plugin inspect shows it"
                    .to_owned(),
            ),
            (Some(text), None) if Digest::parse(text).is_none() => {
                Some(format!("sha256 is {text:?}, expected 64 hexadecimal digits"))
            }
            _ => file.signature.as_ref().and_then(|signature| {
                let sound = |key: &String| hex::decode(key).is_ok_and(|bytes| bytes.len() == 32);
                (signature.trusted.is_empty() || !signature.trusted.iter().all(sound)).then(|| {
                    "signature.trusted expects Ed25519 public keys of 64 hexadecimal digits".to_owned()
                })
            }),
        }
    }

    fn endpoint_problem(&self) -> Option<String> {
        if self.file.kind == Kind::Mock && !self.endpoints.is_empty() {
            return Some(
                "kind is mock and there are endpoints, expected none: a mock has no network".to_owned(),
            );
        }
        let mut names = BTreeSet::new();
        for endpoint in &self.endpoints {
            if !names.insert(&endpoint.name) {
                return Some(format!("two endpoints are called {}", endpoint.name));
            }
            if endpoint.target.scheme == "http" && self.file.network.reach != Reach::Loopback {
                return Some(format!(
                    "endpoint {} is not https, expected network.reach = \"loopback\" for that",
                    endpoint.name
                ));
            }
            for place in &endpoint.secrets {
                for name in &place.of {
                    if !self.file.secrets.contains_key(name) && !self.file.tokens.contains_key(name) {
                        return Some(format!(
                            "endpoint {} places {name}, which is no secret and no token",
                            endpoint.name
                        ));
                    }
                }
            }
        }
        self.file
            .secrets
            .keys()
            .find(|name| self.file.tokens.contains_key(*name))
            .map(|name| format!("{name} is the name of a secret and of a token, expected one of them"))
    }

    fn token_problem(&self) -> Option<String> {
        self.file.tokens.iter().find_map(|(name, rule)| {
            let session = |endpoint: &&Endpoint| endpoint.name == rule.endpoint && endpoint.is_session();
            match self.endpoints.iter().find(session) {
                None => {
                    Some(format!("tokens.{name}.endpoint is {}, expected a session endpoint", rule.endpoint))
                }
                Some(_) if !rule.value.starts_with('/') || !rule.lifetime.starts_with('/') => Some(format!(
                    "tokens.{name}: value and lifetime are JSON pointers, expected them to begin with /"
                )),
                Some(_) => None,
            }
        })
    }

    /// The same rail with another component, by its path and digest.
    #[must_use]
    pub fn with_component(mut self, path: &Path, digest: &Digest) -> Self {
        self.file.component = path.display().to_string();
        self.file.sha256 = Some(digest.to_string());
        self.file.signature = None;
        self
    }

    /// A path as the file means it.
    pub fn path(&self, relative: &Path) -> PathBuf {
        self.folder.join(relative)
    }

    /// The file itself, where it was read from one.
    pub(super) fn own_path(&self) -> PathBuf {
        self.folder.join(format!("{}.toml", self.name))
    }

    /// Every value that does not stand in the file: under which key, from where, and whether all the world may know it.
    pub(super) fn sources(&self) -> Vec<(String, &Source, Secrecy)> {
        let file = &self.file;
        let secrets =
            file.secrets.iter().map(|(name, source)| (format!("secrets.{name}"), source, Secrecy::Secret));
        let keys = file.keys.iter().map(|(name, key)| {
            let secrecy = if key.algorithm.is_public() { Secrecy::Public } else { Secrecy::Secret };
            (format!("keys.{name}.key"), &key.key, secrecy)
        });
        let client = file
            .network
            .client
            .iter()
            .map(|client| ("network.client.key".to_owned(), &client.key, Secrecy::Secret));
        secrets.chain(keys).chain(client).collect()
    }

    /// The files that hold no secret and decide what is loaded, besides this one: under which key, and where.
    pub(super) fn public_files(&self) -> Vec<(&'static str, PathBuf)> {
        let file = &self.file;
        let mut all = Vec::new();
        if !file.component.starts_with(BUILTIN) {
            all.push(("component", self.path(Path::new(&file.component))));
        }
        all.extend(file.signature.iter().map(|signature| ("signature.file", self.path(&signature.file))));
        all.extend(file.network.ca.iter().map(|ca| ("network.ca", self.path(ca))));
        let client = file.network.client.iter();
        all.extend(client.map(|client| ("network.client.certificate", self.path(&client.certificate))));
        all
    }

    /// The files besides this one that decide what is loaded.
    pub(super) fn refers_to(&self) -> Vec<PathBuf> {
        let public = self.public_files().into_iter().map(|(_, path)| path);
        let sources = self.sources().into_iter().filter_map(|(_, source, _)| self.source_path(source));
        public.chain(sources).collect()
    }

    pub(super) fn source_path(&self, source: &Source) -> Option<PathBuf> {
        match source {
            Source::Env { .. } => None,
            Source::File { file } => Some(self.path(file)),
        }
    }

    /// Follows a reference. The value is never part of a message.
    pub(super) fn read(&self, key: &str, source: &Source) -> Result<SecretString, LoadError> {
        let problem = |problem: String| LoadError::Definition { path: self.own_path(), problem };
        let found = match source {
            Source::Env { env: name } => env::var(name).map(SecretString::from).map_err(|_| {
                problem(format!("{key} refers to the environment variable {name}, which is not set"))
            }),
            Source::File { file } => {
                let path = self.path(file);
                file::read_text(&path).map(|text| SecretString::from(text.trim_end().to_owned())).map_err(
                    |error| {
                        problem(format!("{key} refers to {}, which cannot be read: {error}", path.display()))
                    },
                )
            }
        }?;
        match found.expose_secret().is_empty() {
            true => Err(problem(format!("{key} refers to something empty, expected a value"))),
            false => Ok(found),
        }
    }
}
