use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection};

use super::Error;
use super::pool::{Endpoint, Patience, Pool};
use super::schema::SchemaName;

/// What a host asks is answered in milliseconds. Where it is not, the server is asked to cancel it, and is gone if it does not.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
const CANCELLED_WITHIN: Duration = Duration::from_secs(5);
/// The server ends by itself what waits for longer, before anybody has to ask. It does not end a commit that waits for a standby.
const STATEMENT_TIMEOUT_MS: &str = "15000";

const TRUSTED_IDLE: Duration = Duration::from_millis(500);
const ACQUIRED_WITHIN: Duration = Duration::from_secs(10);

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
    /// All but the owner.
    const RUNTIME: [Self; 4] = [Self::Ingest, Self::Executor, Self::Operator, Self::Readonly];

    /// Of the configuration.
    pub fn key(self) -> &'static str {
        match self {
            Self::Ingest => "database.logins.ingest",
            Self::Executor => "database.logins.executor",
            Self::Operator => "database.logins.operator",
            Self::Readonly => "database.logins.readonly",
            Self::Owner => "database.url",
        }
    }

    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Ingest => Some("symphony_ingest"),
            Self::Executor => Some("symphony_executor"),
            Self::Operator => Some("symphony_operator"),
            Self::Readonly => Some("symphony_readonly"),
            Self::Owner => None,
        }
    }
}

/// A way into the database that a host or a command may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// By the role's own login, or by the owner's where it has none.
    As(Role),
    /// Past the pooler, for notifications.
    Listener,
}

impl Access {
    /// The role whose rights are needed on it.
    pub(super) fn role(self) -> Role {
        match self {
            Self::As(role) => role,
            Self::Listener => Role::Executor,
        }
    }

    pub(super) fn writes(self) -> bool {
        !matches!(self, Self::As(Role::Readonly) | Self::Listener)
    }
}

/// Where the outbox lives, and how each role gets in.
#[derive(Clone)]
pub struct Database {
    schema: SchemaName,
    /// The owner's way in; a host that only serves has none where every role has a login.
    base: Option<PgConnectOptions>,
    logins: Vec<(Role, PgConnectOptions)>,
    /// The logins, not the base, go through a pooler in transaction mode.
    behind_pooler: bool,
    /// Past the pooler, for notifications.
    listener: Option<PgConnectOptions>,
    canceller: Arc<OnceLock<PgPool>>,
}

/// Passwords are among it.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("login", &self.login_of(Role::Owner)).finish_non_exhaustive()
    }
}

impl Database {
    /// One login for everything, which takes on each role after connecting: for development, and wherever one login is
    /// a member of the roles.
    pub fn new(base: PgConnectOptions) -> Self {
        Self { base: Some(base), ..Self::without_owner() }
    }

    /// Without the owner's login: migrations and retention are refused, and each role needs a login of its own.
    pub fn without_owner() -> Self {
        Self {
            schema: SchemaName::default(),
            base: None,
            logins: Vec::new(),
            behind_pooler: false,
            listener: None,
            canceller: Arc::default(),
        }
    }

