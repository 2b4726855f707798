//! Configuration: one TOML file per environment, one per rail. Seen by the command line only, which hands each module
//! its own part. A wrong value stops the start with file, key and expectation; nothing falls back silently.

mod database;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error as ThisError;

use outbox::enqueue::identifier_problem;
use outbox::operate::RailFacts;
use outbox::{Database, SchemaName};
use rail::LoadError;
use rail::definition::Definition;
use rail::sandbox::CALLS_DEFAULT;

use self::database::{DatabaseSection, or_told};

#[cfg(feature = "dev")]
const OR_PRIVATE: &str = ", or use --dev for a private PostgreSQL";
#[cfg(not(feature = "dev"))]
const OR_PRIVATE: &str = "";

#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error("{file}: {problem}")]
    Invalid { file: String, problem: String },
    #[error("no database is configured: set DATABASE_URL or database.url in {file}{OR_PRIVATE}")]
    NoDatabase { file: String },
    #[error("{file}: the database was not checked, because its settings are wrong")]
    WrongDatabase { file: String },
    #[error(transparent)]
    Rail(Box<LoadError>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConfigFile {
    database: DatabaseSection,
    embedded: Embedded,
    retention: RetentionConfig,
    adapters: AdaptersConfig,
    relayer: Relayer,
    callbacks: Callbacks,
    /// The folder of the rail files, relative to this one.
    rails: Option<PathBuf>,
    /// Refuses what is good for development only.
    production: bool,
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
pub(crate) struct RetentionConfig {
    pub attempts_days: i32,
    pub months_ahead: i32,
    pub export_folder: PathBuf,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self { attempts_days: 400, months_ahead: 3, export_folder: ".railhost/exports".into() }
    }
}

impl RetentionConfig {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.attempts_days < RETENTION_DAYS_MIN {
            problems.push(format!(
                "retention.attempts_days is {}, expected {RETENTION_DAYS_MIN} or more",
                self.attempts_days
            ));
        }
        if !(1..=120).contains(&self.months_ahead) {
            problems.push(format!("retention.months_ahead is {}, expected 1 to 120", self.months_ahead));
        }
        problems
    }
}

/// Where adapters run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AdaptersConfig {
    /// Compiled code; a folder that nobody else may write to.
    pub cache: PathBuf,
    /// Calls at a time, in this process.
    pub calls_max: usize,
}

impl Default for AdaptersConfig {
    fn default() -> Self {
        Self { cache: ".railhost/compiled".into(), calls_max: CALLS_DEFAULT }
    }
}

impl AdaptersConfig {
    /// A rail that fills its call slots must leave the other rails theirs.
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
    /// Looks at the queue this often without a notification too.
    poll_ms: u32,
    /// What is in flight may take this long after SIGTERM.
    drain_seconds: u32,
    /// A folder where every exchange is kept without secrets, a file per rail: for tests, not for production.
    pub record_to: Option<PathBuf>,
}

impl Default for Relayer {
    fn default() -> Self {
        Self { listen: None, connections: 8, poll_ms: 1000, drain_seconds: 40, record_to: None }
    }
}

impl Relayer {
    pub(crate) fn options(&self, months_ahead: i32) -> relayer::RelayerOptions {
        relayer::RelayerOptions {
            connections: self.connections,
            poll: Duration::from_millis(self.poll_ms.into()),
            drain: Duration::from_secs(self.drain_seconds.into()),
            months_ahead,
            ..relayer::RelayerOptions::default()
        }
    }

    fn problems(&self) -> Vec<String> {
        let bounds = [
            ("connections", self.connections, 3..=1000),
            ("poll_ms", self.poll_ms, 250..=1_000),
            ("drain_seconds", self.drain_seconds, 1..=3600),
        ];
        let wrong = bounds.into_iter().filter(|(_, value, range)| !range.contains(value));
        wrong
            .map(|(name, value, range)| {
                format!("relayer.{name} is {value}, expected {} to {}", range.start(), range.end())
            })
            .collect()
    }
}

/// Where rails may tell us that they have news.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Callbacks {
    /// Nowhere if it is left out. Plain HTTP: whatever is reached from outside ends TLS.
    pub listen: Option<SocketAddr>,
}

/// What the configuration says of the database.
#[derive(Debug)]
enum Configured {
    Nothing,
    /// It is told among the problems. What is left of it is not looked at: it need not be what was meant.
    Wrongly,
    So(Box<Database>),
}

/// Everything that was configured, checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub file: PathBuf,
    database: Configured,
    schema: SchemaName,
    #[cfg_attr(not(feature = "dev"), expect(dead_code, reason = "of the development mode"))]
    pub embedded: Embedded,
    pub retention: RetentionConfig,
    pub adapters: AdaptersConfig,
    pub relayer: Relayer,
    pub callbacks: Callbacks,
    /// Where the rail files are.
    pub rails_folder: PathBuf,
    /// By name, which is the name of the rail file.
    pub rails: BTreeMap<String, Definition>,
    /// Refuses what is good for development only.
    pub production: bool,
    /// Everything that is wrong, for `check`; every other command is refused at the first of them.
    pub problems: Vec<Error>,
}

