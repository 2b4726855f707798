use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use super::Error;

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
#[derive(Clone, Debug)]
pub struct Database {
    base: PgConnectOptions,
    logins: Vec<(Role, PgConnectOptions)>,
}

impl Database {
    /// One login for everything, which takes on each role after connecting: for development, and wherever one login is
    /// a member of the roles.
    pub fn new(base: PgConnectOptions) -> Self {
        Self { base, logins: Vec::new() }
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

    /// A pool of connections with the rights of one role, none of them opened yet.
    pub fn pool(&self, role: Role, connections_max: u32) -> PgPool {
        PgPoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(Duration::from_secs(10))
            .connect_lazy_with(self.options(role))
    }

    pub(super) fn options(&self, role: Role) -> PgConnectOptions {
        let own_login = self.logins.iter().find(|(with_login, _)| *with_login == role);
        let options = match (own_login, role.name()) {
            (Some((_, options)), _) => options.clone(),
            (None, Some(name)) => self.base.clone().options([("role", name)]),
            (None, None) => self.base.clone(),
        };
        // Sessions answer to symphony.clock() and UTC, never to a client's idea of either.
        options.application_name("railhost").options([("TimeZone", "UTC")])
    }
}
