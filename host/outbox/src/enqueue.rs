//! How a payment is accepted.

mod jsonb;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use super::pool::Pool;
use super::{Database, Error, Role};
use payment::{Private, Violation};

/// A payment to be accepted. `(instruction_id, idempotency_key)` names it for ever.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPayment {
    pub instruction_id: String,
    pub participant_id: String,
    pub idempotency_key: String,
    pub rail_type: String,
    pub payload: Private<Value>,
}

impl NewPayment {
    /// What the database would refuse it for: its identifiers, by one rule at every door, and the size of its payload. Nothing is
    /// trimmed, so that two systems never disagree on what a payment is called.
    pub fn violations(&self) -> Vec<Violation> {
        let identifiers = [
            ("instruction_id", &self.instruction_id, IDENTIFIER_CHARS_MAX),
            ("participant_id", &self.participant_id, IDENTIFIER_CHARS_MAX),
            ("idempotency_key", &self.idempotency_key, IDENTIFIER_CHARS_MAX),
            ("rail_type", &self.rail_type, RAIL_CHARS_MAX),
        ];
        let mut violations = Vec::new();
        for (name, value, chars_max) in identifiers {
            let chars = value.chars().count();
            if chars > chars_max {
                violations.push(Violation::new(
                    name,
                    format!("has {chars} characters, expected {chars_max} at most"),
                ));
            } else if let Some(problem) = identifier_problem(value) {
                violations.push(Violation::new(name, problem));
            }
        }
        violations.extend(self.body().err());
        // As JSON writes it; an escaped backslash before it is none.
        if self.payload.to_string().replace("\\\\", "").contains("\\u0000") {
            violations.push(Violation::new("payload", "contains a NUL character"));
        }
        violations
    }

    /// The payload as the database prints it: two requests with the same participant and rail are one where this is the same.
    pub fn body(&self) -> Result<String, Violation> {
        jsonb::text(&self.payload).map_err(|problem| Violation::new("payload", problem))
    }
}

const IDENTIFIER_CHARS_MAX: usize = 256;
const RAIL_CHARS_MAX: usize = 64;

/// Why a text cannot be the name of something, if it cannot.
pub fn identifier_problem(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("is empty");
    }
    if text.trim() != text {
        return Some("begins or ends with white space");
    }
    text.contains(char::is_control).then_some("contains a control character")
}

/// The answer to an accepted payment, the same each time the request is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Accepted {
    pub outbox_id: Uuid,
    pub sequence_id: i64,
    pub created_at: DateTime<Utc>,
    /// `PENDING`, or the state of the payment's last attempt.
    pub state: String,
    /// The key was known already, with this very request.
    pub replayed: bool,
}

/// May enqueue and nothing else.
#[derive(Clone, Debug)]
pub struct Ingest {
    pool: Pool,
}

#[derive(sqlx::FromRow)]
struct EnqueueRow {
    outbox_id: Option<Uuid>,
    sequence_id: Option<i64>,
    created_at: Option<DateTime<Utc>>,
    state: Option<String>,
    replayed: bool,
    refusal: Option<String>,
    refusal_detail: Option<String>,
}

impl Ingest {
    pub fn new(database: &Database, connections_max: u32) -> Self {
        Self { pool: database.pool(Role::Ingest, connections_max, "railhost") }
    }

    /// Accepts one payment in a transaction of its own.
    pub async fn enqueue(&self, payment: &NewPayment) -> Result<Accepted, Error> {
        let mut answers = self.enqueue_batch(std::slice::from_ref(payment)).await?;
        answers.pop().unwrap_or_else(|| Err(Error::Schema("enqueue gave no answer".to_owned())))
    }

    /// Accepts many payments, answering in input order. A refused row leaves its neighbours alone; when the database
    /// cannot take a batch as a whole it is halved until the culprit stands by itself. An `Err` of the whole means that
    /// nobody knows what was accepted: repeat the call, replays are free.
    pub async fn enqueue_batch(
        &self,
        payments: &[NewPayment],
    ) -> Result<Vec<Result<Accepted, Error>>, Error> {
        let mut answers = Vec::with_capacity(payments.len());
        let mut waiting = vec![payments];
        while let Some(part) = waiting.pop() {
            match self.send(part).await {
                Ok(rows) if rows.len() == part.len() => {
                    answers.extend(rows.into_iter().map(EnqueueRow::judge))
                }
                Ok(rows) => {
                    return Err(Error::Schema(format!(
                        "{} rows were answered with {}",
                        part.len(),
                        rows.len()
                    )));
                }
                Err(error) if error.is_of_one_row() && part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    waiting.push(second);
                    waiting.push(first);
                }
                Err(error) if error.is_of_one_row() => answers.push(Err(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(answers)
    }

    async fn send(&self, payments: &[NewPayment]) -> Result<Vec<EnqueueRow>, Error> {
        let column = |pick: fn(&NewPayment) -> &str| payments.iter().map(pick).collect::<Vec<_>>();
        let rows = sqlx::query_as(
            "select outbox_id, sequence_id, created_at, state, replayed, refusal, refusal_detail
               from symphony.enqueue_payment_outbox_batch($1, $2, $3, $4, $5)
              order by ordinal",
        )
        .bind(column(|payment| &payment.instruction_id))
        .bind(column(|payment| &payment.participant_id))
        .bind(column(|payment| &payment.idempotency_key))
        .bind(column(|payment| &payment.rail_type))
        .bind(payments.iter().map(|payment| Json(&payment.payload)).collect::<Vec<_>>())
        .fetch_all(&self.pool)
        .await?;
        Ok(rows)
    }
}

impl EnqueueRow {
    fn judge(self) -> Result<Accepted, Error> {
        match (self.refusal, self.outbox_id, self.sequence_id, self.created_at, self.state) {
            (Some(code), ..) => Err(Error::of(&code, self.refusal_detail.unwrap_or_default())),
            (None, Some(outbox_id), Some(sequence_id), Some(created_at), Some(state)) => {
                Ok(Accepted { outbox_id, sequence_id, created_at, state, replayed: self.replayed })
            }
            _ => Err(Error::Schema("enqueue answered neither a payment nor a refusal".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_taken_as_it_is_or_not_at_all() {
        for (text, problem) in [
            ("inv-1", None),
            ("inv 1", None),
            ("", Some("is empty")),
            (" inv-1", Some("begins or ends with white space")),
            ("inv-1\u{a0}", Some("begins or ends with white space")),
            ("inv\t1", Some("contains a control character")),
            ("inv\u{0}1", Some("contains a control character")),
        ] {
            assert_eq!(identifier_problem(text), problem, "{text:?}");
        }
    }
}
