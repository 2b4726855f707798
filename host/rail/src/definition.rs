//! A rail file: `config/rails/<rail>.toml`. Unknown keys and impossible pairs are refused with the key and what was
//! expected there.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use form::callback_file::CallbackFile;
use form::codes::CodeTable;
use form::field::FieldFile;
use form::file::{AmountFile, Computed, DestinationFile, OperationFile, PayloadFile, StepFile, VariableFile};
use form::float::FloatFile;
use form::hours::HoursFile;
use form::{Form, FormFile, StepClass};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::error::LoadError;
use super::gate::address::Reach;
use super::key_file::KeyFile;
use super::limits::{Limits, Timeouts};
use super::source::SecretSource;
use super::{file, mock};
use verdict::digest::Digest;
use verdict::pace::Pace;

/// Whether money can move over the rail at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RailKind {
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

/// A rail file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RailFile {
    #[serde(default)]
    pub kind: RailKind,
    /// A file, relative to this one, or `builtin:NAME`.
    pub component: String,
    /// Required where the component is a file.
    pub sha256: Option<String>,
    pub signature: Option<SignatureFile>,
    /// A folder of recorded exchanges, or a file of them: a pair that judges one of them otherwise is not taken.
    pub exchanges: Option<PathBuf>,
    #[serde(default)]
    pub profile: Profile,
    /// The rail recognises a key that it has seen.
    pub idempotent: bool,
    /// Each payment is marked before its first byte leaves; required where the rail is not idempotent.
    pub hand_over_marks: bool,
    /// For a mock only: false where it cannot be asked what became of a payment. A live rail leaves out `[query-status]` instead.
    #[serde(default = "yes")]
    pub status_query: bool,
    /// A payment that is open for longer stands on the review list.
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
    pub secrets: BTreeMap<String, SecretSource>,
    #[serde(default)]
    pub keys: BTreeMap<String, KeyFile>,
    #[serde(default)]
    pub tokens: BTreeMap<String, TokenRule>,
    #[serde(default)]
    pub network: Network,
    /// Where the rail is: what `{base}` stands for in its requests.
    pub base: Option<String>,
    /// In whose books payments stand; `base` where it is left out. It stays when the same provider moves to another address.
    pub provider: Option<String>,
    /// The rail's offset from UTC, for `{date}` and `{time}`.
    pub utc_offset: Option<String>,
    /// The currencies that it pays in.
    #[serde(default)]
    pub currencies: Vec<String>,
    #[serde(default)]
    pub amount: AmountFile,
    #[serde(default)]
    pub destination: DestinationFile,
    pub narrative: Option<FieldFile>,
    #[serde(default)]
    pub payload: BTreeMap<String, PayloadFile>,
    #[serde(default)]
    pub variables: BTreeMap<String, VariableFile>,
    #[serde(default)]
    pub tables: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    pub computed: BTreeMap<String, Computed>,
    #[serde(default)]
    pub steps: BTreeMap<String, StepFile>,
    #[serde(default)]
    pub disburse: OperationFile,
    /// Without steps: this rail cannot be asked what became of a payment.
    #[serde(default, rename = "query-status")]
    pub query_status: OperationFile,
    #[serde(default)]
    pub codes: CodeTable,
    /// The hours in which it pays. Without them it pays at any time.
    pub hours: Option<HoursFile>,
    /// What is left to pay from, by currency.
    #[serde(default)]
    pub float: BTreeMap<String, FloatFile>,
    /// What the rail tells unasked and signs.
    pub callback: Option<CallbackFile>,
}

/// It stands in messages.
const PROVIDER_CHARS_MAX: usize = 200;

fn yes() -> bool {
    true
}

