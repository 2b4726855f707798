use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use super::pool::Pool;
use super::{Database, Error, PARKING_ROWS_PER_CALL, Role};

/// Who acts, and why. Kept with every act.
#[derive(Clone, Debug)]
pub struct Reason {
    pub by: String,
    pub why: String,
}

/// What the database must know of a rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailFacts {
    pub rail_type: String,
    pub deduplicates: bool,
    pub hand_over_marks: bool,
    pub sla_seconds: Option<i32>,
    /// Requests per second and burst, for all hosts together.
    pub rate: Option<(i32, i32)>,
    /// In whose books, and under which forms of its key, a payment is known.
    pub key_forms: Option<String>,
}

impl RailFacts {
    /// Whether the database takes the rail for what its file says. A mock stands in for a rail, and no payment is known there.
    pub(super) fn agrees(&self, known: &Self) -> bool {
        let of_one_mind = self.key_forms.is_none() || self.key_forms == known.key_forms;
        let others = |facts: &Self| Self { key_forms: None, ..facts.clone() };
        of_one_mind && others(self) == others(known)
    }

    /// As the database takes a rail to be that it was told nothing of.
    pub(super) fn is_unremarkable(&self) -> bool {
        self.deduplicates
            && !self.hand_over_marks
            && self.sla_seconds.is_none()
            && self.rate.is_none()
            && self.key_forms.is_none()
    }
}

/// May pause, suspend, cancel, reissue, resolve.
#[derive(Clone, Debug)]
pub struct Operator {
    pool: Pool,
    unseen: bool,
}

impl Operator {
    pub fn new(database: &Database) -> Self {
        Self { pool: database.pool(Role::Operator, 2, "railhost"), unseen: false }
    }

    /// Also suspends and orders participants that have no payment yet. Otherwise these are refused: most are misspelt.
    #[must_use]
    pub fn also_unseen(self, unseen: bool) -> Self {
        Self { unseen, ..self }
    }

    pub async fn pause_rail(&self, rail_type: &str, reason: &Reason) -> Result<(), Error> {
        self.act("select symphony.pause_rail($1, $2, $3)", rail_type, reason).await
    }

    pub async fn resume_rail(&self, rail_type: &str, reason: &Reason) -> Result<(), Error> {
        self.act("select symphony.resume_rail($1, $2, $3)", rail_type, reason).await
    }

    pub async fn suspend_participant(&self, participant_id: &str, reason: &Reason) -> Result<(), Error> {
        sqlx::query("select symphony.suspend_participant($1, $2, $3, $4)")
            .bind(participant_id)
            .bind(&reason.by)
            .bind(&reason.why)
            .bind(self.unseen)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    pub async fn reinstate_participant(&self, participant_id: &str, reason: &Reason) -> Result<(), Error> {
        self.act("select symphony.reinstate_participant($1, $2, $3)", participant_id, reason).await
    }

    pub async fn order_strictly(
        &self,
        participant_id: &str,
        strict: bool,
        reason: &Reason,
    ) -> Result<(), Error> {
        sqlx::query("select symphony.set_strict_order($1, $2, $3, $4, $5)")
            .bind(participant_id)
            .bind(strict)
            .bind(&reason.by)
            .bind(&reason.why)
            .bind(self.unseen)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Tells the database what the rail's configuration says; writes nothing where nothing changed.
    pub async fn configure_rail(&self, rail: &RailFacts, reason: &Reason) -> Result<(), Error> {
        rail.configure(&self.pool, self.pool.schema(), reason).await
    }

    /// Moves parked rows in line with the switches, a bounded number; 0 when all is in line.
    pub async fn reconcile_parking(&self) -> Result<i32, Error> {
        Ok(sqlx::query_scalar("select symphony.reconcile_parking($1)")
            .bind(PARKING_ROWS_PER_CALL)
            .fetch_one(&self.pool)
            .await?)
    }

    /// A new payment in place of one that failed without moving money: its id and number. Without a payload it has that of
    /// its predecessor.
    pub async fn reissue(
        &self,
        predecessor: Uuid,
        instruction_id: &str,
        idempotency_key: &str,
        payload: Option<&Value>,
        reason: &Reason,
    ) -> Result<(Uuid, i64), Error> {
        Ok(sqlx::query_as(
            "select outbox_id, sequence_id from symphony.reissue_payment($1, $2, $3, $4, $5, $6)",
        )
        .bind(predecessor)
        .bind(instruction_id)
        .bind(idempotency_key)
        .bind(&reason.by)
        .bind(&reason.why)
        .bind(payload.map(Json))
        .fetch_one(&self.pool)
        .await?)
    }

    /// Takes back a payment of which nothing can have left.
    pub async fn cancel(&self, payment: Uuid, reason: &Reason) -> Result<(), Error> {
        sqlx::query("select symphony.cancel_payment($1, $2, $3)")
            .bind(payment)
            .bind(&reason.by)
            .bind(&reason.why)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// No host calls a component with this SHA-256 any more.
    pub async fn revoke_adapter(&self, digest: &[u8], reason: &Reason) -> Result<(), Error> {
        sqlx::query("select symphony.revoke_adapter($1, $2, $3)")
            .bind(digest)
            .bind(&reason.by)
            .bind(&reason.why)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// A person's finding on a payment whose outcome the rail left open.
    pub async fn resolve(
        &self,
        payment: Uuid,
        money_moved: bool,
        reason: &Reason,
        evidence: &str,
    ) -> Result<(), Error> {
        sqlx::query("select symphony.resolve_payment($1, $2, $3, $4, $5)")
            .bind(payment)
            .bind(if money_moved { "yes" } else { "no" })
            .bind(&reason.by)
            .bind(&reason.why)
            .bind(evidence)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    async fn act(&self, call: &'static str, target: &str, reason: &Reason) -> Result<(), Error> {
        sqlx::query(call).bind(target).bind(&reason.by).bind(&reason.why).execute(&self.pool).await?;
        Ok(())
    }
}
