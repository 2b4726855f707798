//! Configuration: one TOML file per environment, one per rail. Seen by the command line only, which hands each module
//! its own part. A wrong value stops the start with file, key and expectation; nothing falls back silently.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use thiserror::Error as ThisError;

use railhost::outbox::operate::RailFacts;
use railhost::outbox::{Database, Role};
use railhost::rail::LoadError;
use railhost::rail::definition::Definition;
use railhost::rail::sandbox::CALLS_DEFAULT;
use railhost::relayer;

#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error("{file}: {problem}")]
    Invalid { file: String, problem: String },
    #[error(
        "no database is configured: set DATABASE_URL or database.url in {file}, or use --dev for a private PostgreSQL"
    )]
    NoDatabase { file: String },
    #[error(transparent)]
    Rail(Box<LoadError>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    database: DatabaseSection,
    embedded: Embedded,
    retention: Retention,
    adapters: Adapters,
    relayer: Relayer,
    callbacks: Callbacks,
    /// The folder of the rails' files, relative to this one.
    rails: Option<PathBuf>,
    /// Refuses what is good for development only.
    production: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DatabaseSection {
    url: Option<Secret>,
    logins: BTreeMap<LoginName, Secret>,
    /// The logins go through a pooler in transaction mode; `listener` or the URL leads to PostgreSQL itself.
    pooler: bool,
    /// The executor's login past the pooler, for the doorbell.
    listener: Option<Secret>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LoginName {
    Ingest,
    Executor,
    Operator,
    Readonly,
}

const LOGINS: usize = 4;

/// A value that need not stand in the file.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "a string, { env = \"NAME\" } or { file = \"path\" }")]
enum Secret {
    Plain(String),
    Env { env: String },
    File { file: PathBuf },
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Where the private PostgreSQL of the development mode lives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Embedded {
    pub folder: PathBuf,
}

impl Default for Embedded {
    fn default() -> Self {
        Self { folder: ".railhost/postgres".into() }
    }
}

/// How long the history stays, and where it goes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retention {
    pub attempts_days: i32,
    pub months_ahead: i32,
    pub export_folder: PathBuf,
}

impl Default for Retention {
    fn default() -> Self {
        Self { attempts_days: 400, months_ahead: 3, export_folder: ".railhost/exports".into() }
    }
}

/// Where adapters run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Adapters {
    /// Compiled code; a folder that nobody else may write to.
    pub cache: PathBuf,
    /// Calls at a time, in this process.
    pub calls_max: usize,
}

impl Default for Adapters {
    fn default() -> Self {
        Self { cache: ".railhost/compiled".into(), calls_max: CALLS_DEFAULT }
    }
}

impl Adapters {
    /// A rail that fills its places must leave the others theirs.
    fn problem(&self, rails: &BTreeMap<String, Definition>) -> Option<String> {
        let wanted: usize = rails.values().map(|rail| rail.file.pace.concurrency as usize).sum();
        (wanted > self.calls_max).then(|| {
            format!(
                "adapters.calls_max is {}, expected {wanted} or more: that is pace.concurrency of all rails together",
                self.calls_max
            )
        })
    }
}

/// How a host works.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Relayer {
    /// Where `/metrics`, `/healthz` and `/readyz` are answered; nowhere if it is left out.
    pub listen: Option<SocketAddr>,
    /// Connections to the database, besides the one that listens.
    connections: u32,
    /// Looks at the queue this often though nobody rang.
    poll_ms: u32,
    /// What is in flight may take this long after SIGTERM.
    drain_seconds: u32,
}

impl Default for Relayer {
    fn default() -> Self {
        Self { listen: None, connections: 8, poll_ms: 1000, drain_seconds: 40 }
    }
}

impl Relayer {
    pub(crate) fn options(&self, months_ahead: i32) -> relayer::Options {
        relayer::Options {
            connections: self.connections,
            poll: Duration::from_millis(self.poll_ms.into()),
            drain: Duration::from_secs(self.drain_seconds.into()),
            months_ahead,
            ..relayer::Options::default()
        }
    }