impl RailFile {
    fn form(&self) -> Result<Form, String> {
        let mut file = FormFile {
            is_mock: self.kind == RailKind::Mock,
            base: self.base.clone(),
            utc_offset: self.utc_offset.clone(),
            currencies: self.currencies.clone(),
            amount: self.amount.clone(),
            destination: self.destination.clone(),
            narrative: self.narrative.clone(),
            payload: self.payload.clone(),
            settings: self.settings.clone(),
            variables: self.variables.clone(),
            tables: self.tables.clone(),
            computed: self.computed.clone(),
            steps: self.steps.clone(),
            disburse: self.disburse.clone(),
            query_status: self.query_status.clone(),
            codes: self.codes.clone(),
            secrets: self.secrets.keys().cloned().collect(),
            keys: self.keys.keys().cloned().collect(),
            tokens: self.tokens.iter().map(|(name, rule)| (name.clone(), rule.step.clone())).collect(),
            fetched: self
                .keys
                .iter()
                .filter_map(|(name, key)| Some((name.clone(), key.fetch.as_ref()?.step.clone())))
                .collect(),
            hours: self.hours.clone(),
            float: self.float.clone(),
            callback: self.callback.clone(),
        };
        mock::complete(&mut file, self.status_query)?;
        Form::load(&file)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureFile {
    /// 64 bytes as hexadecimal digits, relative to the rail file.
    pub file: PathBuf,
    /// Ed25519 public keys as hexadecimal digits; one of them must have signed.
    pub trusted: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Requests about payments, for all hosts together. Those that bring tokens, keys or the float do not count.
    pub per_second: i32,
    pub burst: i32,
}

impl Rate {
    /// How many payments it is where each takes so many requests.
    fn of_payments(self, requests: usize) -> Self {
        let requests = i32::try_from(requests.max(1)).unwrap_or(i32::MAX);
        Self { per_second: (self.per_second / requests).max(1), burst: (self.burst / requests).max(1) }
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
    /// The name of a step of class session.
    pub step: String,
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
    pub key: SecretSource,
}

/// A rail file, checked, with its references not yet followed.
#[derive(Debug)]
pub struct Definition {
    pub name: String,
    /// Where relative paths start.
    pub folder: PathBuf,
    /// Of the file's text.
    pub digest: Digest,
    pub file: RailFile,
    pub form: Arc<Form>,
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
        let form = Arc::new(file.form()?);
        let (name, folder, digest) = (name.to_owned(), folder.to_owned(), Digest::of(text.as_bytes()));
        let definition = Self { name, folder, digest, file, form };
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
            .or_else(|| self.network_problem())
            .or_else(|| self.name_problem())
            .or_else(|| self.provider_problem())
            .or_else(|| file.keys.iter().find_map(|(name, key)| key.problem(name)))
            .or_else(|| self.callback_problem())
            .or_else(|| self.challenge_problem())
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

    fn network_problem(&self) -> Option<String> {
        let plain =
            self.form.steps().filter_map(|step| step.request.as_ref()).any(|r| r.target.scheme == "http");
        (plain && self.file.network.reach != Reach::Loopback)
            .then(|| "base is not https, expected network.reach = \"loopback\" for that".to_owned())
    }

    fn provider_problem(&self) -> Option<String> {
        let provider = self.file.provider.as_ref()?;
        let is_sound = !provider.trim().is_empty()
            && provider.chars().count() <= PROVIDER_CHARS_MAX
            && !provider.chars().any(payment::is_unsafe);
        (!is_sound).then(|| {
            format!(
                "provider is {provider:?}, expected 1 to {PROVIDER_CHARS_MAX} characters that can be shown"
            )
        })
    }

    fn name_problem(&self) -> Option<String> {
        let file = &self.file;
        let twice = file.secrets.keys().find(|name| file.tokens.contains_key(*name));
        if let Some(name) = twice {
            return Some(format!("{name} is the name of a secret and of a token, expected one of them"));
        }
        file.tokens.iter().find_map(|(name, rule)| {
            (!rule.value.starts_with('/') || !rule.lifetime.starts_with('/')).then(|| {
                format!("tokens.{name}: value and lifetime are JSON pointers, expected them to begin with /")
            })
        })
    }

    fn callback_problem(&self) -> Option<String> {
        let key = &self.file.callback.as_ref()?.verify.key;
        let can =
            self.file.keys.get(key).is_some_and(|file| file.algorithm.can_verify() && file.key.is_some());
        (!can).then(|| {
            format!("callback.verify.key is {key}, expected a key of hmac-… or verify-… that is not fetched")
        })
    }

    /// A request that pays is made again only where the rail knows its key.
    fn challenge_problem(&self) -> Option<String> {
        let asks = self.form.steps().any(|step| step.class == StepClass::Money && step.challenge.is_some());
        (asks && !self.file.idempotent).then(|| {
            "a step that pays has a challenge and idempotent is false, expected a rail that recognises a key".to_owned()
        })
    }

    /// How many payments and questions it takes, for all hosts together.
    pub fn rate(&self) -> Option<Rate> {
        self.file.rate.map(|rate| rate.of_payments(self.form.requests_max()))
    }

    /// In whose books a payment stands, where its key stands there and in which form: what it is known by; none of a mock.
    pub fn key_forms(&self) -> Option<String> {
        let places = self.form.key_places()?;
        let provider = self.file.provider.as_ref().or(self.file.base.as_ref())?;
        Some(format!("{provider}: {places}"))
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
    pub(super) fn sources(&self) -> Vec<(String, &SecretSource, Secrecy)> {
        let file = &self.file;
        let secrets =
            file.secrets.iter().map(|(name, source)| (format!("secrets.{name}"), source, Secrecy::Secret));
        let keys = file.keys.iter().filter_map(|(name, key)| {
            let secrecy = if key.algorithm.is_public() { Secrecy::Public } else { Secrecy::Secret };
            Some((format!("keys.{name}.key"), key.key.as_ref()?, secrecy))
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

    pub(super) fn source_path(&self, source: &SecretSource) -> Option<PathBuf> {
        match source {
            SecretSource::Env { .. } => None,
            SecretSource::File { file } => Some(self.path(file)),
        }
    }

    /// Follows a reference. The value is never part of a message.
    pub(super) fn read(&self, key: &str, source: &SecretSource) -> Result<SecretString, LoadError> {
        let problem = |problem: String| LoadError::Definition { path: self.own_path(), problem };
        let found = match source {
            SecretSource::Env { env: name } => env::var(name).map(SecretString::from).map_err(|_| {
                problem(format!("{key} refers to the environment variable {name}, which is not set"))
            }),
            SecretSource::File { file } => {
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
