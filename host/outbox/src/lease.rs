//! What a host may do as executor: claim, extend, hand back and repair leases, mark, hold.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;
use serde_json::value::RawValue;
use sqlx::types::Json;
use uuid::Uuid;
use verdict::error_code::ErrorCode;

use super::pool::Pool;
use super::text::{MESSAGE_CHARS_MAX, SHORT_TEXT_CHARS_MAX, clean, clean_text};
use super::{Database, Error, PARKING_ROWS_PER_CALL, Role};
use payment::Private;

/// A payment that is ours until `lease_expires_at`, under `lease_token`.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Lease {
    pub outbox_id: Uuid,
    pub instruction_id: String,
    pub participant_id: String,
    pub sequence_id: i64,
    pub idempotency_key: String,
    pub rail_type: String,
    /// As it was accepted. Not parsed here: a payload that cannot be must not take its neighbours with it.
    #[sqlx(json)]
    pub payload: Private<Box<RawValue>>,
    pub attempt_count: i32,
    /// When the payment is due. The latest of payments that were never tried is the `after` of later claims.
    pub next_attempt_at: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
    pub claimed_at: DateTime<Utc>,
    pub lease_token: Uuid,
    /// When the lease ends, by the database's clock. A holder measures its own time from before it sent the claim.
    pub lease_expires_at: DateTime<Utc>,
    /// The money may have moved already: ask, do not send.
    pub unsettled: bool,
    pub handed_over_at: Option<DateTime<Utc>>,
    /// What was heard of this payment so far, for one that has a past.
    pub past: Option<Json<Value>>,
    /// Calls that the rail's rate still allows at once, for all hosts together. None where it has no rate.
    pub rate_left: Option<i32>,
    /// This claim ended the lease of a host that lost it.
    pub taken_over: bool,
    /// How often it was sent to a rail that could not pay; none of these was an attempt.
    pub holds: i32,
}

/// Names a lease in the calls of its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRef {
    pub outbox_id: Uuid,
    pub lease_token: Uuid,
}

/// What a claim may take of one rail.
#[derive(Clone, Debug)]
pub struct ClaimLimit {
    pub rail_type: String,
    pub rows_max: i32,
    pub lease_seconds: f64,
    /// Rows due before this were seen finished and are not looked at. `None` is a full sweep.
    pub after: Option<DateTime<Utc>>,
    pub only: Option<Narrowing>,
}

/// What a claim is narrowed to: rows that stand behind however long a queue are found all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrowing {
    /// What may have left already, for a question.
    Asked,
    /// That, and what was tried before.
    Tried,
}

impl Narrowing {
    fn as_sql(self) -> &'static str {
        match self {
            Self::Asked => "ASKED",
            Self::Tried => "TRIED",
        }
    }
}

/// An expired lease that was ended, and the attempt that says so.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Repaired {
    pub outbox_id: Uuid,
    pub attempt_no: i32,
    /// `ZOMBIE_REQUEUE`, or `FAILED` at the ceiling.
    pub state: String,
    pub rail_type: String,
}

/// Paused rails, suspended participants, revoked components. What was leased of it before and is not handed over yet must not be
/// handed over any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Restrictions {
    pub rails: Vec<String>,
    pub participants: Vec<String>,
    /// Digests of components that nobody may use any more.
    pub revoked: Vec<Vec<u8>>,
}

/// A lease that goes back because the rail as a whole cannot pay now; it uses up no attempt.
#[derive(Clone, Debug)]
pub struct Hold {
    pub lease: LeaseRef,
    pub delay_seconds: f64,
    pub error_code: ErrorCode,
    pub rail_code: Option<String>,
    pub message: Option<String>,
    pub adapter_digest: Option<[u8; 32]>,
}

/// A rail's component and file that a host took up, or did not.
#[derive(Clone, Debug)]
pub struct RailLoad {
    pub rail_type: String,
    /// `LOADED`, `REFUSED` or `REVOKED`.
    pub outcome: &'static str,
    pub component: Option<[u8; 32]>,
    pub file: [u8; 32],
    pub detail: String,
}

/// A payment that a rail speaks of unasked.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct CalledPayment {
    pub instruction_id: String,
    pub participant_id: String,
    pub sequence_id: i64,
    #[sqlx(json)]
    pub payload: Private<Box<RawValue>>,
    /// `PENDING`, or its verdict.
    pub state: String,
    pub money_moved: String,
}

/// Another host that lives, and which components and files it works with.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct OtherHost {
    pub worker_id: String,
    pub digests: Option<Json<BTreeMap<String, String>>>,
}

