//! The outbox's functions as a test calls them: raw SQL, one connection per role, nothing of the host in between.

use std::fmt::Debug;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{AssertSqlSafe, FromRow, PgConnection, PgExecutor, Postgres};
use uuid::Uuid;

use crate::{Db, DbUser, PATIENCE, sqlstate};

/// The worker in whose name [`Hands`] leases and completes.
pub const WORKER: &str = "worker-1";
pub const LEASE_SECONDS: f64 = 30.0;

/// A payment as it is handed in. `None` travels as SQL null.
#[derive(Clone, Debug)]
pub struct Request {
    pub instruction_id: Option<String>,
    pub participant_id: Option<String>,
    pub idempotency_key: Option<String>,
    pub rail_type: Option<String>,
    pub payload: Option<String>,
}

impl Request {
    /// A valid payment over the rail `mock`, whose instruction has the name of its key.
    pub fn new(participant: &str, key: &str) -> Self {
        Self {
            instruction_id: Some(key.to_owned()),
            participant_id: Some(participant.to_owned()),
            idempotency_key: Some(key.to_owned()),
            rail_type: Some("mock".to_owned()),
            payload: Some(
                r#"{"amount": "10.00", "currency": "UGX", "destination": "256700000001"}"#.to_owned(),
            ),
        }
    }

    #[must_use]
    pub fn rail(self, rail: &str) -> Self {
        Self { rail_type: Some(rail.to_owned()), ..self }
    }

    #[must_use]
    pub fn payload(self, payload: &str) -> Self {
        Self { payload: Some(payload.to_owned()), ..self }
    }
}

/// What `enqueue_payment_outbox` answers.
#[derive(Clone, Debug, PartialEq, FromRow)]
pub struct Accepted {
    pub outbox_id: Uuid,
    pub sequence_id: i64,
    pub created_at: DateTime<Utc>,
    pub state: String,
}

/// One row of what `enqueue_payment_outbox_batch` answers.
#[derive(Clone, Debug, PartialEq, FromRow)]
pub struct Answered {
    pub ordinal: i32,
    pub outbox_id: Option<Uuid>,
    pub sequence_id: Option<i64>,
    pub created_at: Option<DateTime<Utc>>,
    pub state: Option<String>,
    pub replayed: bool,
    pub refusal: Option<String>,
    pub refusal_detail: Option<String>,
}

/// One row of what `claim_outbox_batch` answers.
#[derive(Clone, Debug, PartialEq, FromRow)]
pub struct Leased {
    pub outbox_id: Uuid,
    pub participant_id: String,
    pub sequence_id: i64,
    pub rail_type: String,
    pub attempt_count: i32,
    pub next_attempt_at: DateTime<Utc>,
    pub claimed_at: DateTime<Utc>,
    pub lease_token: Uuid,
    pub lease_expires_at: DateTime<Utc>,
    pub unsettled: bool,
    pub handed_over_at: Option<DateTime<Utc>>,
    pub past: Option<Value>,
}

/// What a holder says at the end of its lease.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub state: Option<&'static str>,
    pub rail_reference: Option<String>,
    pub error_code: Option<&'static str>,
    pub delay_seconds: Option<f64>,
    pub money_moved: Option<&'static str>,
    pub unsettled: Option<bool>,
    pub adapter_digest: Option<Vec<u8>>,
}

impl Answer {
    pub fn new(state: &'static str) -> Self {
        Self { state: Some(state), ..Self::default() }
    }

    pub fn retry(error_code: &'static str) -> Self {
        Self { error_code: Some(error_code), delay_seconds: Some(0.0), ..Self::new("RETRYABLE") }
    }
}

/// One row of what `complete_outbox_batch` answers.
#[derive(Clone, Debug, PartialEq, FromRow)]
pub struct Completed {
    pub ordinal: i32,
    pub outbox_id: Option<Uuid>,
    pub attempt_no: Option<i32>,
    pub state: Option<String>,
    pub repeated: bool,
    pub refusal: Option<String>,
    pub refusal_detail: Option<String>,
}

/// The SQLSTATE of a call that must have failed.
pub fn refusal<T: Debug>(result: Result<T, sqlx::Error>) -> String {
    sqlstate(&result.expect_err("this call must be refused"))
}

