//! What people look at: status, timeline, review list, gaps.

mod departed;

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::{Postgres, QueryBuilder};
use uuid::Uuid;

use super::pool::Pool;
use super::{Database, Error, Role};

pub use departed::Departed;

/// The queue of one rail, or of all together where `rail_type` is `None`.
#[derive(Clone, Debug, Serialize, sqlx::FromRow)]
pub struct QueueStatus {
    pub rail_type: Option<String>,
    pub rail_state: Option<String>,
    pub pending: i64,
    pub leased_count: i64,
    pub expired_lease_count: i64,
    pub due_unleased_count: i64,
    pub scheduled: i64,
    pub parked: i64,
    pub unsettled: i64,
    pub unroutable: i64,
    pub oldest_pending_age_seconds: Option<f64>,
    /// Of a payment that is due and that no host took.
    pub longest_wait_seconds: Option<f64>,
    pub attempts_dispatched: i64,
    pub attempts_retryable: i64,
    pub attempts_failed: i64,
    pub attempts_zombie_requeue: i64,
    pub dead_letters: i64,
}

/// The same, as far as a host shows it every few seconds: cheap however long the history is.
#[derive(Clone, Debug, Default, sqlx::FromRow)]
pub struct QueueCount {
    pub rail_type: Option<String>,
    pub pending: i64,
    pub leased_count: i64,
    pub expired_lease_count: i64,
    pub oldest_pending_age_seconds: Option<f64>,
    pub longest_wait_seconds: Option<f64>,
    /// In the total alone.
    pub dead_letters: Option<i64>,
}

/// Something that happened to a payment.
#[derive(Clone, Debug, Serialize, sqlx::FromRow)]
pub struct TimelineEvent {
    pub at: DateTime<Utc>,
    pub event: String,
    #[sqlx(json)]
    pub detail: Value,
}

/// Numbers that were given out and lead to no payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct Gap {
    pub participant_id: String,
    pub gap_from: i64,
    pub gap_until: i64,
}

/// A strictly ordered participant of whom payments wait.
#[derive(Clone, Debug, Serialize, sqlx::FromRow)]
pub struct BlockedStream {
    pub participant_id: String,
    /// The payment whose verdict they wait for.
    pub head_id: Uuid,
    pub rail_type: String,
    pub since: DateTime<Utc>,
    pub attempts: i32,
    pub unsettled: bool,
    pub waiting: i64,
}

/// A payment that a person has to look at.
#[derive(Clone, Debug, Serialize, sqlx::FromRow)]
pub struct Review {
    pub outbox_id: Uuid,
    pub instruction_id: String,
    pub participant_id: String,
    pub rail_type: String,
    pub since: DateTime<Utc>,
    pub reason: String,
    pub error_code: Option<String>,
    pub rail_code: Option<String>,
    pub has_late_answer: bool,
}

/// A payment as it stands, pending or ended.
#[derive(Clone, sqlx::FromRow)]
pub struct Payment {
    pub outbox_id: Uuid,
    pub instruction_id: String,
    pub idempotency_key: String,
    pub participant_id: String,
    pub sequence_id: i64,
    pub rail_type: String,
    pub state: String,
    pub unsettled: bool,
    pub attempts: i32,
    pub created_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
    pub money_moved: Option<String>,
    pub error_code: Option<String>,
    pub rail_code: Option<String>,
    pub rail_reference: Option<String>,
    pub error_message: Option<String>,
    /// None where its history is gone.
    pub payload: Option<Value>,
    /// As the payload says it, which need not be an amount.
    pub amount: Option<String>,
    pub currency: Option<String>,
    pub payee: Option<String>,
    /// What a person found out.
    pub resolved: Option<String>,
    pub reissued_as: Option<Uuid>,
    pub needs_review: bool,
}

/// Payload and payee are private.
impl fmt::Debug for Payment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payment")
            .field("outbox_id", &self.outbox_id)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Of which payments.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub rail_type: Option<String>,
    pub participant_id: Option<String>,
    /// Any of them; none means all.
    pub states: Vec<String>,
    pub error_code: Option<String>,
    pub rail_code: Option<String>,
    /// By the time of acceptance.
    pub since: Option<DateTime<Utc>>,
    pub until: Option<DateTime<Utc>>,
    pub needs_review: bool,
    pub unsettled: bool,
}