    fn problem(&self) -> Option<String> {
        let bounds = [
            ("connections", self.connections, 3..=1000),
            ("poll_ms", self.poll_ms, 250..=1_000),
            ("drain_seconds", self.drain_seconds, 1..=3600),
        ];
        let (name, value, range) = bounds.into_iter().find(|(_, value, range)| !range.contains(value))?;
        Some(format!("relayer.{name} is {value}, expected {} to {}", range.start(), range.end()))
    }
}

/// Where rails may tell us that they have news.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Callbacks {
    /// Nowhere if it is left out. Plain HTTP: whatever is reached from outside ends TLS.
    pub listen: Option<SocketAddr>,
}

/// Everything that was configured, checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub file: PathBuf,
    database: Option<Database>,
    pub embedded: Embedded,
    pub retention: Retention,
    pub adapters: Adapters,
    pub relayer: Relayer,
    pub callbacks: Callbacks,
    /// Where the rails' files are.
    pub rails_folder: PathBuf,
    /// By name, which is the name of the rail's file.
    pub rails: BTreeMap<String, Definition>,
    /// Refuses what is good for development only.
    pub production: bool,
}

const RETENTION_DAYS_MIN: i32 = 7;

impl Config {
    /// Reads the file and the folder `rails` beside it. A file that was not asked for by name may be absent.
    pub(crate) fn load(file: &Path, asked_for: bool) -> Result<Self, Error> {
        let parsed: File = if asked_for || file.exists() { parse(file)? } else { File::default() };
        let invalid = |problem: String| Error::Invalid { file: file.display().to_string(), problem };
        if parsed.retention.attempts_days < RETENTION_DAYS_MIN {
            return Err(invalid(format!(
                "retention.attempts_days is {}, expected {RETENTION_DAYS_MIN} or more",
                parsed.retention.attempts_days
            )));
        }
        if let Some(problem) = parsed.relayer.problem() {
            return Err(invalid(problem));
        }
        if !(1..=120).contains(&parsed.retention.months_ahead) {
            return Err(invalid(format!(
                "retention.months_ahead is {}, expected 1 to 120",
                parsed.retention.months_ahead
            )));
        }
        let database = parsed.database.build(parsed.production).map_err(invalid)?;
        let folder = file
            .parent()
            .unwrap_or(Path::new(""))
            .join(parsed.rails.as_deref().unwrap_or(Path::new("rails")));
        if parsed.rails.is_some() && !folder.is_dir() {
            return Err(invalid(format!("rails is {}, expected a folder", folder.display())));
        }
        let rails = load_rails(&folder, parsed.production)?;
        if let Some(problem) = parsed.adapters.problem(&rails) {
            return Err(invalid(problem));
        }
        Ok(Self {
            file: file.to_owned(),
            database,
            embedded: parsed.embedded,
            retention: parsed.retention,
            adapters: parsed.adapters,
            relayer: parsed.relayer,
            callbacks: parsed.callbacks,
            rails,
            rails_folder: folder,
            production: parsed.production,
        })
    }

    /// What the database has to know of the rails.
    pub(crate) fn rail_facts(&self) -> Vec<RailFacts> {
        let facts = |(name, definition): (&String, &Definition)| RailFacts {
            rail_type: name.clone(),
            deduplicates: definition.file.idempotent,
            hand_over_marks: definition.file.hand_over_marks,
            sla_seconds: definition.file.sla_seconds,
            rate: definition.file.rate.map(|rate| (rate.per_second, rate.burst)),
        };
        self.rails.iter().map(facts).collect()
    }

    pub(crate) fn database(&self) -> Result<Database, Error> {
        self.database.clone().ok_or_else(|| Error::NoDatabase { file: self.file.display().to_string() })
    }
}