pub async fn run(executor: impl PgExecutor<'_>, sql: &str) {
    try_run(executor, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

pub async fn try_run(executor: impl PgExecutor<'_>, sql: &str) -> Result<u64, sqlx::Error> {
    sqlx::query(AssertSqlSafe(sql.to_owned())).execute(executor).await.map(|done| done.rows_affected())
}

/// The single value that a query answers.
pub async fn scalar<T>(executor: impl PgExecutor<'_>, sql: &str) -> T
where
    T: Send + Unpin + for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
        .fetch_one(executor)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The first column of every row that a query answers.
pub async fn column<T>(executor: impl PgExecutor<'_>, sql: &str) -> Vec<T>
where
    T: Send + Unpin + for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
        .fetch_all(executor)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// How many rows `what` has: a table of the schema, with a `where` if wanted.
pub async fn count(executor: impl PgExecutor<'_>, what: &str) -> i64 {
    scalar(executor, &format!("select count(*) from symphony.{what}")).await
}

/// Returns once that many sessions of this database wait for a lock.
pub async fn until_waiting(db: &Db, sessions: i64) {
    let mut connection = db.connect(DbUser::Superuser).await;
    let look = async {
        let sql = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        while scalar::<i64>(&mut connection, sql).await < sessions {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the sessions come to wait for each other");
}

pub async fn enqueue(executor: impl PgExecutor<'_>, request: &Request) -> Result<Accepted, sqlx::Error> {
    sqlx::query_as("select * from symphony.enqueue_payment_outbox($1, $2, $3, $4, $5::text::jsonb)")
        .bind(&request.instruction_id)
        .bind(&request.participant_id)
        .bind(&request.idempotency_key)
        .bind(&request.rail_type)
        .bind(&request.payload)
        .fetch_one(executor)
        .await
}

pub async fn enqueue_batch(
    executor: impl PgExecutor<'_>,
    requests: &[Request],
) -> Result<Vec<Answered>, sqlx::Error> {
    let texts = |field: fn(&Request) -> &Option<String>| -> Vec<Option<String>> {
        requests.iter().map(|request| field(request).clone()).collect()
    };
    sqlx::query_as("select * from symphony.enqueue_payment_outbox_batch($1, $2, $3, $4, $5::text[]::jsonb[])")
        .bind(texts(|request| &request.instruction_id))
        .bind(texts(|request| &request.participant_id))
        .bind(texts(|request| &request.idempotency_key))
        .bind(texts(|request| &request.rail_type))
        .bind(texts(|request| &request.payload))
        .fetch_all(executor)
        .await
}

/// Leases up to `rows` of any rail.
pub async fn claim(executor: impl PgExecutor<'_>, rows: i32, worker: &str) -> Vec<Leased> {
    sqlx::query_as("select * from symphony.claim_outbox_batch($1, $2, $3)")
        .bind(rows)
        .bind(worker)
        .bind(LEASE_SECONDS)
        .fetch_all(executor)
        .await
        .expect("a claim with good arguments")
}

/// A claim whose arguments are written out in SQL.
pub async fn claim_with(executor: impl PgExecutor<'_>, arguments: &str) -> Result<Vec<Leased>, sqlx::Error> {
    sqlx::query_as(AssertSqlSafe(format!("select * from symphony.claim_outbox_batch({arguments})")))
        .fetch_all(executor)
        .await
}

pub async fn complete(
    executor: impl PgExecutor<'_>,
    worker: &str,
    outbox_id: Uuid,
    lease_token: Uuid,
    answer: &Answer,
) -> Result<(i32, String), sqlx::Error> {
    sqlx::query_as(
        "select * from symphony.complete_outbox_attempt($1, $2, $3, $4, $5, null, $6, null, 5, $7, $8, $9, $10)",
    )
    .bind(outbox_id)
    .bind(lease_token)
    .bind(worker)
    .bind(answer.state)
    .bind(&answer.rail_reference)
    .bind(answer.error_code)
    .bind(answer.delay_seconds)
    .bind(answer.money_moved)
    .bind(answer.unsettled)
    .bind(&answer.adapter_digest)
    .fetch_one(executor)
    .await
}

pub async fn complete_batch(
    executor: impl PgExecutor<'_>,
    worker: &str,
    rows: &[(Uuid, Uuid, Answer)],
) -> Result<Vec<Completed>, sqlx::Error> {
    sqlx::query_as(
        "select * from symphony.complete_outbox_batch($1, $2, $3, $4, p_rail_references => $5, p_error_codes => $6,
           p_latencies_ms => array_fill(5, array[cardinality($2)]), p_retry_delay_seconds => $7,
           p_money_moved => $8, p_unsettled => $9, p_adapter_digests => $10)",
    )
    .bind(worker)
    .bind(rows.iter().map(|row| row.0).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.1).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.2.state).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.2.rail_reference.clone()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.2.error_code).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.2.delay_seconds).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.2.money_moved).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.2.unsettled).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.2.adapter_digest.clone()).collect::<Vec<_>>())
    .fetch_all(executor)
    .await
}

/// One connection per role, and the steps that most tests begin with.
#[derive(Debug)]
pub struct Hands {
    pub ingest: PgConnection,
    pub executor: PgConnection,
    pub operator: PgConnection,
    /// Sees everything; never used to do what a role should do.
    pub owner: PgConnection,
}

impl Hands {
    pub async fn of(db: &Db) -> Self {
        Self {
            ingest: db.connect(DbUser::Ingest).await,
            executor: db.connect(DbUser::Executor).await,
            operator: db.connect(DbUser::Operator).await,
            owner: db.connect(DbUser::Superuser).await,
        }
    }