/// May claim, complete, repair, extend, release, record. One per process start: the worker's name is part of the fence.
#[derive(Clone, Debug)]
pub struct Executor {
    pub(super) pool: Pool,
    pub(super) worker_id: String,
}

impl Executor {
    pub fn new(database: &Database, worker_id: impl Into<String>, connections_max: u32) -> Self {
        let worker_id = worker_id.into();
        Self { pool: database.pool(Role::Executor, connections_max, &worker_id), worker_id }
    }

    pub fn worker_id(&self) -> &str {
        &self.worker_id
    }

    /// Leases due rows of any rail.
    pub async fn claim_any(&self, rows_max: i32, lease_seconds: f64) -> Result<Vec<Lease>, Error> {
        let leases = sqlx::query_as("select * from symphony.claim_outbox_batch($1, $2, $3)")
            .bind(rows_max)
            .bind(&self.worker_id)
            .bind(lease_seconds)
            .fetch_all(&self.pool)
            .await?;
        Ok(leases)
    }

    /// Leases due rows of the rails that have room, and takes over at most `takeovers_max` expired leases per rail.
    pub async fn claim(
        &self,
        rows_max: i32,
        limits: &[ClaimLimit],
        takeovers_max: i32,
    ) -> Result<Vec<Lease>, Error> {
        let Some(default_lease_seconds) = limits.first().map(|limit| limit.lease_seconds) else {
            return Ok(Vec::new());
        };
        let leases =
            sqlx::query_as("select * from symphony.claim_outbox_batch($1, $2, $3, $4, $5, $6, $7, $8, $9)")
                .bind(rows_max)
                .bind(&self.worker_id)
                .bind(default_lease_seconds)
                .bind(limits.iter().map(|limit| limit.rail_type.as_str()).collect::<Vec<_>>())
                .bind(limits.iter().map(|limit| limit.rows_max).collect::<Vec<_>>())
                .bind(limits.iter().map(|limit| limit.lease_seconds).collect::<Vec<_>>())
                .bind(limits.iter().map(|limit| limit.after).collect::<Vec<_>>())
                .bind(takeovers_max)
                .bind(limits.iter().map(|limit| limit.only.map(Narrowing::as_sql)).collect::<Vec<_>>())
                .fetch_all(&self.pool)
                .await?;
        Ok(leases)
    }

    /// Ends expired leases, whoever held them.
    pub async fn repair(&self, rows_max: i32) -> Result<Vec<Repaired>, Error> {
        let repaired = sqlx::query_as(
            "select outbox_id, attempt_no, state, rail_type from symphony.repair_expired_leases($1, $2)",
        )
        .bind(rows_max)
        .bind(&self.worker_id)
        .fetch_all(&self.pool)
        .await?;
        Ok(repaired)
    }

    /// Prolongs leases; the answer has those that are still ours, with their new expiry.
    pub async fn extend(
        &self,
        leases: &[LeaseRef],
        lease_seconds: f64,
    ) -> Result<Vec<(Uuid, DateTime<Utc>)>, Error> {
        let (ids, tokens) = columns(leases);
        let extended = sqlx::query_as(
            "select outbox_id, lease_expires_at from symphony.extend_outbox_leases($1, $2, $3, $4)",
        )
        .bind(&self.worker_id)
        .bind(ids)
        .bind(tokens)
        .bind(lease_seconds)
        .fetch_all(&self.pool)
        .await?;
        Ok(extended)
    }

    /// Hands back rows that this lease never gave to a rail; the answer has those that went back.
    pub async fn release(&self, leases: &[LeaseRef]) -> Result<Vec<Uuid>, Error> {
        let (ids, tokens) = columns(leases);
        let released = sqlx::query_scalar("select outbox_id from symphony.release_outbox_leases($1, $2, $3)")
            .bind(&self.worker_id)
            .bind(ids)
            .bind(tokens)
            .fetch_all(&self.pool)
            .await?;
        Ok(released)
    }

    /// Commits the hand-over marks; what is missing from the answer must not be sent.
    pub async fn mark_handed_over(&self, leases: &[LeaseRef]) -> Result<Vec<Uuid>, Error> {
        let (ids, tokens) = columns(leases);
        let marked = sqlx::query_scalar("select outbox_id from symphony.mark_handed_over($1, $2, $3)")
            .bind(&self.worker_id)
            .bind(ids)
            .bind(tokens)
            .fetch_all(&self.pool)
            .await?;
        Ok(marked)
    }