/// How a payment ended, by its history.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Ending {
    pub outbox_id: Uuid,
    /// 1, or 0 while it is open.
    pub verdicts: i64,
    pub state: Option<String>,
    pub money_moved: Option<String>,
    pub ended_at: Option<DateTime<Utc>>,
    /// An attempt before the verdict settled nothing.
    pub retried: bool,
    /// A host lost it on the way.
    pub taken_over: bool,
}

/// May read pending, history and views.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) pool: Pool,
}

impl Reader {
    pub fn new(database: &Database) -> Self {
        Self { pool: database.pool(Role::Readonly, 2, "railhost") }
    }

    /// Per rail, the total last.
    pub async fn status(&self) -> Result<Vec<QueueStatus>, Error> {
        Ok(sqlx::query_as("select * from symphony.outbox_status order by rail_type nulls last")
            .fetch_all(&self.pool)
            .await?)
    }

    /// Per rail that has a queue, and in total.
    pub async fn queue(&self) -> Result<Vec<QueueCount>, Error> {
        Ok(sqlx::query_as("select * from symphony.count_queue()").fetch_all(&self.pool).await?)
    }

    /// How many payments a host holds.
    pub async fn leases_of(&self, worker_id: &str) -> Result<i64, Error> {
        let held = "select count(*) from symphony.payment_outbox_pending where claimed_by = $1";
        Ok(sqlx::query_scalar(held).bind(worker_id).fetch_one(&self.pool).await?)
    }

    /// All that happened to a payment, in order; empty if there is no such payment.
    pub async fn timeline(&self, outbox_id: Uuid) -> Result<Vec<TimelineEvent>, Error> {
        Ok(sqlx::query_as(
            "select at, event, detail
               from symphony.payment_timeline
              where outbox_id = $1
              order by at, event in ('LEASED', 'PARKED', 'SCHEDULED', 'DUE')",
        )
        .bind(outbox_id)
        .fetch_all(&self.pool)
        .await?)
    }

    /// How these payments ended.
    pub async fn endings(&self, payments: &[Uuid]) -> Result<Vec<Ending>, Error> {
        Ok(sqlx::query_as(
            "select m.outbox_id,
                    count(*) filter (where a.state in ('DISPATCHED', 'FAILED')) as verdicts,
                    max(a.state::text) filter (where a.state in ('DISPATCHED', 'FAILED')) as state,
                    max(a.money_moved) filter (where a.state in ('DISPATCHED', 'FAILED')) as money_moved,
                    max(a.completed_at) filter (where a.state in ('DISPATCHED', 'FAILED')) as ended_at,
                    coalesce(bool_or(a.state = 'RETRYABLE'), false) as retried,
                    coalesce(bool_or(a.state = 'ZOMBIE_REQUEUE'), false) as taken_over
               from unnest($1) as m(outbox_id)
               left join symphony.payment_outbox_attempts a using (outbox_id)
              group by m.outbox_id
              order by m.outbox_id",
        )
        .bind(payments)
        .fetch_all(&self.pool)
        .await?)
    }

    /// The payments that a filter chooses, the newest first.
    pub async fn payments(&self, filter: &Filter, rows_max: i64) -> Result<Vec<Payment>, Error> {
        let mut query = QueryBuilder::new(PAYMENTS);
        query.push(" where true");
        filter.narrow(&mut query);
        query.push(" order by outbox_id desc limit ").push_bind(rows_max);
        Ok(query.build_query_as().fetch_all(&self.pool).await?)
    }

