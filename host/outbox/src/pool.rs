use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{TryFutureExt, TryStreamExt};
use sqlx::error::BoxDynError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Connection, Describe, Either, Error, Execute, Executor, PgConnection, Postgres, SqlStr};
use tokio::time::timeout;

use super::notices::{self, Warnings};
use super::schema::{InSchema, SchemaName};

/// Connections with the rights of one role.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub connections: PgPool,
    /// In transaction mode. Every statement then travels in a transaction of its own and without a name: between two
    /// transactions the pooler may give us another server connection, which has never heard of what we prepared.
    pub behind_pooler: bool,
    /// For how long a statement is waited for, where that has an end.
    pub patience: Option<Arc<Patience>>,
    pub endpoint: Arc<Endpoint>,
    /// Rows come one by one, as an export needs them.
    pub streams: bool,
    /// The configuration names no way in.
    pub refused: Option<String>,
}

/// Where connections lead.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub name: String,
    pub options: PgConnectOptions,
    pub schema: SchemaName,
}

impl Endpoint {
    /// A single connection. What goes wrong says where.
    pub(super) async fn connect(&self) -> Result<PgConnection, Error> {
        match timeout(CONNECTED_WITHIN, PgConnection::connect_with(&self.options)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(self.explain(error)),
            Err(_) => {
                Err(self.explain(unheard(format!("no answer within {} s", CONNECTED_WITHIN.as_secs()))))
            }
        }
    }

    fn explain(&self, error: Error) -> Error {
        match error {
            Error::Database(said)
                if said.code().is_some_and(|code| code.starts_with("28") || code == "3D000") =>
            {
                let problem = format!("{}: {}", self.name, said.message());
                Error::Io(io::Error::new(io::ErrorKind::PermissionDenied, problem))
            }
            Error::Database(_) => error,
            other => {
                Error::Io(io::Error::new(io::ErrorKind::NotConnected, format!("{}: {other}", self.name)))
            }
        }
    }
}

const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// What is done about a statement that is not answered. Dropping its connection is the last resort: the server would go on
/// with it, and what it does then nobody hears of.
#[derive(Debug)]
pub(super) struct Patience {
    pub answer_within: Duration,
    /// After it was cancelled: a commit that waited for a standby is answered then, and so is a wait for a lock.
    pub cancelled_within: Duration,
    /// Another way to the same server, with the right to end our statements.
    pub canceller: PgPool,
    /// By which the server knows our connections.
    pub application_name: String,
}

impl Patience {
    /// Has the server cancel those of our statements that take too long.
    async fn cancel(&self) {
        self.end_statements("select pg_cancel_backend(pid) from pg_stat_activity where application_name = $1 and state <> 'idle' and clock_timestamp() - query_start > make_interval(secs => $2)").await;
    }

    /// Has the server end the connections that did not hear of that.
    async fn terminate(&self) {
        self.end_statements("select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and state <> 'idle' and clock_timestamp() - query_start > make_interval(secs => $2)").await;
    }

    async fn end_statements(&self, how: &'static str) {
        let asked = sqlx::query(how)
            .bind(&self.application_name)
            .bind(self.answer_within.as_secs_f64() * 0.9)
            .persistent(false)
            .execute(&self.canceller);
        match timeout(self.cancelled_within, asked).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a statement could not be cancelled: {error}"),
            Err(_) => tracing::debug!("a statement could not be cancelled: the server does not answer"),
        }
    }
}

type Answer = Either<PgQueryResult, PgRow>;

impl Pool {
    pub(super) fn schema(&self) -> &SchemaName {
        &self.endpoint.schema
    }

