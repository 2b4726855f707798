//! Runs each operation on the database and on the model, and compares what they answer.

use std::collections::{BTreeMap, BTreeSet};

use harness::Role;
use harness::reference::{Attempt, Completed, LateAnswer, Micros, Outbox, Outcome, Receipt, Refusal, SECOND, Words};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::claim::{Leased, judge};
use crate::operation::{Claim, Flaw, Operation, PARTICIPANTS, Pick, RAILS, Row, WORKERS, WrongClaim, request};
use crate::session::{Sessions, rail_names};
use crate::tables;

pub(crate) struct World<'a> {
    sessions: &'a mut Sessions,
    model: Outbox,
    /// Every lease that was ever given out.
    issued: Vec<Held>,
}

#[derive(Clone, Debug)]
struct Held {
    id: Uuid,
    token: Uuid,
    worker: String,
}

/// Runs a sequence in an empty world and says where the two first disagree.
pub(crate) async fn run(sessions: &mut Sessions, sequence: &[(usize, Operation)]) -> Result<(), String> {
    let now = sessions.clear().await;
    let mut world = World { sessions, model: Outbox { now, ..Outbox::default() }, issued: Vec::new() };
    world.configure(0, RAILS[0], true, None).await?;
    world.configure(0, RAILS[1], false, Some((1, 3))).await?;
    for (step, (turn, operation)) in sequence.iter().enumerate() {
        let told = world.step(*turn, operation).await;
        told.map_err(|problem| format!("step {step}, {operation:?}\n{problem}"))?;
    }
    Ok(())
}