    /// The payments that a text names: by outbox id, instruction, idempotency key, the rail's reference, the payee or the
    /// amount. The newest first.
    pub async fn find(&self, text: &str, filter: &Filter, rows_max: i64) -> Result<Vec<Payment>, Error> {
        let mut query = QueryBuilder::new(PAYMENTS);
        query.push(" where (false");
        for column in ["instruction_id", "idempotency_key", "rail_reference", "payee"] {
            query.push(" or ").push(column).push(" = ").push_bind(text);
        }
        if let Ok(id) = Uuid::parse_str(text) {
            query.push(" or outbox_id = ").push_bind(id);
        }
        if is_decimal(text) {
            // By value, and exactly: 10 is 10.00.
            query
                .push(" or case when amount ~ '^[0-9]{1,40}([.][0-9]{1,40})?$' then amount::numeric = ")
                .push_bind(text)
                .push("::numeric else false end");
        }
        query.push(")");
        filter.narrow(&mut query);
        query.push(" order by outbox_id desc limit ").push_bind(rows_max);
        Ok(query.build_query_as().fetch_all(&self.pool).await?)
    }

    /// The payment whose key at the rail this is: its first hexadecimal digits, at least 32, with the six bits left out that
    /// the form of a UUID overwrites. The key is a hash of the outbox id, so every id is looked at.
    pub async fn find_by_rail_key(&self, digits: &str, filter: &Filter) -> Result<Vec<Payment>, Error> {
        let mut query = QueryBuilder::new(PAYMENTS);
        query.push(" where outbox_id in (");
        push_ids_of_rail_key(&mut query, digits);
        query.push(")");
        filter.narrow(&mut query);
        query.push(" order by outbox_id desc");
        Ok(query.build_query_as().fetch_all(&self.pool).await?)
    }

    /// The payments of an instruction; each has another idempotency key.
    pub async fn of_instruction(&self, instruction_id: &str) -> Result<Vec<Payment>, Error> {
        let mut query = QueryBuilder::new(PAYMENTS);
        query.push(" where instruction_id = ").push_bind(instruction_id).push(" order by outbox_id desc");
        Ok(query.build_query_as().fetch_all(&self.pool).await?)
    }

    /// Those of these payments that there are.
    pub async fn by_id(&self, payments: &[Uuid]) -> Result<Vec<Payment>, Error> {
        let mut query = QueryBuilder::new(PAYMENTS);
        query.push(" where outbox_id = any (").push_bind(payments).push(") order by outbox_id desc");
        Ok(query.build_query_as().fetch_all(&self.pool).await?)
    }

    /// The payment that was accepted under a key.
    pub async fn find_by_key(
        &self,
        instruction_id: &str,
        idempotency_key: &str,
    ) -> Result<Option<Uuid>, Error> {
        Ok(sqlx::query_scalar("select outbox_id from symphony.payment_outbox_records where key_digest = symphony.key_digest($1, $2)")
            .bind(instruction_id)
            .bind(idempotency_key)
            .fetch_optional(&self.pool)
            .await?)
    }

    /// Whether this participant ever had a payment.
    pub async fn has_stream(&self, participant_id: &str) -> Result<bool, Error> {
        Ok(sqlx::query_scalar(
            "select exists (select 1 from symphony.payment_outbox_records where participant_id = $1)",
        )
        .bind(participant_id)
        .fetch_one(&self.pool)
        .await?)
    }

    /// Missing numbers, of one participant or of all; none is the proof.
    pub async fn gaps(&self, participant_id: Option<&str>) -> Result<Vec<Gap>, Error> {
        let gaps = match participant_id {
            Some(participant_id) => {
                sqlx::query_as(
                    "select * from symphony.sequence_gaps where participant_id = $1 order by gap_from",
                )
                .bind(participant_id)
                .fetch_all(&self.pool)
                .await
            }
            None => {
                sqlx::query_as("select * from symphony.sequence_gaps order by participant_id, gap_from")
                    .fetch_all(&self.pool)
                    .await
            }
        };
        Ok(gaps?)
    }

