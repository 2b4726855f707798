//! Accepting payments and writing their verdicts, on both sides.

use std::collections::BTreeMap;

use harness::DbUser;
use harness::reference::{Completed, LateAnswer, Micros, Receipt, ReferenceOutcome, Refusal, Words};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::drive::{Held, World, made_at, same};
use crate::operation::{Flaw, Pick, Row, WORKERS, request};

impl World<'_> {
    pub(crate) async fn enqueue(&mut self, turn: usize, rows: &[Row]) -> Result<(), String> {
        let parts: Vec<[Option<String>; 5]> = rows.iter().map(parts).collect();
        let column = |n: usize| parts.iter().map(|row| row[n].clone()).collect::<Vec<_>>();
        let query = sqlx::query(
            "select ordinal, outbox_id, sequence_id, reference_test.us(created_at) as created_at, state, replayed, refusal
               from symphony.enqueue_payment_outbox_batch($1, $2, $3, $4, $5::text[]::jsonb[])",
        );
        let query = query.bind(column(0)).bind(column(1)).bind(column(2)).bind(column(3)).bind(column(4));
        let answers = self.sessions.call(DbUser::Ingest, turn, query).await?;
        same(&answers.len(), &rows.len())?;
        let fronts = self.model.queue_fronts();
        for (n, (row, answer)) in (1..).zip(rows.iter().zip(&answers)) {
            same(&answer.get::<i32, _>("ordinal"), &n)?;
            let refusal: Option<String> = answer.get("refusal");
            let told = refusal.clone().map_or_else(|| Ok(receipt(answer, answer.get("replayed"))), Err);
            self.accept(row, &fronts, &told).map_err(|problem| format!("row {n}, {row:?}: {problem}"))?;
            if refusal.is_some() {
                let rest: (Option<Uuid>, Option<i64>, Option<String>, bool) =
                    (answer.get(1), answer.get(2), answer.get(4), answer.get("replayed"));
                same(&rest, &(None, None, None, false))
                    .map_err(|problem| format!("refused row {n}, {row:?}: {problem}"))?;
            }
        }
        Ok(())
    }

    pub(crate) async fn enqueue_each(&mut self, turn: usize, rows: &[Row]) -> Result<(), String> {
        for row in rows {
            let [i, p, k, r, b] = parts(row);
            let query = sqlx::query(
                "select outbox_id, sequence_id, reference_test.us(created_at) as created_at, state
                   from symphony.enqueue_payment_outbox($1, $2, $3, $4, $5::text::jsonb)",
            );
            let query = query.bind(i).bind(p).bind(k).bind(r).bind(b);
            let answer = self.sessions.call(DbUser::Ingest, turn, query).await;
            let known = |row: &PgRow| {
                self.model.records.values().any(|known| known.outbox_id == row.get::<Uuid, _>(0))
            };
            let told = answer.map(|rows| receipt(&rows[0], known(&rows[0])));
            let fronts = self.model.queue_fronts();
            self.accept(row, &fronts, &told).map_err(|problem| format!("{row:?}: {problem}"))?;
        }
        Ok(())
    }

    pub(crate) fn accept(
        &mut self,
        row: &Row,
        fronts: &BTreeMap<String, Micros>,
        told: &Result<(Receipt, Micros), String>,
    ) -> Result<(), String> {
        let (id, created_at) = told.as_ref().map_or((Uuid::nil(), 0), |(told, at)| (told.outbox_id, *at));
        let expected = match row {
            Row::Good { key, body } => self.model.enqueue(&request(*key, *body), fronts, id, created_at),
            Row::Bad { .. } => Err(Refusal::Invalid),
        };
        let expected = expected.map_err(|refusal| refusal.sqlstate().to_owned());
        same(
            told,
            &expected.map(|receipt| {
                let at = made_at(receipt.outbox_id);
                (receipt, at)
            }),
        )
    }

    pub(crate) async fn complete(
        &mut self,
        turn: usize,
        worker: Option<usize>,
        rows: &[(Pick, ReferenceOutcome)],
        single: bool,
    ) -> Result<(), String> {
        let (held, said): (Vec<Held>, Vec<&ReferenceOutcome>) =
            rows.iter().filter_map(|(pick, said)| Some((self.pick(*pick)?, said))).unzip();
        let Some(first) = held.first() else { return Ok(()) };
        let worker = worker.map_or_else(|| first.worker.clone(), |n| WORKERS[n].to_owned());
        let mut told: Vec<Result<Completed, String>> = Vec::new();
        if single {
            for (held, said) in held.iter().zip(&said) {
                told.push(self.complete_one(turn, &worker, held, said).await);
            }
        } else {
            told = self.complete_batch(turn, &worker, &held, &said).await?;
        }
        for ((held, said), told) in held.iter().zip(&said).zip(&told) {
            let mut expected = self
                .model
                .complete(&worker, held.id, held.token, said)
                .map_err(|no| no.sqlstate().to_owned());
            if single {
                // The single form does not say that it was asked before.
                expected = expected.map(|done| Completed { repeated: false, ..done });
            }
            same(told, &expected).map_err(|problem| format!("{worker}, {held:?}, {said:?}: {problem}"))?;
        }
        Ok(())
    }

    pub(crate) async fn complete_one(
        &mut self,
        turn: usize,
        worker: &str,
        held: &Held,
        said: &ReferenceOutcome,
    ) -> Result<Completed, String> {
        let query = sqlx::query(
            "select attempt_no, state, false as repeated
               from symphony.complete_outbox_attempt($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::float8, $11, $12)",
        )
        .bind(held.id)
        .bind(held.token)
        .bind(worker.to_owned())
        .bind(said.state)
        .bind(said.words.rail_reference.clone())
        .bind(said.words.rail_code.clone())
        .bind(said.words.error_code.clone())
        .bind(said.words.error_message.clone())
        .bind(said.words.latency_ms)
        .bind(said.retry_delay_seconds)
        .bind(said.money_moved)
        .bind(said.unsettled);
        let rows = self.sessions.call(DbUser::Executor, turn, query).await?;
        Ok(completed(&rows[0]))
    }

    pub(crate) async fn complete_batch(
        &mut self,
        turn: usize,
        worker: &str,
        held: &[Held],
        said: &[&ReferenceOutcome],
    ) -> Result<Vec<Result<Completed, String>>, String> {
        let word = |part: fn(&Words) -> &Option<String>| {
            said.iter().map(|s| part(&s.words).clone()).collect::<Vec<_>>()
        };
        let query = sqlx::query(
            "select ordinal, outbox_id, attempt_no, state, repeated, refusal
               from symphony.complete_outbox_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::float8[], $11, $12)",
        )
        .bind(worker.to_owned())
        .bind(held.iter().map(|held| held.id).collect::<Vec<_>>())
        .bind(held.iter().map(|held| held.token).collect::<Vec<_>>())
        .bind(said.iter().map(|said| said.state).collect::<Vec<_>>())
        .bind(word(|words| &words.rail_reference))
        .bind(word(|words| &words.rail_code))
        .bind(word(|words| &words.error_code))
        .bind(word(|words| &words.error_message))
        .bind(said.iter().map(|said| said.words.latency_ms).collect::<Vec<_>>())
        .bind(said.iter().map(|said| said.retry_delay_seconds).collect::<Vec<_>>())
        .bind(said.iter().map(|said| said.money_moved).collect::<Vec<_>>())
        .bind(said.iter().map(|said| said.unsettled).collect::<Vec<_>>());
        let rows = self.sessions.call(DbUser::Executor, turn, query).await?;
        let asked: Vec<(i32, Uuid)> = (1..).zip(held.iter().map(|held| held.id)).collect();
        same(&rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(i32, Uuid)>>(), &asked)?;
        let told =
            |row: &PgRow| row.get::<Option<String>, _>("refusal").map_or_else(|| Ok(completed(row)), Err);
        Ok(rows.iter().map(told).collect())
    }

    pub(crate) async fn late_answer(
        &mut self,
        turn: usize,
        pick: Pick,
        worker: &str,
        state: &'static str,
        money_moved: &'static str,
    ) -> Result<(), String> {
        let unknown =
            || Held { id: Uuid::from_u128(7), token: Uuid::from_u128(7), worker: worker.to_owned() };
        let held = self.pick(pick).unwrap_or_else(unknown);
        let words = Words { rail_code: Some("late".to_owned()), latency_ms: Some(9), ..Words::default() };
        let query = sqlx::query(
            "select symphony.record_late_answer($1, $2, $3, $4, null, 'late', null, null, 9, $5)",
        )
        .bind(held.id)
        .bind(held.token)
        .bind(worker.to_owned())
        .bind(state)
        .bind(money_moved);
        let told =
            self.sessions.call(DbUser::Executor, turn, query).await.map(|rows| rows[0].get::<bool, _>(0));
        let late =
            LateAnswer { worker: worker.to_owned(), state, money_moved, words, recorded_at: self.model.now };
        let expected = self.model.record_late_answer(held.id, held.token, late);
        same(&told, &expected.map_err(|refusal| refusal.sqlstate().to_owned()))
    }
}

