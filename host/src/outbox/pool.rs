use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{TryFutureExt, TryStreamExt};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgPool, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Connection, Describe, Either, Error, Execute, Executor, PgConnection, Postgres, SqlStr};
use tokio::time::timeout;

/// Connections with the rights of one role.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub connections: PgPool,
    /// In transaction mode. Every statement then travels in a transaction of its own and without a name: between two
    /// transactions the pooler may give us another server connection, which has never heard of what we prepared.
    pub behind_pooler: bool,
    /// A statement that was not answered by then never will be: a server that vanished sends no word of it.
    pub answer_within: Option<Duration>,
}

type Answer = Either<PgQueryResult, PgRow>;

impl Pool {
    /// All that a statement brings.
    async fn answers<'q, E: Execute<'q, Postgres> + 'q>(&self, query: E) -> Result<Vec<Answer>, Error> {
        let mut connection = self.connections.acquire().await?;
        let work = ask(&mut connection, query, self.behind_pooler);
        let Some(limit) = self.answer_within else { return work.await };
        if let Ok(answers) = timeout(limit, work).await {
            return answers;
        }
        // Not back into the pool: whatever it may still say is for nobody.
        drop(connection.detach());
        let problem = format!("PostgreSQL gave no answer within {} s", limit.as_secs());
        Err(Error::Io(io::Error::new(io::ErrorKind::TimedOut, problem)))
    }
}

async fn ask<'q, E: Execute<'q, Postgres> + 'q>(
    connection: &mut PgConnection,
    query: E,
    in_transaction: bool,
) -> Result<Vec<Answer>, Error> {
    if !in_transaction {
        return connection.fetch_many(query).try_collect().await;
    }
    let mut transaction = connection.begin().await?;
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
        // A month that is exported comes row by row.
        if !self.behind_pooler && self.answer_within.is_none() {
            return self.connections.fetch_many(query);
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
