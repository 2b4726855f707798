//! Configuration: one TOML file per environment, one per rail. Seen by the command line only, which hands each module
//! its own part. A wrong value stops the start with file, key and expectation; nothing falls back silently.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgConnectOptions;
use thiserror::Error as ThisError;

use railhost::outbox::operate::RailFacts;
use railhost::outbox::{Database, Role};

#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error("{file}: {problem}")]
    Invalid { file: String, problem: String },
    #[error(
        "no database is configured: set DATABASE_URL or database.url in {file}, or use --dev for a private PostgreSQL"
    )]
    NoDatabase { file: String },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    database: DatabaseSection,
    embedded: Embedded,
    retention: Retention,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DatabaseSection {
    url: Option<Secret>,
    logins: BTreeMap<LoginName, Secret>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LoginName {
    Ingest,
    Executor,
    Operator,
    Readonly,
}

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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RailFile {
    idempotent: bool,
    hand_over_marks: bool,
    sla_seconds: Option<i32>,
    rate: Option<Rate>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    per_second: i32,
    burst: i32,
}

/// Everything that was configured, checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub file: PathBuf,
    database: Option<Database>,
    pub embedded: Embedded,
    pub retention: Retention,
    /// By name, which is the name of the rail's file.
    pub rails: BTreeMap<String, RailFacts>,
}

const RETENTION_DAYS_MIN: i32 = 7;
const RAIL_NAME_CHARS_MAX: usize = 64;

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
        if !(1..=120).contains(&parsed.retention.months_ahead) {
            return Err(invalid(format!(
                "retention.months_ahead is {}, expected 1 to 120",
                parsed.retention.months_ahead
            )));
        }
        let database = parsed.database.build().map_err(invalid)?;
        let folder = file.parent().unwrap_or(Path::new("")).join("rails");
        Ok(Self {
            file: file.to_owned(),
            database,
            embedded: parsed.embedded,
            retention: parsed.retention,
            rails: load_rails(&folder)?,
        })
    }

    pub(crate) fn database(&self) -> Result<Database, Error> {
        self.database.clone().ok_or_else(|| Error::NoDatabase { file: self.file.display().to_string() })
    }
}

impl DatabaseSection {
    fn build(self) -> Result<Option<Database>, String> {
        let url = match env::var("DATABASE_URL") {
            Ok(url) => Some(("DATABASE_URL", url)),
            Err(_) => self
                .url
                .map(|secret| secret.read("database.url"))
                .transpose()?
                .map(|url| ("database.url", url)),
        };
        let Some((key, url)) = url else { return Ok(None) };
        let mut database = Database::new(options(key, &url)?);
        for (name, secret) in self.logins {
            let (key, role) = match name {
                LoginName::Ingest => ("database.logins.ingest", Role::Ingest),
                LoginName::Executor => ("database.logins.executor", Role::Executor),
                LoginName::Operator => ("database.logins.operator", Role::Operator),
                LoginName::Readonly => ("database.logins.readonly", Role::Readonly),
            };
            database = database.with_login(role, options(key, &secret.read(key)?)?);
        }
        Ok(Some(database))
    }
}

/// The URL itself is never part of the message: it may hold a password.
fn options(key: &str, url: &str) -> Result<PgConnectOptions, String> {
    url.parse()
        .map_err(|_| format!("{key} is no PostgreSQL URL, expected postgres://user@host:port/database"))
}

impl Secret {
    fn read(self, key: &str) -> Result<String, String> {
        match self {
            Self::Plain(value) => Ok(value),
            Self::Env { env: name } => env::var(&name)
                .map_err(|_| format!("{key} refers to the environment variable {name}, which is not set")),
            Self::File { file } => {
                fs::read_to_string(&file).map(|text| text.trim_end().to_owned()).map_err(|error| {
                    format!("{key} refers to {}, which cannot be read: {error}", file.display())
                })
            }
        }
    }
}

fn load_rails(folder: &Path) -> Result<BTreeMap<String, RailFacts>, Error> {
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
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if name.is_empty() || name.chars().count() > RAIL_NAME_CHARS_MAX {
            return Err(invalid(
                &file,
                format!("the file's name is the rail's, expected 1 to {RAIL_NAME_CHARS_MAX} characters"),
            ));
        }
        let rail: RailFile = parse(&file)?;
        if !rail.idempotent && !rail.hand_over_marks {
            return Err(invalid(
                &file,
                "hand_over_marks is false, expected true where idempotent is false".to_owned(),
            ));
        }
        if rail.sla_seconds.is_some_and(|seconds| seconds < 1) {
            return Err(invalid(&file, "sla_seconds must be positive".to_owned()));
        }
        if rail.rate.as_ref().is_some_and(|rate| rate.per_second < 1 || rate.burst < 1) {
            return Err(invalid(&file, "rate.per_second and rate.burst must be positive".to_owned()));
        }
        let facts = RailFacts {
            rail_type: name.clone(),
            deduplicates: rail.idempotent,
            hand_over_marks: rail.hand_over_marks,
            sla_seconds: rail.sla_seconds,
            rate: rail.rate.map(|rate| (rate.per_second, rate.burst)),
        };
        rails.insert(name, facts);
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