    /// Missing numbers of payments that were accepted in a span of time, of one participant or of all.
    pub async fn gaps_between(
        &self,
        participant_id: Option<&str>,
        since: Option<DateTime<Utc>>,
        until: Option<DateTime<Utc>>,
    ) -> Result<Vec<Gap>, Error> {
        Ok(sqlx::query_as(
            "select participant_id, gap_from, gap_until
               from symphony.sequence_gaps_between($1, coalesce($2::timestamptz, 'epoch'), coalesce($3::timestamptz, '9999-01-01Z'))
              order by participant_id, gap_from",
        )
        .bind(participant_id)
        .bind(since)
        .bind(until)
        .fetch_all(&self.pool)
        .await?)
    }

    /// Strict streams that wait, the longest first.
    pub async fn blocked_streams(&self, rows_max: i64) -> Result<Vec<BlockedStream>, Error> {
        Ok(sqlx::query_as("select * from symphony.blocked_streams order by since limit $1")
            .bind(rows_max)
            .fetch_all(&self.pool)
            .await?)
    }

    /// What needs a person, the oldest first.
    pub async fn reviews(&self, rows_max: i64) -> Result<Vec<Review>, Error> {
        Ok(sqlx::query_as(
            "select outbox_id, instruction_id, participant_id, rail_type, since, reason, error_code, rail_code, has_late_answer
               from symphony.payments_needing_review
              order by since
              limit $1",
        )
        .bind(rows_max)
        .fetch_all(&self.pool)
        .await?)
    }
}

const PAYMENTS: &str = "select outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type, state, unsettled, attempts,
       created_at, ended_at, money_moved, error_code, rail_code, rail_reference, error_message, payload, amount, currency,
       payee, resolved, reissued_as, needs_review
  from symphony.payments";

/// The ids of payments whose key at the rail begins so.
fn push_ids_of_rail_key(query: &mut QueryBuilder<Postgres>, digits: &str) {
    query.push(
        "select k.outbox_id
           from symphony.payment_outbox_records k
          cross join lateral (select encode(sha256(convert_to(k.outbox_id::text, 'UTF8')), 'hex') as digits) key
          where substr(key.digits, 1, 12) = substr(",
    );
    query.push_bind(digits).push(", 1, 12) and substr(key.digits, 14, 3) = substr(");
    query.push_bind(digits).push(", 14, 3) and substr(key.digits, 18, length(");
    query.push_bind(digits).push(") - 17) = substr(").push_bind(digits).push(", 18)");
}

impl Filter {
    fn narrow(&self, query: &mut QueryBuilder<Postgres>) {
        let texts = [
            ("rail_type", &self.rail_type),
            ("participant_id", &self.participant_id),
            ("error_code", &self.error_code),
            ("rail_code", &self.rail_code),
        ];
        for (column, wanted) in texts {
            if let Some(wanted) = wanted {
                query.push(" and ").push(column).push(" = ").push_bind(wanted.clone());
            }
        }
        if !self.states.is_empty() {
            query.push(" and state = any (").push_bind(self.states.clone()).push(")");
        }
        // The id carries the time of acceptance to the millisecond, and the history is partitioned by it.
        if let Some(since) = self.since {
            query.push(" and created_at >= ").push_bind(since);
            query.push(" and outbox_id >= symphony.uuidv7_floor(").push_bind(since).push(")");
        }
        if let Some(until) = self.until {
            query.push(" and created_at < ").push_bind(until);
            query
                .push(" and outbox_id < symphony.uuidv7_floor(")
                .push_bind(until)
                .push("::timestamptz + interval '1 second')");
        }
        if self.needs_review {
            query.push(" and needs_review");
        }
        if self.unsettled {
            query.push(" and unsettled");
        }
    }

    /// Nothing is left out.
    pub fn is_empty(&self) -> bool {
        let Self {
            rail_type,
            participant_id,
            states,
            error_code,
            rail_code,
            since,
            until,
            needs_review,
            unsettled,
        } = self;
        [rail_type, participant_id, error_code, rail_code].iter().all(|text| text.is_none())
            && states.is_empty()
            && [since, until].iter().all(|at| at.is_none())
            && !needs_review
            && !unsettled
    }
}

fn is_decimal(text: &str) -> bool {
    let digits =
        |part: &str| (1..=40).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, decimals)) => digits(whole) && digits(decimals),
        None => digits(text),
    }
}
