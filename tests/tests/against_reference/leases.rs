//! Taking, keeping and losing leases, on both sides.

use std::collections::{BTreeMap, BTreeSet};

use harness::DbUser;
use harness::reference::{Micros, Refusal, SECOND};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::claim::{Leased, judge};
use crate::drive::{Held, World, refused, same};
use crate::operation::{Claim, Pick, RAILS, WORKERS, WrongClaim};
use crate::session::rail_names;

impl World<'_> {
    pub(crate) async fn claim(&mut self, turn: usize, claim: &Claim) -> Result<(), String> {
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
        let answer: Vec<Leased> =
            self.sessions.call(DbUser::Executor, turn, query).await?.iter().map(leased).collect();
        let fresh = |row: &&Leased| self.issued.iter().any(|old| old.token == row.token);
        if let Some(row) = answer.iter().find(fresh) {
            return Err(format!("{row:?}: the token was given out before"));
        }
        let seen = self.sessions.look().await;
        judge(&mut self.model, claim, &answer, &seen)
            .map_err(|problem| format!("{problem}\nanswer: {answer:#?}"))?;
        let worker = WORKERS[claim.worker];
        self.issued.extend(answer.iter().map(|row| Held {
            id: row.id,
            token: row.token,
            worker: worker.to_owned(),
        }));
        Ok(())
    }

    pub(crate) async fn claim_wrongly(&mut self, turn: usize, how: WrongClaim) -> Result<(), String> {
        let sql = match how {
            WrongClaim::NegativeBatch => "select symphony.claim_outbox_batch(-1, 'w0', 30)",
            WrongClaim::HugeBatch => "select symphony.claim_outbox_batch(10001, 'w0', 30)",
            WrongClaim::NoWorker => "select symphony.claim_outbox_batch(1, '', 30)",
            WrongClaim::AbsurdLease => "select symphony.claim_outbox_batch(1, 'w0', 'NaN')",
            WrongClaim::NegativeTakeovers => {
                "select symphony.claim_outbox_batch(1, 'w0', 30, p_takeovers => -1)"
            }
            WrongClaim::RailTwice => "select symphony.claim_outbox_batch(1, 'w0', 30, array['mtn', 'mtn'])",
            WrongClaim::LimitsTooShort => {
                "select symphony.claim_outbox_batch(1, 'w0', 30, array['mtn', 'bank'], array[1])"
            }
            WrongClaim::LimitsWithoutRails => {
                "select symphony.claim_outbox_batch(1, 'w0', 30, null, array[1])"
            }
        };
        same(
            &self.sessions.call(DbUser::Executor, turn, sqlx::query(sql)).await.map(drop),
            &refused(Refusal::Invalid),
        )
    }

    pub(crate) async fn repair(&mut self, turn: usize, batch_size: i32, worker: &str) -> Result<(), String> {
        let query = sqlx::query("select outbox_id, attempt_no from symphony.repair_expired_leases($1, $2)")
            .bind(batch_size)
            .bind(worker.to_owned());
        let rows = self.sessions.call(DbUser::Executor, turn, query).await?;
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

    pub(crate) async fn extend(
        &mut self,
        turn: usize,
        worker: Option<usize>,
        picks: &[Pick],
        seconds: i64,
    ) -> Result<(), String> {
        let (worker, held) = self.picks(worker, picks);
        if held.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(
            "select outbox_id, reference_test.us(lease_expires_at)
               from symphony.extend_outbox_leases($1, $2, $3, $4::float8)",
        );
        let query = query.bind(worker.clone()).bind(ids(&held)).bind(tokens(&held)).bind(seconds);
        let told = self.sessions.call(DbUser::Executor, turn, query).await?;
        let model = &mut self.model;
        let mut expected = BTreeMap::new();
        for held in &held {
            expected
                .extend(model.extend(&worker, held.id, held.token, seconds).map(|until| (held.id, until)));
        }
        same(&told.iter().map(|row| (row.get(0), row.get(1))).collect::<BTreeMap<Uuid, Micros>>(), &expected)
    }

    pub(crate) async fn release(
        &mut self,
        turn: usize,
        worker: Option<usize>,
        picks: &[Pick],
    ) -> Result<(), String> {
        let (worker, held) = self.picks(worker, picks);
        if held.is_empty() {
            return Ok(());
        }
        let query = sqlx::query("select outbox_id from symphony.release_outbox_leases($1, $2, $3)");
        let query = query.bind(worker.clone()).bind(ids(&held)).bind(tokens(&held));
        let told = self.sessions.call(DbUser::Executor, turn, query).await?;
        let mut expected = BTreeSet::new();
        for held in &held {
            if self.model.release(&worker, held.id, held.token) {
                expected.insert(held.id);
            }
        }
        same(&told.iter().map(|row| row.get(0)).collect::<BTreeSet<Uuid>>(), &expected)
    }

    pub(crate) async fn mark_handed_over(
        &mut self,
        turn: usize,
        worker: Option<usize>,
        picks: &[Pick],
    ) -> Result<(), String> {
        let (worker, held) = self.picks(worker, picks);
        if held.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(
            "select outbox_id, reference_test.us(handed_over_at) from symphony.mark_handed_over($1, $2, $3)",
        );
        let query = query.bind(worker.clone()).bind(ids(&held)).bind(tokens(&held));
        let told = self.sessions.call(DbUser::Executor, turn, query).await?;
        let mut expected = BTreeMap::new();
        for held in &held {
            expected
                .extend(self.model.mark_handed_over(&worker, held.id, held.token).map(|at| (held.id, at)));
        }
        same(&told.iter().map(|row| (row.get(0), row.get(1))).collect::<BTreeMap<Uuid, Micros>>(), &expected)
    }

    pub(crate) async fn hold(
        &mut self,
        turn: usize,
        worker: Option<usize>,
        picks: &[Pick],
        delay_seconds: i64,
    ) -> Result<(), String> {
        let (worker, held) = self.picks(worker, picks);
        if held.is_empty() {
            return Ok(());
        }
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        let delays = vec![delay_seconds as f64; held.len()];
        let query =
            sqlx::query("select outbox_id from symphony.hold_outbox_leases($1, $2, $3, $4, $5, null, null)");
        let query = query.bind(worker.clone()).bind(ids(&held)).bind(tokens(&held)).bind(delays);
        let query = query.bind(vec!["FLOAT_EMPTY"; held.len()]);
        let told = self.sessions.call(DbUser::Executor, turn, query).await?;
        let mut expected = BTreeSet::new();
        for held in &held {
            if self.model.hold(&worker, held.id, held.token, delay_seconds, "FLOAT_EMPTY") {
                expected.insert(held.id);
            }
        }
        same(&told.iter().map(|row| row.get(0)).collect::<BTreeSet<Uuid>>(), &expected)
    }

    pub(crate) async fn hand_back(
        &mut self,
        turn: usize,
        worker: &str,
        knows: Option<Pick>,
    ) -> Result<(), String> {
        let known: Vec<Uuid> =
            knows.and_then(|pick| self.pick(pick)).map(|held| held.token).into_iter().collect();
        let query = sqlx::query("select outbox_id from symphony.hand_back_unknown_leases($1, $2)");
        let query = query.bind(worker.to_owned()).bind(known.clone());
        let told = self.sessions.call(DbUser::Executor, turn, query).await?;
        let expected = self.model.hand_back(worker, &known);
        same(&told.iter().map(|row| row.get(0)).collect::<BTreeSet<Uuid>>(), &expected)
    }

    /// Claims name every lease here, so that a sweep has nothing to add.
    pub(crate) async fn sweep(&mut self, turn: usize) -> Result<(), String> {
        let claims =
            "select coalesce(sum(cardinality(outbox_ids)), 0)::bigint from symphony.payment_outbox_claims";
        let before: i64 = self.sessions.call(DbUser::Superuser, turn, sqlx::query(claims)).await?[0].get(0);
        let query = sqlx::query("select symphony.find_stray_leases('w0', 0, 10000)");
        let next: i32 = self.sessions.call(DbUser::Executor, turn, query).await?[0].get(0);
        let after: i64 = self.sessions.call(DbUser::Superuser, turn, sqlx::query(claims)).await?[0].get(0);
        same(&(next, after), &(0, before))
    }

    pub(crate) async fn next_due(&mut self, turn: usize, rails: Option<&[usize]>) -> Result<(), String> {
        let rails = rails.map(rail_names);
        let query = sqlx::query("select reference_test.us(symphony.next_due_at($1))").bind(rails.clone());
        let told: Option<Micros> = self.sessions.call(DbUser::Executor, turn, query).await?[0].get(0);
        same(&told, &self.model.next_due_at(rails.as_deref()))
    }

    pub(crate) async fn report(
        &mut self,
        turn: usize,
        worker: &str,
        rails: &[usize],
        asleep: bool,
    ) -> Result<(), String> {
        let rails = rail_names(rails);
        let query = sqlx::query("select symphony.report_host($1, $2, $3)");
        let query = query.bind(worker.to_owned()).bind(rails.clone()).bind(asleep);
        same(&self.sessions.call(DbUser::Executor, turn, query).await.map(drop), &Ok(()))?;
        self.model.report_host(worker, &rails, asleep);
        Ok(())
    }
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

fn ids(held: &[Held]) -> Vec<Uuid> {
    held.iter().map(|held| held.id).collect()
}

fn tokens(held: &[Held]) -> Vec<Uuid> {
    held.iter().map(|held| held.token).collect()
}