    pub async fn enqueue(&mut self, participant: &str, key: &str) -> Uuid {
        self.enqueue_this(&Request::new(participant, key)).await.outbox_id
    }

    pub async fn enqueue_this(&mut self, request: &Request) -> Accepted {
        enqueue(&mut self.ingest, request).await.expect("a good payment is accepted")
    }

    /// `rows` payments of one participant, keys `k1`, `k2`, …
    pub async fn enqueue_many(&mut self, participant: &str, rows: usize) -> Vec<Uuid> {
        let requests: Vec<Request> =
            (1..=rows).map(|n| Request::new(participant, &format!("{participant}-k{n}"))).collect();
        let answers = enqueue_batch(&mut self.ingest, &requests).await.expect("good payments are accepted");
        answers.into_iter().map(|answer| answer.outbox_id.expect("accepted")).collect()
    }

    pub async fn claim(&mut self, rows: i32) -> Vec<Leased> {
        claim(&mut self.executor, rows, WORKER).await
    }

    /// The lease of the only row that is due.
    pub async fn claim_one(&mut self) -> Leased {
        let mut leases = self.claim(10).await;
        assert_eq!(leases.len(), 1, "one row is due: {leases:?}");
        leases.remove(0)
    }

    /// The lease of the first of that many rows that are due.
    pub async fn claim_one_of(&mut self, due: i64) -> Leased {
        let sql = "payment_outbox_pending where lease_token is null and next_attempt_at <= symphony.clock()";
        assert_eq!(self.count(sql).await, due, "rows that are due");
        self.claim(1).await.remove(0)
    }

    pub async fn complete(&mut self, lease: &Leased, answer: &Answer) -> Result<(i32, String), sqlx::Error> {
        complete(&mut self.executor, WORKER, lease.outbox_id, lease.lease_token, answer).await
    }

    /// Leases the only due row and ends the lease, again and again, until it has that many attempts.
    pub async fn attempts(&mut self, times: i32, answer: &Answer) {
        for no in 1..=times {
            let lease = self.claim_one().await;
            let done = self.complete(&lease, answer).await.expect("the lease is held");
            assert_eq!(done, (no, "RETRYABLE".to_owned()));
        }
    }

    pub async fn repair(&mut self) -> Vec<(Uuid, i32)> {
        sqlx::query_as("select * from symphony.repair_expired_leases(100, 'repairer')")
            .fetch_all(&mut self.executor)
            .await
            .expect("a repair with good arguments")
    }

    /// An operator's act on a rail or a participant: `pause_rail`, `suspend_participant`, … The participant may be new.
    pub async fn operate(&mut self, act: &str, target: &str) {
        let unseen = if act == "suspend_participant" { ", true" } else { "" };
        run(&mut self.operator, &format!("select symphony.{act}('{target}', 'tester', 'a test'{unseen})"))
            .await;
    }

    pub async fn order_strictly(&mut self, participant: &str, strict: bool) {
        let sql =
            format!("select symphony.set_strict_order('{participant}', {strict}, 'tester', 'a test', true)");
        run(&mut self.operator, &sql).await;
    }

    /// A rail that keeps hand-over marks.
    pub async fn keep_marks(&mut self, rail: &str) {
        let sql = format!(
            "select symphony.configure_rail('{rail}', false, true, null, null, null, 'tester', 'a test')"
        );
        run(&mut self.operator, &sql).await;
    }

    pub async fn reconcile(&mut self) -> i32 {
        scalar(&mut self.operator, "select symphony.reconcile_parking()").await
    }

    /// Sends the month of a payment out of the history, as retention does it. The clock then stands 100 days ahead.
    pub async fn retire_history(&mut self, db: &Db, outbox_id: Uuid) {
        db.move_clock("100 days").await;
        run(&mut self.owner, "select symphony.create_attempt_partitions(3)").await;
        let part: String = self
            .scalar(&format!(
                "select partition_name from symphony.payment_outbox_partitions
                  where symphony.uuidv7_time('{outbox_id}') >= from_at and symphony.uuidv7_time('{outbox_id}') < until_at"
            ))
            .await;
        for step in [
            format!(
                "select symphony.note_export('{part}', (select count(*) from symphony.{part}), repeat('0', 64))"
            ),
            format!("select symphony.copy_verdicts('{part}', 7)"),
            format!("select symphony.check_retirable('{part}', 7)"),
            format!(
                "alter table symphony.payment_outbox_attempts detach partition symphony.{part} concurrently"
            ),
            format!("select symphony.note_detached('{part}')"),
            format!("select symphony.drop_detached('{part}')"),
        ] {
            run(&mut self.owner, &step).await;
        }
    }

    pub async fn count(&mut self, what: &str) -> i64 {
        count(&mut self.owner, what).await
    }

    pub async fn scalar<T>(&mut self, sql: &str) -> T
    where
        T: Send + Unpin + for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
    {
        scalar(&mut self.owner, sql).await
    }
}
