//! The end of a lease: an outcome that is written, or a late answer that is kept.

use uuid::Uuid;

use super::Error;
use super::lease::{Executor, LeaseRef};
use super::text::{MESSAGE_CHARS_MAX, SHORT_TEXT_CHARS_MAX, clean};
use verdict::error_code::ErrorCode;
use verdict::outcome::{CompletionState, MoneyMoved, Outcome, Provenance};

/// A lease and how it ended.
#[derive(Clone, Debug)]
pub struct Completion {
    pub lease: LeaseRef,
    pub outcome: Outcome,
}

/// The row in the history that a completion left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    pub outbox_id: Uuid,
    pub attempt_no: i32,
    /// May be `FAILED` where `RETRYABLE` was said: the ceiling.
    pub state: String,
    /// This token had completed before; its first answer was lost on the way.
    pub repeated: bool,
}

#[derive(sqlx::FromRow)]
struct CompletionRow {
    outbox_id: Uuid,
    attempt_no: Option<i32>,
    state: Option<String>,
    repeated: bool,
    refusal: Option<String>,
    refusal_detail: Option<String>,
}

const WITNESS_CHARS_MAX: usize = 1000;

impl Executor {
    /// Ends one lease.
    pub async fn complete(&self, completion: &Completion) -> Result<Completed, Error> {
        let mut answers = self.complete_batch(std::slice::from_ref(completion)).await?;
        answers.pop().unwrap_or_else(|| Err(Error::Schema("the completion returned no row".to_owned())))
    }

    /// Ends many leases, answering in input order. A lost lease is its row's answer. A batch that the database refuses
    /// for the sake of one row is halved until that row stands alone. An `Err` of the whole means that nobody knows which
    /// were written: call again with the same tokens, which are recognised.
    pub async fn complete_batch(
        &self,
        completions: &[Completion],
    ) -> Result<Vec<Result<Completed, Error>>, Error> {
        let mut answers = Vec::with_capacity(completions.len());
        let mut waiting = if completions.is_empty() { Vec::new() } else { vec![completions] };
        while let Some(part) = waiting.pop() {
            match self.send(part).await {
                Ok(rows) if rows.len() == part.len() => {
                    answers.extend(rows.into_iter().map(CompletionRow::judge))
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

    async fn send(&self, completions: &[Completion]) -> Result<Vec<CompletionRow>, Error> {
        let rows = sqlx::query_as(
            "select outbox_id, attempt_no, state, repeated, refusal, refusal_detail
               from symphony.complete_outbox_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
                    $15, $16, $17, $18, $19)
              order by ordinal",
        )
        .bind(&self.worker_id)
        .bind(completions.iter().map(|completion| completion.lease.outbox_id).collect::<Vec<_>>())
        .bind(completions.iter().map(|completion| completion.lease.lease_token).collect::<Vec<_>>())
        .bind(completions.iter().map(|completion| completion.outcome.state.as_str()).collect::<Vec<_>>())
        .bind(column(completions, |outcome| clean(&outcome.rail_reference, SHORT_TEXT_CHARS_MAX)))
        .bind(column(completions, |outcome| clean(&outcome.rail_code, SHORT_TEXT_CHARS_MAX)))
        .bind(column(completions, |outcome| outcome.error_code.map(ErrorCode::as_str)))
        .bind(column(completions, |outcome| clean(&outcome.error_message, MESSAGE_CHARS_MAX)))
        .bind(column(completions, |outcome| outcome.latency_ms))
        .bind(column(completions, |outcome| outcome.retry_delay_seconds))
        .bind(column(completions, |outcome| outcome.money_moved.map(MoneyMoved::as_str)))
        .bind(column(completions, |outcome| outcome.unsettled))
        .bind(digests(completions, |proof| &proof.adapter_digest))
        .bind(digests(completions, |proof| &proof.rail_digest))
        .bind(digests(completions, |proof| &proof.request_digest))
        .bind(digests(completions, |proof| &proof.reply_digest))
        .bind(column(completions, |outcome| clean(&outcome.proof.witness, WITNESS_CHARS_MAX)))
        .bind(column(completions, |outcome| outcome.proof.facts.as_ref()))
        .bind(column(completions, |outcome| outcome.key_prefix.as_deref()))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows)
    }

    /// Keeps what was heard after the lease was lost; `false` if this lease had spoken already.
    pub async fn record_late_answer(&self, completion: &Completion) -> Result<bool, Error> {
        self.record(completion, false).await
    }

    /// Keeps what the rail said unasked and signed. It has no lease: the token is made of what was said, so that saying it twice is
    /// no more than saying it once.
    pub async fn record_callback(&self, completion: &Completion) -> Result<bool, Error> {
        self.record(completion, true).await
    }

    async fn record(&self, completion: &Completion, of_key: bool) -> Result<bool, Error> {
        let outcome = &completion.outcome;
        let money_moved = outcome.money_moved.unwrap_or(match outcome.state {
            CompletionState::Dispatched => MoneyMoved::Yes,
            CompletionState::Failed | CompletionState::Retryable => MoneyMoved::Unknown,
        });
        let first = sqlx::query_scalar(
            "select symphony.record_late_answer($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(completion.lease.outbox_id)
        .bind(completion.lease.lease_token)
        .bind(&self.worker_id)
        .bind(outcome.state.as_str())
        .bind(clean(&outcome.rail_reference, SHORT_TEXT_CHARS_MAX))
        .bind(clean(&outcome.rail_code, SHORT_TEXT_CHARS_MAX))
        .bind(outcome.error_code.map(ErrorCode::as_str))
        .bind(clean(&outcome.error_message, MESSAGE_CHARS_MAX))
        .bind(outcome.latency_ms)
        .bind(money_moved.as_str())
        .bind(outcome.proof.adapter_digest.map(Vec::from))
        .bind(of_key)
        .fetch_one(&self.pool)
        .await?;
        Ok(first)
    }
}

impl CompletionRow {
    fn judge(self) -> Result<Completed, Error> {
        match (self.refusal, self.attempt_no, self.state) {
            (Some(code), ..) => Err(Error::of(&code, self.refusal_detail.unwrap_or_default())),
            (None, Some(attempt_no), Some(state)) => {
                Ok(Completed { outbox_id: self.outbox_id, attempt_no, state, repeated: self.repeated })
            }
            _ => Err(Error::Schema("complete answered neither an attempt nor a refusal".to_owned())),
        }
    }
}

/// One part of all outcomes. What none of them has is not sent: the database need not take it apart.
fn column<'c, T>(
    completions: &'c [Completion],
    part: impl Fn(&'c Outcome) -> Option<T>,
) -> Option<Vec<Option<T>>> {
    let parts: Vec<_> = completions.iter().map(|completion| part(&completion.outcome)).collect();
    parts.iter().any(Option::is_some).then_some(parts)
}

fn digests<'c>(
    completions: &'c [Completion],
    part: impl Fn(&'c Provenance) -> &'c Option<[u8; 32]>,
) -> Option<Vec<Option<&'c [u8]>>> {
    column(completions, |outcome| part(&outcome.proof).as_ref().map(<[u8; 32]>::as_slice))
}
