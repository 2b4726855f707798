//! What the configuration says of the database: where it is, who logs in, and secrets that need not stand in the file.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::{env, fs};

use outbox::{Database, Role};
use serde::Deserialize;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DatabaseSection {
    url: Option<Secret>,
    /// Where the outbox stands in the database.
    pub(super) schema: Option<String>,
    logins: BTreeMap<LoginName, Secret>,
    /// The logins go through a pooler in transaction mode; `listener` or the URL leads to PostgreSQL itself.
    pooler: bool,
    /// The executor's login past the pooler, for notifications.
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

impl DatabaseSection {
    /// All that is wrong with it, where anything is.
    pub(super) fn build(self, production: bool) -> Result<Option<Database>, Vec<String>> {
        let mut wrong = Vec::new();
        let url = match env::var("DATABASE_URL") {
            Ok(url) => Some(options("DATABASE_URL", &url, production)),
            Err(_) => self.url.map(|secret| secret.options("database.url", production)),
        };
        let (has_url, has_all_logins) = (url.is_some(), self.logins.len() == LOGINS);
        let owner = url.and_then(|url| or_told(url, &mut wrong));
        if !has_url && self.logins.is_empty() {
            return Ok(None);
        }
        if !has_url && !has_all_logins {
            wrong.push("database.url is missing, expected it, or database.logins for ingest, executor, operator and readonly: each command then has its login".to_owned());
        }
        let mut database = owner.map_or_else(Database::without_owner, Database::new);
        if self.pooler {
            if !has_all_logins {
                wrong.push("database.pooler is true, expected database.logins for ingest, executor, operator and readonly: a pooler passes no role on".to_owned());
            }
            if self.listener.is_none() && !has_url {
                wrong.push("database.pooler is true, expected database.listener, the executor's login past the pooler: notifications do not come through it".to_owned());
            }
            let listener = self.listener.map(|secret| secret.options("database.listener", production));
            database = database.behind_pooler(listener.and_then(|listener| or_told(listener, &mut wrong)));
        }
        for (name, secret) in self.logins {
            let role = name.role();
            if let Some(login) = or_told(secret.options(role.key(), production), &mut wrong) {
                database = database.with_login(role, login);
            }
        }
        match wrong.is_empty() {
            true => Ok(Some(database)),
            false => Err(wrong),
        }
    }
}

/// Goes on without what is wrong, and keeps it to be told.
pub(super) fn or_told<T>(read: Result<T, String>, wrong: &mut Vec<String>) -> Option<T> {
    read.map_err(|problem| wrong.push(problem)).ok()
}

impl LoginName {
    fn role(self) -> Role {
        match self {
            Self::Ingest => Role::Ingest,
            Self::Executor => Role::Executor,
            Self::Operator => Role::Operator,
            Self::Readonly => Role::Readonly,
        }
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
    /// Where it is the URL of a database.
    fn options(self, key: &str, production: bool) -> Result<PgConnectOptions, String> {
        options(key, &self.read(key, production)?, production)
    }

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