    /// Commits what was captured from replies about payments; what is missing from the answer is no longer ours. `late`: what a
    /// request that paid or asked brought is kept also then.
    pub async fn keep_captured(
        &self,
        captured: &[(LeaseRef, Value)],
        late: bool,
    ) -> Result<Vec<Uuid>, Error> {
        let (leases, values): (Vec<LeaseRef>, Vec<&Value>) =
            captured.iter().map(|(lease, values)| (*lease, values)).unzip();
        let (ids, tokens) = columns(&leases);
        Ok(sqlx::query_scalar("select outbox_id from symphony.keep_captured($1, $2, $3, $4, $5)")
            .bind(&self.worker_id)
            .bind(ids)
            .bind(tokens)
            .bind(values)
            .bind(late)
            .fetch_all(&self.pool)
            .await?)
    }

    /// A rail has news of a payment: it is asked about now and not later. False where there is nothing to ask.
    pub async fn hint(&self, rail_type: &str, outbox_id: Uuid, settles: bool) -> Result<bool, Error> {
        Ok(sqlx::query_scalar("select symphony.hint_payment($1, $2, $3)")
            .bind(rail_type)
            .bind(outbox_id)
            .bind(settles)
            .fetch_one(&self.pool)
            .await?)
    }

    /// The payment that a rail speaks of.
    pub async fn called_payment(
        &self,
        rail_type: &str,
        outbox_id: Uuid,
    ) -> Result<Option<CalledPayment>, Error> {
        let found = sqlx::query_as("select * from symphony.called_payment($1, $2)")
            .bind(rail_type)
            .bind(outbox_id)
            .fetch_optional(&self.pool)
            .await?;
        Ok(found)
    }

    /// Whether these very words were kept before.
    pub async fn callback_is_known(&self, token: Uuid) -> Result<bool, Error> {
        let known = sqlx::query_scalar("select symphony.callback_is_known($1)");
        Ok(known.bind(token).fetch_one(&self.pool).await?)
    }

    /// Payments whose key begins with these hexadecimal digits: those that wait for an answer, and those of rails that call back by
    /// it.
    pub async fn payments_of_key(&self, rail_type: &str, prefix: &str) -> Result<Vec<Uuid>, Error> {
        let found = sqlx::query_scalar("select symphony.payments_of_key($1, $2)")
            .bind(rail_type)
            .bind(prefix)
            .fetch_all(&self.pool)
            .await?;
        Ok(found)
    }

    /// The rails that are paused and the participants that are suspended now.
    pub async fn restrictions(&self) -> Result<Restrictions, Error> {
        Ok(sqlx::query_as("select rails, participants, revoked from symphony.stopped()")
            .fetch_one(&self.pool)
            .await?)
    }