const RETENTION_DAYS_MIN: i32 = 7;

impl Config {
    /// Reads the file and the folder `rails` beside it. A file that was not asked for by name may be absent.
    pub(crate) fn load(file: &Path, asked_for: bool) -> Result<Self, Error> {
        let mut config = Self::gather(file, asked_for)?;
        match config.problems.is_empty() {
            true => Ok(config),
            false => Err(config.problems.swap_remove(0)),
        }
    }

    /// The same for somebody who wants to know all that is wrong. Only a file that cannot be read at all is an error.
    pub(crate) fn gather(file: &Path, asked_for: bool) -> Result<Self, Error> {
        let parsed: ConfigFile =
            if asked_for || file.exists() { parse(file)? } else { ConfigFile::default() };
        let mut wrong = parsed.retention.problems();
        wrong.extend(parsed.relayer.problems());
        if parsed.production && parsed.relayer.record_to.is_some() {
            wrong.push("relayer.record_to must not be set when production is true".to_owned());
        }
        let schema = parsed.database.schema.as_deref().map_or(Ok(SchemaName::default()), str::parse);
        let schema = or_told(schema.map_err(|problem| format!("database.schema: {problem}")), &mut wrong);
        let database = match parsed.database.build(parsed.production) {
            Ok(None) => Configured::Nothing,
            // A wrong name is told; what stands in another schema than the one that was meant is not looked at.
            Ok(Some(_)) if schema.is_none() => Configured::Wrongly,
            Ok(Some(database)) => Configured::So(Box::new(database)),
            Err(problems) => {
                wrong.extend(problems);
                Configured::Wrongly
            }
        };
        let folder = file
            .parent()
            .unwrap_or(Path::new(""))
            .join(parsed.rails.as_deref().unwrap_or(Path::new("rails")));
        if parsed.rails.is_some() && !folder.is_dir() {
            wrong.push(format!("rails is {}, expected a folder", folder.display()));
        }
        let (rails, of_rails) = load_rails(&folder, parsed.production);
        wrong.extend(parsed.adapters.problem(&rails));
        let in_file = |problem| Error::Invalid { file: file.display().to_string(), problem };
        Ok(Self {
            file: file.to_owned(),
            database,
            schema: schema.unwrap_or_default(),
            embedded: parsed.embedded,
            retention: parsed.retention,
            adapters: parsed.adapters,
            relayer: parsed.relayer,
            callbacks: parsed.callbacks,
            rails,
            rails_folder: folder,
            production: parsed.production,
            problems: wrong.into_iter().map(in_file).chain(of_rails).collect(),
        })
    }

    /// What the database has to know of the rails.
    pub(crate) fn rail_facts(&self) -> Vec<RailFacts> {
        self.rails.iter().map(|(name, definition)| rail_facts(name, definition)).collect()
    }

    /// The private server of the development mode is a database like any other.
    #[cfg(feature = "dev")]
    pub(crate) fn database_at(&self, options: sqlx::postgres::PgConnectOptions) -> Database {
        Database::new(options).in_schema(self.schema.clone())
    }

    pub(crate) fn database(&self) -> Result<Database, Error> {
        let file = || self.file.display().to_string();
        match &self.database {
            Configured::So(database) => Ok(Database::clone(database).in_schema(self.schema.clone())),
            Configured::Nothing => Err(Error::NoDatabase { file: file() }),
            Configured::Wrongly => Err(Error::WrongDatabase { file: file() }),
        }
    }
}

/// What the database has to know of a rail.
pub(crate) fn rail_facts(name: &str, definition: &Definition) -> RailFacts {
    RailFacts {
        rail_type: name.to_owned(),
        deduplicates: definition.file.idempotent,
        hand_over_marks: definition.file.hand_over_marks,
        sla_seconds: definition.file.sla_seconds,
        rate: definition.rate().map(|rate| (rate.per_second, rate.burst)),
        key_forms: definition.key_forms(),
    }
}

/// All rail files that are sound in themselves, and what is wrong with them and with the others.
fn load_rails(folder: &Path, production: bool) -> (BTreeMap<String, Definition>, Vec<Error>) {
    let (mut rails, mut problems) = (BTreeMap::new(), Vec::new());
    let invalid = |file: &Path, problem: String| Error::Invalid { file: file.display().to_string(), problem };
    let files = match rail_files(folder) {
        Ok(files) => files,
        Err(error) => return (rails, vec![invalid(folder, error.to_string())]),
    };
    for file in files {
        let definition = match Definition::load(&file) {
            Ok(definition) => definition,
            Err(error) => {
                problems.push(Error::Rail(Box::new(error)));
                continue;
            }
        };
        // No payment could name it: enqueue refuses such a name.
        if let Some(problem) = identifier_problem(&definition.name) {
            problems.push(invalid(&file, format!("the file's name is the rail's, which {problem}")));
            continue;
        }
        if production && let Some(problem) = definition.refused_in_production() {
            problems.push(invalid(&file, problem));
        }
        rails.insert(definition.name.clone(), definition);
    }
    (rails, problems)
}

/// In the order of their names, so that the same is told each time.
fn rail_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "toml") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
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
