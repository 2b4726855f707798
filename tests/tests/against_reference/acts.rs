//! What a person does, on both sides.

use std::collections::BTreeSet;

use harness::DbUser;
use harness::reference::{Outbox, Refusal};
use sqlx::Row as _;
use uuid::Uuid;

use crate::drive::{World, made_at, nth, same};
use crate::operation::request;

impl World<'_> {
    pub(crate) async fn act(
        &mut self,
        turn: usize,
        sql: &'static str,
        target: &str,
        act: impl FnOnce(&mut Outbox, &str) -> Result<(), Refusal>,
    ) -> Result<(), String> {
        let query = sqlx::query(sql).bind(target.to_owned());
        let told = self.sessions.call(DbUser::Operator, turn, query).await.map(drop);
        same(&told, &act(&mut self.model, target).map_err(|refusal| refusal.sqlstate().to_owned()))
    }

    pub(crate) async fn configure(
        &mut self,
        turn: usize,
        rail: &str,
        marks: bool,
        rate: Option<(i32, i32)>,
    ) -> Result<(), String> {
        let (per_second, burst) = rate.unzip();
        let query = sqlx::query("select symphony.configure_rail($1, true, $2, null, $3, $4, 'op', 'w')")
            .bind(rail.to_owned())
            .bind(marks)
            .bind(per_second)
            .bind(burst);
        same(&self.sessions.call(DbUser::Operator, turn, query).await.map(drop), &Ok(()))?;
        self.model.configure_rail(rail, marks, rate);
        Ok(())
    }

    pub(crate) async fn reconcile(&mut self, turn: usize, limit: i32) -> Result<(), String> {
        let query = sqlx::query("select symphony.reconcile_parking($1)").bind(limit);
        let told: i32 = self.sessions.call(DbUser::Operator, turn, query).await?[0].get(0);
        let wrong = self.model.out_of_line();
        let seen = self.sessions.look().await;
        let changed: BTreeSet<Uuid> = seen
            .iter()
            .filter(|(id, (_, parked, _))| {
                self.model.pending.get(id).is_some_and(|row| row.parked != *parked)
            })
            .map(|(id, _)| *id)
            .collect();
        let told = usize::try_from(told).unwrap_or(0);
        same(&told, &changed.len())?;
        // A call may do less than it is allowed to, but it answers 0 only when all is in line.
        if told > usize::try_from(limit).unwrap_or(0) || (told == 0) != wrong.is_empty() {
            return Err(format!("{told} rows were changed, out of line were {wrong:?}"));
        }
        if !changed.is_subset(&wrong) {
            return Err(format!("changed {changed:?}, out of line were {wrong:?}"));
        }
        self.model.reconcile(&changed.into_iter().collect::<Vec<_>>());
        Ok(())
    }

    pub(crate) async fn resolve(
        &mut self,
        turn: usize,
        pick: usize,
        money_moved: &'static str,
    ) -> Result<(), String> {
        let Some(id) = nth(self.model.records.values().map(|record| record.outbox_id), pick) else {
            return Ok(());
        };
        let query = sqlx::query("select symphony.resolve_payment($1, $2, 'op', 'w', 'seen')")
            .bind(id)
            .bind(money_moved);
        let told = self.sessions.call(DbUser::Operator, turn, query).await.map(drop);
        same(&told, &self.model.resolve(id, money_moved).map_err(|refusal| refusal.sqlstate().to_owned()))
    }

    pub(crate) async fn cancel(&mut self, turn: usize, pick: usize) -> Result<(), String> {
        let waiting = self.model.pending.iter().filter(|(_, row)| row.lease.is_none()).map(|(id, _)| *id);
        let all = || self.model.records.values().map(|record| record.outbox_id);
        // Mostly one that may go, else any, else one that nobody knows.
        let some = if pick.is_multiple_of(4) { nth(all(), pick) } else { nth(waiting, pick) };
        let id = some.unwrap_or(Uuid::from_u128(7));
        let query = sqlx::query("select symphony.cancel_payment($1, 'op', 'w')").bind(id);
        let told =
            self.sessions.call(DbUser::Operator, turn, query).await.map(|rows| rows[0].get::<i32, _>(0));
        // In the place of a lease stands a token that the database draws.
        let token = sqlx::query_scalar(
            "select lease_token from symphony.payment_outbox_attempts where outbox_id = $1 order by attempt_no desc limit 1",
        )
        .bind(id)
        .fetch_optional(&mut self.sessions.superuser)
        .await
        .map_err(|error| error.to_string())?
        .unwrap_or_default();
        let expected = self.model.cancel(id, token).map_err(|refusal| refusal.sqlstate().to_owned());
        same(&told, &expected).map_err(|problem| format!("{id}: {problem}"))
    }

    pub(crate) async fn reissue(&mut self, turn: usize, pick: usize, key: usize) -> Result<(), String> {
        let failed = |id: &Uuid| self.model.state(*id) == "FAILED";
        let all = || self.model.records.values().map(|record| record.outbox_id);
        let Some(old) = nth(all().filter(failed), pick).or_else(|| nth(all(), pick)) else { return Ok(()) };
        let new = request(key, 0);
        let query =
            sqlx::query("select outbox_id, sequence_id from symphony.reissue_payment($1, $2, $3, 'op', 'w')")
                .bind(old)
                .bind(new.instruction_id.clone())
                .bind(new.idempotency_key.clone());
        let answer = self.sessions.call(DbUser::Operator, turn, query).await;
        let told = answer.map(|rows| (rows[0].get::<Uuid, _>(0), rows[0].get::<i64, _>(1)));
        let id = told.as_ref().map_or(Uuid::nil(), |(id, _)| *id);
        let expected = self.model.reissue(old, &(new.instruction_id, new.idempotency_key), id, made_at(id));
        let expected = expected.map(|receipt| (receipt.outbox_id, receipt.sequence_id));
        same(&told, &expected.map_err(|refusal| refusal.sqlstate().to_owned()))
            .map_err(|problem| format!("{old}: {problem}"))
    }
}
