use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::pool::Pool;
use super::{Database, Error, Role};

/// The queue of one rail, or of all together where `rail_type` is `None`.
#[derive(Clone, Debug, Serialize, sqlx::FromRow)]
pub struct Status {
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
#[derive(Clone, Debug, sqlx::FromRow)]
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
pub struct Event {
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
    pool: Pool,
}

impl Reader {
    pub fn new(database: &Database) -> Self {
        Self { pool: database.pool(Role::Readonly, 2) }
    }

    /// Per rail, the total last.
    pub async fn status(&self) -> Result<Vec<Status>, Error> {
        Ok(sqlx::query_as("select * from symphony.outbox_status order by rail_type nulls last")
            .fetch_all(&self.pool)
            .await?)
    }

    /// Per rail that has a queue, and in total.
    pub async fn queue(&self) -> Result<Vec<QueueCount>, Error> {
        Ok(sqlx::query_as("select * from symphony.count_queue()").fetch_all(&self.pool).await?)
    }

    /// All that happened to a payment, in order; empty if there is no such payment.
    pub async fn timeline(&self, outbox_id: Uuid) -> Result<Vec<Event>, Error> {
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