impl DatabaseSection {
    fn build(self, production: bool) -> Result<Option<Database>, String> {
        let url = match env::var("DATABASE_URL") {
            Ok(url) => Some(("DATABASE_URL", url)),
            Err(_) => self
                .url
                .map(|secret| secret.read("database.url", production))
                .transpose()?
                .map(|url| ("database.url", url)),
        };
        let mut database = match &url {
            Some((key, url)) => Database::new(options(key, url, production)?),
            None if self.logins.is_empty() => return Ok(None),
            None if self.logins.len() < LOGINS => {
                return Err(
                    "database.url is missing, expected it, or database.logins for ingest, executor, operator and readonly: each command then has its login"
                        .to_owned(),
                );
            }
            None => Database::without_owner(),
        };
        if self.pooler {
            if self.logins.len() < LOGINS {
                return Err(
                    "database.pooler is true, expected database.logins for ingest, executor, operator and readonly: a pooler passes no role on"
                        .to_owned(),
                );
            }
            let key = "database.listener";
            let listener = self
                .listener
                .map(|secret| options(key, &secret.read(key, production)?, production))
                .transpose()?;
            if listener.is_none() && url.is_none() {
                return Err(
                    "database.pooler is true, expected database.listener, the executor's login past the pooler: a doorbell cannot ring through it"
                        .to_owned(),
                );
            }
            database = database.behind_pooler(listener);
        }
        for (name, secret) in self.logins {
            let role = match name {
                LoginName::Ingest => Role::Ingest,
                LoginName::Executor => Role::Executor,
                LoginName::Operator => Role::Operator,
                LoginName::Readonly => Role::Readonly,
            };
            let key = role.key();
            database = database.with_login(role, options(key, &secret.read(key, production)?, production)?);
        }
        Ok(Some(database))
    }
}

/// The URL itself is never part of the message: it may hold a password.
fn options(key: &str, url: &str, production: bool) -> Result<PgConnectOptions, String> {
    let wrong = || format!("{key} is not a PostgreSQL URL, expected postgres://user@host:port/database");
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(wrong());
    }
    let options: PgConnectOptions = url.parse().map_err(|_| wrong())?;
    let is_local = options.get_socket().is_some() || options.get_host().starts_with('/');
    match options.get_ssl_mode() {
        PgSslMode::VerifyFull => Ok(options),
        _ if !production || is_local => Ok(options),
        mode => Err(format!(
            "{key} has sslmode={}, expected sslmode=verify-full (and sslrootcert=FILE) or a Unix socket: production is true",
            ssl_mode(mode)
        )),
    }
}

fn ssl_mode(mode: PgSslMode) -> &'static str {
    match mode {
        PgSslMode::Disable => "disable",
        PgSslMode::Allow => "allow",
        PgSslMode::Prefer => "prefer",
        PgSslMode::Require => "require",
        PgSslMode::VerifyCa => "verify-ca",
        PgSslMode::VerifyFull => "verify-full",
    }
}

impl Secret {
    fn read(self, key: &str, production: bool) -> Result<String, String> {
        match self {
            Self::Plain(value) => Ok(value),
            Self::Env { env: name } => env::var(&name)
                .map_err(|_| format!("{key} refers to the environment variable {name}, which is not set")),
            Self::File { file } => {
                let others = fs::metadata(&file).map_or(0, |found| found.permissions().mode() & 0o077);
                if production && others != 0 {
                    return Err(format!(
                        "{key} refers to {}, which others may read or write, expected mode 0600: production is true",
                        file.display()
                    ));
                }
                fs::read_to_string(&file).map(|text| text.trim_end().to_owned()).map_err(|error| {
                    format!("{key} refers to {}, which cannot be read: {error}", file.display())
                })
            }
        }
    }
}

/// All rails' files, each in itself sound.
fn load_rails(folder: &Path, production: bool) -> Result<BTreeMap<String, Definition>, Error> {
    let invalid = |file: &Path, problem: String| Error::Invalid { file: file.display().to_string(), problem };
    let mut rails = BTreeMap::new();
    if !folder.is_dir() {
        return Ok(rails);
    }
    let entries = fs::read_dir(folder).map_err(|error| invalid(folder, error.to_string()))?;
    for entry in entries {
        let file = entry.map_err(|error| invalid(folder, error.to_string()))?.path();
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let definition = Definition::load(&file).map_err(|error| Error::Rail(Box::new(error)))?;
        if production && let Some(problem) = definition.refused_in_production() {
            return Err(invalid(&file, problem));
        }
        rails.insert(definition.name.clone(), definition);
    }
    Ok(rails)
}

fn parse<T: DeserializeOwned>(file: &Path) -> Result<T, Error> {
    let invalid = |problem: String| Error::Invalid { file: file.display().to_string(), problem };
    let text = fs::read_to_string(file).map_err(|error| invalid(format!("cannot be read: {error}")))?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
        invalid(match line {
            Some(line) => format!("line {line}: {}", error.message()),
            None => error.message().to_owned(),
        })
    })
}
