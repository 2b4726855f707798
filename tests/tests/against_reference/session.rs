//! The sessions that take turns: real logins of each role, and the superuser who moves the clock and looks at the tables.

use std::collections::BTreeMap;

use harness::reference::Micros;
use harness::{Db, DbUser, sqlstate};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Executor as _, PgConnection, Postgres, Row as _};
use uuid::Uuid;

use crate::operation::RAILS;

/// A clock that stands still until it is told to move, so that model and database agree to the microsecond, and ids
/// that are a millisecond apart (ten seconds behind the clock, for none may lie ahead), so that no two rows tie in the order
/// of the claim.
const STAGE: &str = "
    create schema reference_test;
    create table reference_test.clock (at timestamptz not null, base timestamptz not null);
    insert into reference_test.clock
    select t.now, t.now from (select date_trunc('second', clock_timestamp()) + interval '1 minute' as now) t;
    create sequence reference_test.ids;
    create function reference_test.us(p_at timestamptz) returns bigint
      language sql immutable as $$ select (extract(epoch from p_at) * 1000000)::bigint $$;
    create or replace function symphony.clock() returns timestamptz
      language sql volatile parallel safe as $$ select at from reference_test.clock $$;
    create or replace function symphony.uuidv7() returns uuid
      language sql volatile parallel safe as $$
        select (left(replace(symphony.uuidv7_floor(
                       symphony.clock() - (10000 - nextval('reference_test.ids')) * interval '1 millisecond')::text, '-', ''), 12)
                || '7000' || substr(replace(gen_random_uuid()::text, '-', ''), 17))::uuid $$;
    grant usage on schema reference_test to public;
    grant select on reference_test.clock to public;
    grant usage on sequence reference_test.ids to public;";

/// Triggers refuse to empty the history, for everyone; replica mode is how a superuser gets around them.
const CLEAR: &str = "
    set session_replication_role = replica;
    delete from symphony.participant_outbox_sequences;
    delete from symphony.payment_outbox_pending;
    delete from symphony.payment_outbox_claims;
    delete from symphony.payment_outbox_records;
    delete from symphony.payment_outbox_attempts;
    delete from symphony.payment_outbox_holds;
    delete from symphony.payment_outbox_late_answers;
    delete from symphony.payment_outbox_resolutions;
    delete from symphony.payment_outbox_reissues;
    delete from symphony.participants;
    delete from symphony.rail_token_buckets;
    delete from symphony.rail_fronts;
    delete from symphony.rails;
    delete from symphony.relay_hosts;
    delete from symphony.operator_acts;
    reset session_replication_role;
    update symphony.clock_marks set seen_at = '-infinity';
    update reference_test.clock set at = base;
    alter sequence reference_test.ids restart;";

pub(crate) type Seen = BTreeMap<Uuid, (Option<Uuid>, bool, Micros)>;

pub(crate) struct Sessions {
    pub(crate) superuser: PgConnection,
    ingest: [PgConnection; 2],
    executor: [PgConnection; 2],
    operator: [PgConnection; 2],
    in_transaction: bool,
}

impl Sessions {
    pub(crate) async fn open(db: &Db) -> Self {
        let mut superuser = connect(db, DbUser::Superuser).await;
        superuser.execute(STAGE).await.expect("the stage is set");
        Self {
            superuser,
            ingest: [connect(db, DbUser::Ingest).await, connect(db, DbUser::Ingest).await],
            executor: [connect(db, DbUser::Executor).await, connect(db, DbUser::Executor).await],
            operator: [connect(db, DbUser::Operator).await, connect(db, DbUser::Operator).await],
            in_transaction: false,
        }
    }

    /// Empties the tables and turns the clock back; answers with the time.
    pub(crate) async fn clear(&mut self) -> i64 {
        if self.in_transaction {
            self.end_transaction(false).await;
        }
        self.superuser.execute(CLEAR).await.expect("the tables can be emptied");
        sqlx::query_scalar("select reference_test.us(at) from reference_test.clock")
            .fetch_one(&mut self.superuser)
            .await
            .expect("the clock can be read")
    }

    /// Until its end, whatever is called is called inside one transaction of the superuser.
    pub(crate) async fn begin(&mut self) {
        self.superuser.execute("begin").await.expect("begin");
        self.in_transaction = true;
    }

    pub(crate) async fn end_transaction(&mut self, commit: bool) {
        self.superuser
            .execute(if commit { "commit" } else { "rollback" })
            .await
            .expect("the transaction ends");
        self.in_transaction = false;
    }

    /// Runs one call as that role. A refusal is its SQLSTATE; inside a transaction it costs only this call.
    pub(crate) async fn call(
        &mut self,
        role: DbUser,
        turn: usize,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, String> {
        let in_transaction = self.in_transaction;
        let connection = match role {
            _ if in_transaction => &mut self.superuser,
            DbUser::Ingest => &mut self.ingest[turn],
            DbUser::Executor => &mut self.executor[turn],
            DbUser::Operator => &mut self.operator[turn],
            _ => &mut self.superuser,
        };
        if in_transaction {
            connection.execute("savepoint one").await.expect("savepoint");
        }
        let answer = query.fetch_all(&mut *connection).await;
        if in_transaction {
            let after = if answer.is_ok() { "release one" } else { "rollback to one; release one" };
            connection.execute(after).await.expect("the savepoint ends");
        }
        answer.map_err(|error| sqlstate(&error))
    }

    /// Lease token, parking and due time of every pending row, now.
    pub(crate) async fn look(&mut self) -> Seen {
        let sql = "select outbox_id, lease_token, parked, reference_test.us(next_attempt_at)
                     from symphony.payment_outbox_pending";
        sqlx::query(sql)
            .fetch_all(&mut self.superuser)
            .await
            .expect("pending rows can be read")
            .iter()
            .map(|row| (row.get(0), (row.get(1), row.get(2), row.get(3))))
            .collect()
    }
}

/// Nothing here crashes, so that nobody has to wait for the disk.
async fn connect(db: &Db, role: DbUser) -> PgConnection {
    let mut connection = db.connect(role).await;
    connection.execute("set synchronous_commit = off").await.expect("a setting of the session");
    connection
}

pub(crate) fn rail_names(rails: &[usize]) -> Vec<String> {
    rails.iter().map(|rail| RAILS[*rail].to_owned()).collect()
}