impl World<'_> {
    async fn step(&mut self, turn: usize, operation: &Operation) -> Result<(), String> {
        if let Operation::Transaction { inside, commit } = operation {
            let before = (self.model.clone(), self.issued.clone());
            self.sessions.begin().await;
            for operation in inside {
                self.perform(turn, operation).await.map_err(|problem| format!("inside, {operation:?}\n{problem}"))?;
            }
            self.compare().await?;
            self.sessions.end_transaction(*commit).await;
            if !commit {
                (self.model, self.issued) = before;
            }
        } else {
            self.perform(turn, operation).await?;
        }
        self.compare().await
    }

    async fn compare(&mut self) -> Result<(), String> {
        tables::compare(&mut self.sessions.superuser, &self.model).await
    }

    async fn perform(&mut self, turn: usize, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Enqueue { rows, single: true } => self.enqueue_each(turn, rows).await,
            Operation::Enqueue { rows, single: false } => self.enqueue(turn, rows).await,
            Operation::Claim(claim) => self.claim(turn, claim).await,
            Operation::ClaimWrongly(how) => self.claim_wrongly(turn, *how).await,
            Operation::Complete { worker, rows, single } => self.complete(turn, *worker, rows, *single).await,
            Operation::LateAnswer { pick, worker, state, money_moved } => {
                self.late_answer(turn, *pick, WORKERS[*worker], state, money_moved).await
            }
            Operation::Repair { batch_size, worker } => self.repair(turn, *batch_size, WORKERS[*worker]).await,
            Operation::Extend { worker, picks, seconds } => self.extend(turn, *worker, picks, *seconds).await,
            Operation::Release { worker, picks } => self.release(turn, *worker, picks).await,
            Operation::MarkHandedOver { worker, picks } => self.mark_handed_over(turn, *worker, picks).await,
            Operation::Pause { rail, paused } => {
                let sql = if *paused { "select symphony.pause_rail($1, 'op', 'w')" } else { "select symphony.resume_rail($1, 'op', 'w')" };
                self.act(turn, sql, RAILS[*rail], |model, rail| model.pause(rail, *paused)).await
            }
            Operation::Configure { rail, marks } => {
                let rate = self.model.rails.get(RAILS[*rail]).and_then(|rail| rail.rate);
                self.configure(turn, RAILS[*rail], *marks, rate).await
            }
            Operation::Suspend { participant, suspended } => {
                let sql = if *suspended {
                    "select symphony.suspend_participant($1, 'op', 'w')"
                } else {
                    "select symphony.reinstate_participant($1, 'op', 'w')"
                };
                self.act(turn, sql, PARTICIPANTS[*participant], |model, id| model.suspend(id, *suspended)).await
            }
            Operation::Order { participant, strict } => {
                let sql = if *strict {
                    "select symphony.set_strict_order($1, true, 'op', 'w')"
                } else {
                    "select symphony.set_strict_order($1, false, 'op', 'w')"
                };
                self.act(turn, sql, PARTICIPANTS[*participant], |model, id| model.set_strict_order(id, *strict)).await
            }
            Operation::ActWithoutReason { participant } => {
                let query = sqlx::query("select symphony.suspend_participant($1, 'op', '')").bind(PARTICIPANTS[*participant]);
                same(&self.sessions.call(Role::Operator, turn, query).await.map(drop), &refused(Refusal::Invalid))
            }
            Operation::Reconcile { limit } => self.reconcile(turn, *limit).await,
            Operation::Resolve { pick, money_moved } => self.resolve(turn, *pick, money_moved).await,
            Operation::Reissue { pick, key } => self.reissue(turn, *pick, *key).await,
            Operation::NextDue { rails } => self.next_due(turn, rails.as_deref()).await,
            Operation::Report { worker, rails, asleep } => self.report(turn, WORKERS[*worker], rails, *asleep).await,
            Operation::Retire { worker } => {
                self.model.hosts.remove(WORKERS[*worker]);
                let query = sqlx::query("select symphony.retire_host($1)").bind(WORKERS[*worker]);
                same(&self.sessions.call(Role::Executor, turn, query).await.map(drop), &Ok(()))
            }
            Operation::Age { pick, attempts } => self.age(*pick, *attempts).await,
            Operation::Advance { quarter_seconds } => self.advance(quarter_seconds * SECOND / 4).await,
            Operation::Transaction { .. } => Err("a transaction inside a transaction".to_owned()),
        }
    }

    async fn enqueue(&mut self, turn: usize, rows: &[Row]) -> Result<(), String> {
        let parts: Vec<[Option<String>; 5]> = rows.iter().map(parts).collect();
        let column = |n: usize| parts.iter().map(|row| row[n].clone()).collect::<Vec<_>>();
        let query = sqlx::query(
            "select ordinal, outbox_id, sequence_id, reference_test.us(created_at) as created_at, state, replayed, refusal
               from symphony.enqueue_payment_outbox_batch($1, $2, $3, $4, $5::text[]::jsonb[])",
        );
        let query = query.bind(column(0)).bind(column(1)).bind(column(2)).bind(column(3)).bind(column(4));
        let answers = self.sessions.call(Role::Ingest, turn, query).await?;
        same(&answers.len(), &rows.len())?;
        for (n, (row, answer)) in (1..).zip(rows.iter().zip(&answers)) {
            same(&answer.get::<i32, _>("ordinal"), &n)?;
            let refusal: Option<String> = answer.get("refusal");
            let told = refusal.clone().map_or_else(|| Ok(receipt(answer, answer.get("replayed"))), Err);
            self.accept(row, &told).map_err(|problem| format!("row {n}, {row:?}: {problem}"))?;
            if refusal.is_some() {
                let rest: (Option<Uuid>, Option<i64>, Option<String>, bool) =
                    (answer.get(1), answer.get(2), answer.get(4), answer.get("replayed"));
                same(&rest, &(None, None, None, false)).map_err(|problem| format!("refused row {n}, {row:?}: {problem}"))?;
            }
        }
        Ok(())
    }

    async fn enqueue_each(&mut self, turn: usize, rows: &[Row]) -> Result<(), String> {
        for row in rows {
            let [i, p, k, r, b] = parts(row);
            let query = sqlx::query(
                "select outbox_id, sequence_id, reference_test.us(created_at) as created_at, state
                   from symphony.enqueue_payment_outbox($1, $2, $3, $4, $5::text::jsonb)",
            );
            let query = query.bind(i).bind(p).bind(k).bind(r).bind(b);
            let answer = self.sessions.call(Role::Ingest, turn, query).await;
            let known = |row: &PgRow| self.model.records.values().any(|known| known.outbox_id == row.get::<Uuid, _>(0));
            let told = answer.map(|rows| receipt(&rows[0], known(&rows[0])));
            self.accept(row, &told).map_err(|problem| format!("{row:?}: {problem}"))?;
        }
        Ok(())
    }

    fn accept(&mut self, row: &Row, told: &Result<(Receipt, Micros), String>) -> Result<(), String> {
        let (id, created_at) = told.as_ref().map_or((Uuid::nil(), 0), |(told, at)| (told.outbox_id, *at));
        let expected = match row {
            Row::Good { key, body } => self.model.enqueue(&request(*key, *body), id, created_at),
            Row::Bad { .. } => Err(Refusal::Invalid),
        };
        let expected = expected.map_err(|refusal| refusal.sqlstate().to_owned());
        same(told, &expected.map(|receipt| { let at = made_at(receipt.outbox_id); (receipt, at) }))
    }

    async fn claim(&mut self, turn: usize, claim: &Claim) -> Result<(), String> {
        let rails = claim.rails.as_ref();
        let after = claim.after_seconds_ago.map(|seconds| self.model.now - seconds * SECOND);
        #[expect(clippy::cast_precision_loss, reason = "seconds of a lease")]
        let seconds = |seconds: i64| seconds as f64;
        let query = sqlx::query(
            "select outbox_id, rail_type, lease_token, unsettled, attempt_count,
                    reference_test.us(lease_expires_at) as expires_at, reference_test.us(created_at) as created_at,
                    reference_test.us(next_attempt_at) as next_attempt_at,
                    jsonb_array_length(past -> 'attempts')::bigint as attempts,
                    jsonb_array_length(past -> 'late_answers')::bigint as late_answers
               from symphony.claim_outbox_batch($1, $2, $3, $4, $5, $6,
                      (select array_agg(timestamptz 'epoch' + t.us * interval '1 microsecond')
                         from unnest($7::bigint[]) as t(us)), $8)",
        )
        .bind(claim.batch_size)
        .bind(WORKERS[claim.worker])
        .bind(seconds(claim.lease_seconds))
        .bind(rails.map(|all| all.iter().map(|(rail, ..)| RAILS[*rail]).collect::<Vec<_>>()))
        .bind(rails.map(|all| all.iter().map(|(_, limit, _)| *limit).collect::<Vec<_>>()))
        .bind(rails.map(|all| all.iter().map(|(.., lease)| seconds(*lease)).collect::<Vec<_>>()))
        .bind(rails.and_then(|all| after.map(|after| vec![after; all.len()])))
        .bind(claim.takeovers);
        let answer: Vec<Leased> = self.sessions.call(Role::Executor, turn, query).await?.iter().map(leased).collect();
        let fresh = |row: &&Leased| self.issued.iter().any(|old| old.token == row.token);
        if let Some(row) = answer.iter().find(fresh) {
            return Err(format!("{row:?}: the token was given out before"));
        }
        let seen = self.sessions.look().await.into_iter().map(|(id, token, parked)| (id, (token, parked))).collect();
        judge(&mut self.model, claim, &answer, &seen).map_err(|problem| format!("{problem}\nanswer: {answer:#?}"))?;
        let worker = WORKERS[claim.worker];
        self.issued.extend(answer.iter().map(|row| Held { id: row.id, token: row.token, worker: worker.to_owned() }));
        Ok(())
    }

    async fn claim_wrongly(&mut self, turn: usize, how: WrongClaim) -> Result<(), String> {
        let sql = match how {
            WrongClaim::NegativeBatch => "select symphony.claim_outbox_batch(-1, 'w0', 30)",
            WrongClaim::HugeBatch => "select symphony.claim_outbox_batch(10001, 'w0', 30)",
            WrongClaim::NoWorker => "select symphony.claim_outbox_batch(1, '', 30)",
            WrongClaim::AbsurdLease => "select symphony.claim_outbox_batch(1, 'w0', 'NaN')",
            WrongClaim::NegativeTakeovers => "select symphony.claim_outbox_batch(1, 'w0', 30, p_takeovers => -1)",
            WrongClaim::RailTwice => "select symphony.claim_outbox_batch(1, 'w0', 30, array['mtn', 'mtn'])",
            WrongClaim::LimitsTooShort => "select symphony.claim_outbox_batch(1, 'w0', 30, array['mtn', 'bank'], array[1])",
            WrongClaim::LimitsWithoutRails => "select symphony.claim_outbox_batch(1, 'w0', 30, null, array[1])",
        };
        same(&self.sessions.call(Role::Executor, turn, sqlx::query(sql)).await.map(drop), &refused(Refusal::Invalid))
    }

    async fn complete(
        &mut self, turn: usize, worker: Option<usize>, rows: &[(Pick, Outcome)], single: bool,
    ) -> Result<(), String> {
        let (held, said): (Vec<Held>, Vec<&Outcome>) =
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
            let mut expected = self.model.complete(&worker, held.id, held.token, said).map_err(|no| no.sqlstate().to_owned());
            if single {
                // The single form does not say that it was asked before.
                expected = expected.map(|done| Completed { repeated: false, ..done });
            }
            same(told, &expected).map_err(|problem| format!("{worker}, {held:?}, {said:?}: {problem}"))?;
        }
        Ok(())
    }

    async fn complete_one(&mut self, turn: usize, worker: &str, held: &Held, said: &Outcome) -> Result<Completed, String> {
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
        let rows = self.sessions.call(Role::Executor, turn, query).await?;
        Ok(completed(&rows[0]))
    }

    async fn complete_batch(
        &mut self, turn: usize, worker: &str, held: &[Held], said: &[&Outcome],
    ) -> Result<Vec<Result<Completed, String>>, String> {
        let word = |part: fn(&Words) -> &Option<String>| said.iter().map(|s| part(&s.words).clone()).collect::<Vec<_>>();
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
        let rows = self.sessions.call(Role::Executor, turn, query).await?;
        let asked: Vec<(i32, Uuid)> = (1..).zip(held.iter().map(|held| held.id)).collect();
        same(&rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(i32, Uuid)>>(), &asked)?;
        let told = |row: &PgRow| row.get::<Option<String>, _>("refusal").map_or_else(|| Ok(completed(row)), Err);
        Ok(rows.iter().map(told).collect())
    }

    async fn late_answer(
        &mut self, turn: usize, pick: Pick, worker: &str, state: &'static str, money_moved: &'static str,
    ) -> Result<(), String> {
        let unknown = || Held { id: Uuid::from_u128(7), token: Uuid::from_u128(7), worker: worker.to_owned() };
        let held = self.pick(pick).unwrap_or_else(unknown);
        let words = Words { rail_code: Some("late".to_owned()), latency_ms: Some(9), ..Words::default() };
        let query = sqlx::query("select symphony.record_late_answer($1, $2, $3, $4, null, 'late', null, null, 9, $5)")
            .bind(held.id)
            .bind(held.token)
            .bind(worker.to_owned())
            .bind(state)
            .bind(money_moved);
        let told = self.sessions.call(Role::Executor, turn, query).await.map(|rows| rows[0].get::<bool, _>(0));
        let late = LateAnswer { worker: worker.to_owned(), state, money_moved, words, recorded_at: self.model.now };
        let expected = self.model.record_late_answer(held.id, held.token, late);
        same(&told, &expected.map_err(|refusal| refusal.sqlstate().to_owned()))
    }

    async fn repair(&mut self, turn: usize, batch_size: i32, worker: &str) -> Result<(), String> {
        let query = sqlx::query("select outbox_id, attempt_no from symphony.repair_expired_leases($1, $2)")
            .bind(batch_size)
            .bind(worker.to_owned());
        let rows = self.sessions.call(Role::Executor, turn, query).await?;
        let expired = self.model.expired();
        same(&rows.len(), &expired.len().min(usize::try_from(batch_size).unwrap_or(0)))?;
        for row in &rows {
            let id: Uuid = row.get(0);
            if !self.model.expired().contains(&id) {
                return Err(format!("{id} was repaired although its lease had not run out"));
            }
            same(&row.get::<i32, _>(1), &self.model.expire(id, SECOND).attempt_no)?;
        }
        Ok(())
    }

    async fn extend(&mut self, turn: usize, worker: Option<usize>, picks: &[Pick], seconds: i64) -> Result<(), String> {
        let (worker, held) = self.picks(worker, picks);
        if held.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(
            "select outbox_id, reference_test.us(lease_expires_at)
               from symphony.extend_outbox_leases($1, $2, $3, $4::float8)",
        );
        let query = query.bind(worker.clone()).bind(ids(&held)).bind(tokens(&held)).bind(seconds);
        let told = self.sessions.call(Role::Executor, turn, query).await?;
        let model = &mut self.model;
        let mut expected = BTreeMap::new();
        for held in &held {
            expected.extend(model.extend(&worker, held.id, held.token, seconds).map(|until| (held.id, until)));
        }
        same(&told.iter().map(|row| (row.get(0), row.get(1))).collect::<BTreeMap<Uuid, Micros>>(), &expected)
    }

    async fn release(&mut self, turn: usize, worker: Option<usize>, picks: &[Pick]) -> Result<(), String> {
        let (worker, held) = self.picks(worker, picks);
        if held.is_empty() {
            return Ok(());
        }
        let query = sqlx::query("select outbox_id from symphony.release_outbox_leases($1, $2, $3)");
        let query = query.bind(worker.clone()).bind(ids(&held)).bind(tokens(&held));
        let told = self.sessions.call(Role::Executor, turn, query).await?;
        let mut expected = BTreeSet::new();
        for held in &held {
            if self.model.release(&worker, held.id, held.token) {
                expected.insert(held.id);
            }
        }
        same(&told.iter().map(|row| row.get(0)).collect::<BTreeSet<Uuid>>(), &expected)
    }

    async fn mark_handed_over(&mut self, turn: usize, worker: Option<usize>, picks: &[Pick]) -> Result<(), String> {
        let (worker, held) = self.picks(worker, picks);
        if held.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(
            "select outbox_id, reference_test.us(handed_over_at) from symphony.mark_handed_over($1, $2, $3)",
        );
        let query = query.bind(worker.clone()).bind(ids(&held)).bind(tokens(&held));
        let told = self.sessions.call(Role::Executor, turn, query).await?;
        let mut expected = BTreeMap::new();
        for held in &held {
            expected.extend(self.model.mark_handed_over(&worker, held.id, held.token).map(|at| (held.id, at)));
        }
        same(&told.iter().map(|row| (row.get(0), row.get(1))).collect::<BTreeMap<Uuid, Micros>>(), &expected)
    }

    async fn act(
        &mut self, turn: usize, sql: &'static str, target: &str, act: impl FnOnce(&mut Outbox, &str),
    ) -> Result<(), String> {
        let query = sqlx::query(sql).bind(target.to_owned());
        same(&self.sessions.call(Role::Operator, turn, query).await.map(drop), &Ok(()))?;
        act(&mut self.model, target);
        Ok(())
    }

    async fn configure(&mut self, turn: usize, rail: &str, marks: bool, rate: Option<(i32, i32)>) -> Result<(), String> {
        let (per_second, burst) = rate.unzip();
        let query = sqlx::query("select symphony.configure_rail($1, true, $2, null, $3, $4, 'op', 'w')")
            .bind(rail.to_owned())
            .bind(marks)
            .bind(per_second)
            .bind(burst);
        same(&self.sessions.call(Role::Operator, turn, query).await.map(drop), &Ok(()))?;
        self.model.configure_rail(rail, marks, rate);
        Ok(())
    }

    async fn reconcile(&mut self, turn: usize, limit: i32) -> Result<(), String> {
        let query = sqlx::query("select symphony.reconcile_parking($1)").bind(limit);
        let told: i32 = self.sessions.call(Role::Operator, turn, query).await?[0].get(0);
        let wrong = self.model.out_of_line();
        let seen = self.sessions.look().await;
        let changed: BTreeSet<Uuid> = seen
            .iter()
            .filter(|(id, _, parked)| self.model.pending.get(id).is_some_and(|row| row.parked != *parked))
            .map(|(id, ..)| *id)
            .collect();
        let most = usize::try_from(limit).unwrap_or(0).min(wrong.len());
        same(&(usize::try_from(told).unwrap_or(0), changed.len()), &(most, most))?;
        if !changed.is_subset(&wrong) {
            return Err(format!("changed {changed:?}, out of line were {wrong:?}"));
        }
        changed.into_iter().for_each(|id| self.model.reconcile(id));
        Ok(())
    }

    async fn resolve(&mut self, turn: usize, pick: usize, money_moved: &'static str) -> Result<(), String> {
        let Some(id) = nth(self.model.records.values().map(|record| record.outbox_id), pick) else { return Ok(()) };
        let query = sqlx::query("select symphony.resolve_payment($1, $2, 'op', 'w', 'seen')").bind(id).bind(money_moved);
        let told = self.sessions.call(Role::Operator, turn, query).await.map(drop);
        same(&told, &self.model.resolve(id, money_moved).map_err(|refusal| refusal.sqlstate().to_owned()))
    }

    async fn reissue(&mut self, turn: usize, pick: usize, key: usize) -> Result<(), String> {
        let failed = |id: &Uuid| self.model.state(*id) == "FAILED";
        let all = || self.model.records.values().map(|record| record.outbox_id);
        let Some(old) = nth(all().filter(failed), pick).or_else(|| nth(all(), pick)) else { return Ok(()) };
        let new = request(key, 0);
        let query = sqlx::query("select outbox_id, sequence_id from symphony.reissue_payment($1, $2, $3, 'op', 'w')")
            .bind(old)
            .bind(new.instruction_id.clone())
            .bind(new.idempotency_key.clone());
        let answer = self.sessions.call(Role::Operator, turn, query).await;
        let told = answer.map(|rows| (rows[0].get::<Uuid, _>(0), rows[0].get::<i64, _>(1)));
        let id = told.as_ref().map_or(Uuid::nil(), |(id, _)| *id);
        let expected = self.model.reissue(old, &(new.instruction_id, new.idempotency_key), id, made_at(id));
        let expected = expected.map(|receipt| (receipt.outbox_id, receipt.sequence_id));
        same(&told, &expected.map_err(|refusal| refusal.sqlstate().to_owned())).map_err(|problem| format!("{old}: {problem}"))
    }

    async fn next_due(&mut self, turn: usize, rails: Option<&[usize]>) -> Result<(), String> {
        let rails = rails.map(rail_names);
        let query = sqlx::query("select reference_test.us(symphony.next_due_at($1))").bind(rails.clone());
        let told: Option<Micros> = self.sessions.call(Role::Executor, turn, query).await?[0].get(0);
        same(&told, &self.model.next_due_at(rails.as_deref()))
    }

    async fn report(&mut self, turn: usize, worker: &str, rails: &[usize], asleep: bool) -> Result<(), String> {
        let rails = rail_names(rails);
        let query = sqlx::query("select symphony.report_host($1, $2, $3)");
        let query = query.bind(worker.to_owned()).bind(rails.clone()).bind(asleep);
        same(&self.sessions.call(Role::Executor, turn, query).await.map(drop), &Ok(()))?;
        self.model.report_host(worker, &rails, asleep);
        Ok(())
    }

    /// As if the payment had been tried that often: the ceiling is too far away to walk there every time.
    async fn age(&mut self, pick: usize, attempts: i32) -> Result<(), String> {
        let waiting = self.model.pending.iter().filter(|(_, row)| row.lease.is_none()).map(|(id, _)| *id);
        let Some(id) = nth(waiting, pick) else { return Ok(()) };
        let query = sqlx::query(
            "with aged as (update symphony.payment_outbox_pending set attempt_count = greatest(attempt_count, $3)
                            where outbox_id = $1 returning *)
             insert into symphony.payment_outbox_attempts
                    (outbox_id, lease_token, sequence_id, claimed_at, completed_at, created_at, attempt_no, state,
                     instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved)
             select p.outbox_id, p.outbox_id, p.sequence_id, t.now, t.now, t.now, n, 'RETRYABLE', p.instruction_id,
                    p.participant_id, p.idempotency_key, p.rail_type, 'w0', 'no'
               from aged p, generate_series($2 + 1, $3) as n, (select symphony.clock() as now) t",
        );
        let last_no = self.model.last_no(id);
        self.sessions.call(Role::Superuser, 0, query.bind(id).bind(last_no).bind(attempts)).await?;
        let request = self.model.pending[&id].request.clone();
        self.model.pending.entry(id).and_modify(|row| row.attempt_count = row.attempt_count.max(attempts));
        let now = self.model.now;
        let tried = Attempt {
            state: "RETRYABLE",
            money_moved: "no",
            request,
            worker: "w0".to_owned(),
            token: id,
            claimed_at: now,
            completed_at: now,
            words: Words::default(),
            by_holder: true,
        };
        let more = usize::try_from(attempts - last_no).unwrap_or(0);
        self.model.attempts.entry(id).or_default().extend(std::iter::repeat_n(tried, more));
        Ok(())
    }

    async fn advance(&mut self, by: Micros) -> Result<(), String> {
        let query = sqlx::query("update reference_test.clock set at = at + $1 * interval '1 microsecond'").bind(by);
        self.sessions.call(Role::Superuser, 0, query).await?;
        self.model.now += by;
        Ok(())
    }

    fn pick(&self, pick: Pick) -> Option<Held> {
        match pick {
            Pick::Held(n) => {
                let leased = self.model.pending.iter().filter_map(|(id, row)| Some((*id, row.lease.as_ref()?)));
                let held = leased.map(|(id, lease)| Held { id, token: lease.token, worker: lease.worker.clone() });
                nth(held, n)
            }
            Pick::Ever(n) => nth(self.issued.iter().cloned(), n),
            Pick::Invented(n) => {
                let id = nth(self.model.records.values().map(|record| record.outbox_id), n)?;
                Some(Held { id, token: Uuid::from_u128(n as u128), worker: WORKERS[n % WORKERS.len()].to_owned() })
            }
        }
    }

    /// The named worker, else the one that holds the first lease.
    fn picks(&self, worker: Option<usize>, picks: &[Pick]) -> (String, Vec<Held>) {
        let held: Vec<Held> = picks.iter().filter_map(|pick| self.pick(*pick)).collect();
        let holder = || held.first().map(|held| held.worker.clone()).unwrap_or_default();
        (worker.map_or_else(holder, |n| WORKERS[n].to_owned()), held)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(database: &T, model: &T) -> Result<(), String> {
    if database == model { Ok(()) } else { Err(format!("the database says {database:?}, the model {model:?}")) }
}

fn refused(refusal: Refusal) -> Result<(), String> {
    Err(refusal.sqlstate().to_owned())
}

/// Counts round and round, so that any number picks something.
fn nth<T>(all: impl Iterator<Item = T>, n: usize) -> Option<T> {
    let mut all: Vec<T> = all.collect();
    (!all.is_empty()).then(|| all.swap_remove(n % all.len()))
}

fn ids(held: &[Held]) -> Vec<Uuid> {
    held.iter().map(|held| held.id).collect()
}

fn tokens(held: &[Held]) -> Vec<Uuid> {
    held.iter().map(|held| held.token).collect()
}

/// The time inside an id, in whole milliseconds.
fn made_at(id: Uuid) -> Micros {
    Micros::try_from(id.as_u128() >> 80).unwrap_or(0) * 1000
}

fn receipt(row: &PgRow, replayed: bool) -> (Receipt, Micros) {
    let state = text(row.get("state"));
    let receipt = Receipt { outbox_id: row.get("outbox_id"), sequence_id: row.get("sequence_id"), state, replayed };
    (receipt, row.get("created_at"))
}

fn completed(row: &PgRow) -> Completed {
    Completed { attempt_no: row.get("attempt_no"), state: text(row.get("state")), repeated: row.get("repeated") }
}

fn leased(row: &PgRow) -> Leased {
    let attempts: Option<i64> = row.get("attempts");
    Leased {
        id: row.get("outbox_id"),
        rail: row.get("rail_type"),
        token: row.get("lease_token"),
        expires_at: row.get("expires_at"),
        next_attempt_at: row.get("next_attempt_at"),
        created_at: row.get("created_at"),
        attempt_count: row.get("attempt_count"),
        unsettled: row.get("unsettled"),
        past: attempts.zip(row.get("late_answers")),
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
    let columns = [good.instruction_id, good.participant_id, good.idempotency_key, good.rail_type, good.payload];
    let mut columns = columns.map(Some);
    if let Row::Bad { flaw, .. } = row {
        let (column, value) = match flaw {
            Flaw::NoInstruction => (0, None),
            Flaw::LongParticipant => (1, Some("p".repeat(257))),
            Flaw::NoParticipant => (1, None),
            Flaw::EmptyKey => (2, Some(String::new())),
            Flaw::LongRail => (3, Some("r".repeat(65))),
            Flaw::NoPayload => (4, None),
            Flaw::PayloadIsAList => (4, Some("[1]".to_owned())),
            Flaw::PayloadTooLarge => (4, Some(format!(r#"{{"note": "{}"}}"#, "x".repeat(65_536)))),
        };
        columns[column] = value;
    }
    columns
}
