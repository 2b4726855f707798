use std::fmt;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{TryFutureExt, TryStreamExt};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgPool, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Describe, Either, Error, Execute, Executor, Postgres, SqlStr};

/// Connections with the rights of one role. Behind a pooler in transaction mode every statement travels in a transaction of its
/// own and without a name: between two transactions the pooler may give us another server connection, which has never heard
/// of what we prepared.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub connections: PgPool,
    pub behind_pooler: bool,
}

type Answer = Either<PgQueryResult, PgRow>;

impl<'p> Executor<'p> for &'p Pool {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Answer, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        if !self.behind_pooler {
            return self.connections.fetch_many(query);
        }
        let answers = async move {
            let mut transaction = self.connections.begin().await?;
            let answers: Vec<Answer> = transaction.fetch_many(Unnamed(query)).try_collect().await?;
            transaction.commit().await?;
            Ok(stream::iter(answers.into_iter().map(Ok)))
        };
        Box::pin(answers.try_flatten_stream())
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        if !self.behind_pooler {
            return self.connections.fetch_optional(query);
        }
        Box::pin(async move {
            let mut transaction = self.connections.begin().await?;
            let row = transaction.fetch_optional(Unnamed(query)).await?;
            transaction.commit().await?;
            Ok(row)
        })
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

impl<E> fmt::Debug for Unnamed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unnamed")
    }
}

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