    pub fn from_url(url: &str) -> Result<Self, Error> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|error| Error::InvalidArgument(format!("database URL: {error}")))?;
        Ok(Self::new(options))
    }

    /// The outbox stands in this schema of the database.
    #[must_use]
    pub fn in_schema(self, schema: SchemaName) -> Self {
        Self { schema, ..self }
    }

    pub fn schema(&self) -> &SchemaName {
        &self.schema
    }

    /// Gives a role a login of its own, as production should.
    #[must_use]
    pub fn with_login(mut self, role: Role, options: PgConnectOptions) -> Self {
        self.logins.retain(|(with_login, _)| *with_login != role);
        self.logins.push((role, options));
        self
    }

    /// The roles' logins lead to a pooler in transaction mode, such as PgBouncer; the listener for notifications, which needs a
    /// session, goes to PostgreSQL itself: by the executor's login `listener`, or else by the owner's.
    #[must_use]
    pub fn behind_pooler(self, listener: Option<PgConnectOptions>) -> Self {
        Self { behind_pooler: true, listener, ..self }
    }

    /// A pool of connections with the rights of one role, none of them opened yet. `name` is what the server calls them.
    pub(super) fn pool(&self, role: Role, connections_max: u32, name: &str) -> Pool {
        let application_name =
            format!("{}#{:08x}", name.chars().take(50).collect::<String>(), fastrand::u32(..));
        let behind_pooler = self.behind_pooler && self.login(role).is_some();
        let (mut options, refused) = match self.options(role) {
            Ok(options) => (options.application_name(&application_name), None),
            Err(Error::InvalidArgument(why)) => (PgConnectOptions::new_without_pgpass(), Some(why)),
            Err(error) => (PgConnectOptions::new_without_pgpass(), Some(error.to_string())),
        };
        match role {
            _ if behind_pooler => {}
            Role::Executor => {
                options = options.options([
                    ("statement_timeout", STATEMENT_TIMEOUT_MS),
                    // Whatever the login's default is: what is kept as late has to see what was committed meanwhile.
                    ("default_transaction_isolation", "read committed"),
                ]);
            }
            // What people look at has large estimates and is done before a compiler would be.
            Role::Readonly => options = options.options([("jit", "off")]),
            Role::Ingest | Role::Operator | Role::Owner => {}
        }
        let connections = PgPoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(ACQUIRED_WITHIN)
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
            .connect_lazy_with(options.clone());
        let patience = (role == Role::Executor).then(|| {
            Arc::new(Patience {
                answer_within: ANSWER_WITHIN,
                cancelled_within: CANCELLED_WITHIN,
                canceller: self.canceller(&options),
                application_name,
            })
        });
        let endpoint = Endpoint { name: self.login_of(role), options, schema: self.schema.clone() };
        Pool {
            connections,
            behind_pooler,
            patience,
            endpoint: Arc::new(endpoint),
            streams: role == Role::Owner,
            refused,
        }
    }

    /// One connection for all pools of this database. It keeps its own rights, for those that a role is taken on with are not
    /// enough to cancel a statement of the login behind it.
    fn canceller(&self, like: &PgConnectOptions) -> PgPool {
        // Past a pooler, whose connections may all be stuck.
        let past = self.behind_pooler.then(|| self.listener.as_ref().or(self.base.as_ref())).flatten();
        let options = past.or(self.login(Role::Executor)).or(self.base.as_ref()).unwrap_or(like).clone();
        let make = || {
            PgPoolOptions::new()
                .max_connections(1)
                .idle_timeout(Duration::from_secs(30))
                .acquire_timeout(CANCELLED_WITHIN)
                .connect_lazy_with(options.application_name("railhost cancel"))
        };
        self.canceller.get_or_init(make).clone()
    }

    /// A single connection, outside of every pool. The error says where it was to lead.
    pub(super) async fn connect(&self, role: Role) -> Result<PgConnection, Error> {
        self.enter(Access::As(role)).await
    }

    pub(super) async fn enter(&self, way: Access) -> Result<PgConnection, Error> {
        let options = match way {
            Access::As(role) => self.options(role)?,
            Access::Listener => self.direct()?,
        };
        let options = options.application_name("railhost");
        let endpoint = Endpoint { name: self.name_of(way), options, schema: self.schema.clone() };
        Ok(endpoint.connect().await?)
    }

    /// For notifications, whose listener needs a session of its own.
    pub(super) fn direct(&self) -> Result<PgConnectOptions, Error> {
        match (&self.listener, &self.base) {
            (Some(listener), _) if self.behind_pooler => Ok(listener.clone()),
            (None, Some(base)) if self.behind_pooler => Self::new(base.clone()).options(Role::Executor),
            (None, None) if self.behind_pooler => Err(Error::InvalidArgument(
                "LISTEN/NOTIFY does not work through a pooler: set database.listener or database.url to PostgreSQL itself"
                    .to_owned(),
            )),
            _ => self.options(Role::Executor),
        }
    }

    fn login(&self, role: Role) -> Option<&PgConnectOptions> {
        self.logins.iter().find(|(with_login, _)| *with_login == role).map(|(_, options)| options)
    }

    pub(super) fn options(&self, role: Role) -> Result<PgConnectOptions, Error> {
        let options = match (self.login(role), role.name(), &self.base) {
            (Some(own), ..) => own.clone(),
            (None, Some(name), Some(base)) => base.clone().options([("role", name)]),
            (None, None, Some(base)) => base.clone(),
            (None, None, None) => {
                let wanted = "this needs the owner's login: set DATABASE_URL or database.url";
                return Err(Error::InvalidArgument(wanted.to_owned()));
            }
            (None, Some(_), None) => {
                return Err(Error::InvalidArgument(format!(
                    "neither {} nor database.url is configured; one of them is needed",
                    role.key()
                )));
            }
        };
        // Sessions speak UTC, whatever the server's default is: sqlx asks for it. It also warns of slow statements, which is for
        // the server's own log to tell.
        Ok(options.disable_statement_logging())
    }

    /// Which key of the configuration leads where, without the password.
    pub fn login_of(&self, role: Role) -> String {
        self.name_of(Access::As(role))
    }

    pub(super) fn name_of(&self, way: Access) -> String {
        let (key, own) = match way {
            Access::As(role) => (role.key(), self.login(role)),
            Access::Listener => ("database.listener", self.listener.as_ref()),
        };
        let key = if own.is_some() { key } else { "database.url" };
        match own.or(self.base.as_ref()) {
            None => key.to_owned(),
            Some(options) => format!("{key} {}", end_of(options)),
        }
    }

    /// All ways that are ever taken: the owner's if there is one, each role's, and that of the listener where it is another one.
    pub(super) fn ways_in(&self) -> Vec<Access> {
        self.ways_of(&Role::RUNTIME)
    }

    /// Those that a host takes, which enqueues nothing and decides for nobody.
    pub(super) fn ways_of_a_host(&self) -> Vec<Access> {
        self.ways_of(&[Role::Executor, Role::Readonly])
    }

    fn ways_of(&self, roles: &[Role]) -> Vec<Access> {
        let owner = self.base.is_some().then_some(Role::Owner);
        let listener = self.behind_pooler.then_some(Access::Listener);
        owner.into_iter().chain(roles.iter().copied()).map(Access::As).chain(listener).collect()
    }

    /// Whether the owner's login takes on the role on this way.
    pub(super) fn takes_on(&self, way: Access) -> bool {
        let own = match way {
            Access::As(role) => self.login(role),
            Access::Listener => self.listener.as_ref(),
        };
        self.base.is_some() && own.is_none() && way != Access::As(Role::Owner)
    }
}

/// Where a login leads, and as whom.
fn end_of(options: &PgConnectOptions) -> String {
    let server = match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => options.get_host().to_owned(),
    };
    let (user, port) = (options.get_username(), options.get_port());
    let database = options.get_database().unwrap_or(user);
    format!("(user {user} on {server} port {port}, database {database})")
}