    /// One of the connections. What goes wrong says where.
    pub(super) async fn connection(&self) -> Result<PoolConnection<Postgres>, Error> {
        if let Some(why) = &self.refused {
            return Err(Error::Configuration(why.clone().into()));
        }
        match self.connections.acquire().await {
            Ok(connection) => Ok(connection),
            // A pool only says that it waited in vain. Where it has no connection at all, one of its own says why; where it has,
            // all of them are busy, and another one would be one too many.
            Err(Error::PoolTimedOut) if self.connections.size() == 0 => {
                Err(match self.endpoint.connect().await {
                    Err(why) => why,
                    Ok(_) => self.endpoint.explain(Error::PoolTimedOut),
                })
            }
            Err(error) => Err(self.endpoint.explain(error)),
        }
    }

    /// All that a statement brings.
    async fn answers<'q, E: Execute<'q, Postgres> + 'q>(&self, query: E) -> Result<Vec<Answer>, Error> {
        let query = InSchema(query, self.schema().clone());
        let mut connection = self.connection().await?;
        let Some(patience) = &self.patience else {
            return ask(&mut connection, query, self.behind_pooler).await;
        };
        let warnings = Warnings::default();
        let mut cancelled = false;
        let answered = {
            let mut work =
                pin!(notices::heard_by(warnings.clone(), ask(&mut connection, query, self.behind_pooler)));
            match timeout(patience.answer_within, &mut work).await {
                Ok(answers) => Some(answers),
                Err(_) => {
                    cancelled = true;
                    patience.cancel().await;
                    timeout(patience.cancelled_within, &mut work).await.ok()
                }
            }
        };
        match answered {
            // The commit was made here, and nobody can say whether a standby has it.
            Some(Ok(_)) if warnings.of_a_standby() || cancelled && warnings.any() => {
                notices::count();
                Err(unheard("PostgreSQL committed with a warning: a standby may not have it".to_owned()))
            }
            Some(answers) => answers,
            None => {
                patience.terminate().await;
                // Not back into the pool: whatever it may still say is for nobody.
                drop(connection.detach());
                let seconds = (patience.answer_within + patience.cancelled_within).as_secs();
                Err(unheard(format!("PostgreSQL gave no answer within {seconds} s")))
            }
        }
    }
}

/// Nobody knows whether it took effect.
fn unheard(problem: String) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::TimedOut, problem))
}

/// Behind a pooler the server's time limit cannot be set for a session.
const BEGIN_WITHIN_LIMIT: &str = "begin isolation level read committed; set local statement_timeout = 15000";

async fn ask<'q, E: Execute<'q, Postgres> + 'q>(
    connection: &mut PgConnection,
    query: E,
    in_transaction: bool,
) -> Result<Vec<Answer>, Error> {
    if !in_transaction {
        return connection.fetch_many(query).try_collect().await;
    }
    let mut transaction = connection.begin_with(BEGIN_WITHIN_LIMIT).await?;
    let answers = transaction.fetch_many(Unnamed(query)).try_collect().await?;
    transaction.commit().await?;
    Ok(answers)
}

impl<'p> Executor<'p> for &'p Pool {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Answer, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        if self.streams && self.refused.is_none() {
            return self.connections.fetch_many(InSchema(query, self.schema().clone()));
        }
        let answers = self.answers(query).map_ok(|answers| stream::iter(answers.into_iter().map(Ok)));
        Box::pin(answers.try_flatten_stream())
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let first = |answers: Vec<Answer>| answers.into_iter().find_map(Either::right);
        Box::pin(self.answers(query).map_ok(first))
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'p: 'e,
    {
        self.connections.prepare_with(sql, parameters)
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, Error>>
    where
        'p: 'e,
    {
        self.connections.describe(sql)
    }
}

/// A query whose statement is forgotten after it.
struct Unnamed<E>(E);

impl<'q, E: Execute<'q, Postgres>> Execute<'q, Postgres> for Unnamed<E> {
    fn sql(self) -> SqlStr {
        self.0.sql()
    }

    fn statement(&self) -> Option<&PgStatement> {
        self.0.statement()
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, BoxDynError> {
        self.0.take_arguments()
    }

    fn persistent(&self) -> bool {
        false
    }
}