fn receipt(row: &PgRow, replayed: bool) -> (Receipt, Micros) {
    let state = text(row.get("state"));
    let receipt =
        Receipt { outbox_id: row.get("outbox_id"), sequence_id: row.get("sequence_id"), state, replayed };
    (receipt, row.get("created_at"))
}

fn completed(row: &PgRow) -> Completed {
    Completed {
        attempt_no: row.get("attempt_no"),
        state: text(row.get("state")),
        repeated: row.get("repeated"),
    }
}

/// The model's states are constants; so is what the database may answer.
fn text(state: String) -> &'static str {
    ["PENDING", "DISPATCHED", "FAILED", "RETRYABLE", "ZOMBIE_REQUEUE"]
        .into_iter()
        .find(|known| *known == state)
        .unwrap_or("a state that nobody knows")
}

/// The columns of a request, in the order of the function's arguments.
fn parts(row: &Row) -> [Option<String>; 5] {
    let (Row::Good { key, .. } | Row::Bad { key, .. }) = *row;
    let body = if let Row::Good { body, .. } = *row { body } else { 0 };
    let good = request(key, body);
    let columns =
        [good.instruction_id, good.participant_id, good.idempotency_key, good.rail_type, good.payload];
    let mut columns = columns.map(Some);
    if let Row::Bad { flaw, .. } = row {
        let (column, value) = match flaw {
            Flaw::NoInstruction => (0, None),
            Flaw::LongParticipant => (1, Some("p".repeat(257))),
            Flaw::NoParticipant => (1, None),
            Flaw::EmptyKey => (2, Some(String::new())),
            Flaw::SpaceAfterKey => (2, Some("k ".to_owned())),
            Flaw::TabInParticipant => (1, Some("p\t0".to_owned())),
            Flaw::LongRail => (3, Some("r".repeat(65))),
            Flaw::NoPayload => (4, None),
            Flaw::PayloadIsAList => (4, Some("[1]".to_owned())),
            Flaw::PayloadTooLarge => (4, Some(format!(r#"{{"note": "{}"}}"#, "x".repeat(65_536)))),
        };
        columns[column] = value;
    }
    columns
}
