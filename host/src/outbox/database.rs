use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::Error;
use super::pool::Pool;

/// What a host asks is answered in milliseconds, or the server is gone.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

const TRUSTED_IDLE: Duration = Duration::from_millis(500);

/// The logins of the outbox; each may do one kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// May enqueue and nothing else.
    Ingest,
    /// May lease, complete, repair, extend, release, record.
    Executor,
    /// May pause, suspend, reissue, resolve.
    Operator,
    /// May read pending, history and views.
    Readonly,
    /// The owner's rights, for migrations and retention.
    Owner,
}

impl Role {
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Ingest => Some("symphony_ingest"),
            Self::Executor => Some("symphony_executor"),
            Self::Operator => Some("symphony_operator"),
            Self::Readonly => Some("symphony_readonly"),
            Self::Owner => None,
        }
    }
}

/// Where the outbox lives, and how each role gets in.
#[derive(Clone)]
pub struct Database {
    base: PgConnectOptions,
    logins: Vec<(Role, PgConnectOptions)>,
    /// The logins, not the base, go through a pooler in transaction mode.
    behind_pooler: bool,
}

/// Passwords are among it.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("host", &self.base.get_host())
            .field("database", &self.base.get_database())
            .finish_non_exhaustive()
    }
}

impl Database {
    /// One login for everything, which takes on each role after connecting: for development, and wherever one login is
    /// a member of the roles.
    pub fn new(base: PgConnectOptions) -> Self {
        Self { base, logins: Vec::new(), behind_pooler: false }
    }

    pub fn from_url(url: &str) -> Result<Self, Error> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|error| Error::InvalidArgument(format!("database URL: {error}")))?;
        Ok(Self::new(options))
    }

    /// Gives a role a login of its own, as production should.
    #[must_use]
    pub fn with_login(mut self, role: Role, options: PgConnectOptions) -> Self {
        self.logins.retain(|(with_login, _)| *with_login != role);
        self.logins.push((role, options));
        self
    }

    /// The roles' logins lead to a pooler in transaction mode, such as PgBouncer; the base leads to PostgreSQL itself and is
    /// used for what needs a session: the doorbell, migrations.
    #[must_use]
    pub fn behind_pooler(self) -> Self {
        Self { behind_pooler: true, ..self }
    }

    /// A pool of connections with the rights of one role, none of them opened yet.
    pub(super) fn pool(&self, role: Role, connections_max: u32) -> Pool {
        let connections = PgPoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(Duration::from_secs(10))
            // One that was just used is taken to be alive: asking it first would double the way of every statement.
            .test_before_acquire(false)
            .before_acquire(|connection, state| {
                Box::pin(async move {
                    if state.idle_for > TRUSTED_IDLE {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(self.options(role));
        let behind_pooler = self.behind_pooler && self.login(role).is_some();
        let answer_within = (role == Role::Executor).then_some(ANSWER_WITHIN);
        Pool { connections, behind_pooler, answer_within }
    }

    /// For the doorbell, which needs a session of its own.
    pub(super) fn direct(&self) -> PgConnectOptions {
        match self.behind_pooler {
            true => Self::new(self.base.clone()).options(Role::Executor),
            false => self.options(Role::Executor),
        }
    }

    fn login(&self, role: Role) -> Option<&PgConnectOptions> {
        self.logins.iter().find(|(with_login, _)| *with_login == role).map(|(_, options)| options)
    }

    pub(super) fn options(&self, role: Role) -> PgConnectOptions {
        let options = match (self.login(role), role.name()) {
            (Some(own), _) => own.clone(),
            (None, Some(name)) => self.base.clone().options([("role", name)]),
            (None, None) => self.base.clone(),
        };
        // Sessions speak UTC, whatever the server's default is: sqlx asks for it.
        options.application_name("railhost")
    }
}