    /// Hands back leases of payments that only met a rail that cannot pay now; the answer has those that went back.
    pub async fn hold(&self, holds: &[Hold]) -> Result<Vec<Uuid>, Error> {
        let leases: Vec<_> = holds.iter().map(|hold| hold.lease).collect();
        let (ids, tokens) = columns(&leases);
        let text = |pick: fn(&Hold) -> &Option<String>, chars_max| {
            holds.iter().map(|hold| clean(pick(hold), chars_max)).collect::<Vec<_>>()
        };
        Ok(sqlx::query_scalar(
            "select outbox_id from symphony.hold_outbox_leases($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(&self.worker_id)
        .bind(ids)
        .bind(tokens)
        .bind(holds.iter().map(|hold| hold.delay_seconds).collect::<Vec<_>>())
        .bind(holds.iter().map(|hold| hold.error_code.as_str()).collect::<Vec<_>>())
        .bind(text(|hold| &hold.rail_code, SHORT_TEXT_CHARS_MAX))
        .bind(text(|hold| &hold.message, MESSAGE_CHARS_MAX))
        .bind(holds.iter().map(|hold| hold.adapter_digest.map(Vec::from)).collect::<Vec<_>>())
        .fetch_all(&self.pool)
        .await?)
    }

    /// Frees what was leased in our name by a claim whose answer never came. Only while no claim of ours is on its way.
    pub async fn hand_back_unknown(&self, known: &[Uuid]) -> Result<Vec<Uuid>, Error> {
        Ok(sqlx::query_scalar("select outbox_id from symphony.hand_back_unknown_leases($1, $2)")
            .bind(&self.worker_id)
            .bind(known)
            .fetch_all(&self.pool)
            .await?)
    }

    /// What was committed before this returns is as durable as the server can make it: a transaction of its own that writes to the
    /// log, so that its commit waits for whatever commits have to wait for. One that only has a number waits for nothing.
    pub async fn confirm(&self) -> Result<(), Error> {
        sqlx::query("select pg_logical_emit_message(true, 'railhost', '')").execute(&self.pool).await?;
        Ok(())
    }

    /// Pauses a rail until a person resumes it; false if it was paused already.
    pub async fn stop_rail(&self, rail_type: &str, why: &str) -> Result<bool, Error> {
        let why = clean_text(why, MESSAGE_CHARS_MAX);
        Ok(sqlx::query_scalar("select symphony.stop_rail($1, $2, $3)")
            .bind(rail_type)
            .bind(&self.worker_id)
            .bind(why)
            .fetch_one(&self.pool)
            .await?)
    }

    pub async fn note_rail_load(&self, load: &RailLoad) -> Result<(), Error> {
        sqlx::query("select symphony.note_rail_load($1, $2, $3, $4, $5, $6)")
            .bind(&self.worker_id)
            .bind(&load.rail_type)
            .bind(load.outcome)
            .bind(load.component.map(Vec::from))
            .bind(load.file.as_slice())
            .bind(clean_text(&load.detail, MESSAGE_CHARS_MAX))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Looks at so many pages of the queue for expired leases that no index knows of; the page to go on with.
    pub async fn find_stray_leases(&self, from_page: i32, pages: i32) -> Result<i32, Error> {
        Ok(sqlx::query_scalar("select symphony.find_stray_leases($1, $2, $3)")
            .bind(&self.worker_id)
            .bind(from_page)
            .bind(pages)
            .fetch_one(&self.pool)
            .await?)
    }

    /// Brings times back that lie ahead of a clock that went back, a bounded number; 0 when all is in line.
    pub async fn reconcile_clock(&self) -> Result<i32, Error> {
        Ok(sqlx::query_scalar("select symphony.reconcile_clock($1)")
            .bind(PARKING_ROWS_PER_CALL)
            .fetch_one(&self.pool)
            .await?)
    }

    /// Makes the missing months of the history; how many were made.
    pub async fn create_months_ahead(&self, months: i32) -> Result<i32, Error> {
        Ok(sqlx::query_scalar("select symphony.create_attempt_partitions($1)")
            .bind(months)
            .fetch_one(&self.pool)
            .await?)
    }

    /// Until the last month of the history that exists is over.
    pub async fn history_days_left(&self) -> Result<f64, Error> {
        Ok(sqlx::query_scalar("select symphony.history_days_left()").fetch_one(&self.pool).await?)
    }

    pub async fn other_hosts(&self) -> Result<Vec<OtherHost>, Error> {
        Ok(sqlx::query_as("select worker_id, digests from symphony.other_hosts($1)")
            .bind(&self.worker_id)
            .fetch_all(&self.pool)
            .await?)
    }

    /// Moves parked rows in line with the switches, a bounded number; 0 when all is in line.
    pub async fn reconcile_parking(&self) -> Result<i32, Error> {
        Ok(sqlx::query_scalar("select symphony.reconcile_parking($1)")
            .bind(PARKING_ROWS_PER_CALL)
            .fetch_one(&self.pool)
            .await?)
    }

    /// When the next scheduled row of these rails falls due.
    pub async fn next_due_at(&self, rails: &[String]) -> Result<Option<DateTime<Utc>>, Error> {
        Ok(sqlx::query_scalar("select symphony.next_due_at($1)").bind(rails).fetch_one(&self.pool).await?)
    }

    /// Says that this host lives, what it serves, and whether it is going to sleep (enqueue rings only for sleepers).
    pub async fn report(
        &self,
        rails: &[String],
        asleep: bool,
        digests: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        sqlx::query("select symphony.report_host($1, $2, $3, $4)")
            .bind(&self.worker_id)
            .bind(rails)
            .bind(asleep)
            .bind(Json(digests))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Takes this host off the list of those that serve.
    pub async fn retire(&self) -> Result<(), Error> {
        sqlx::query("select symphony.retire_host($1)").bind(&self.worker_id).execute(&self.pool).await?;
        Ok(())
    }
}

fn columns(leases: &[LeaseRef]) -> (Vec<Uuid>, Vec<Uuid>) {
    leases.iter().map(|lease| (lease.outbox_id, lease.lease_token)).unzip()
}

impl Lease {
    pub fn lease_ref(&self) -> LeaseRef {
        LeaseRef { outbox_id: self.outbox_id, lease_token: self.lease_token }
    }
}
