//! Runs each operation on the database and on the model, and compares what they answer. The calls themselves are in
//! `payments`, `leases` and `acts`.

use harness::DbUser;
use harness::reference::{Attempt, Micros, Outbox, Refusal, SECOND, Words};
use sqlx::Row as _;
use uuid::Uuid;

use crate::operation::{Operation, PARTICIPANTS, Pick, RAILS, WORKERS};
use crate::session::Sessions;
use crate::tables;

pub(crate) struct World<'a> {
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) model: Outbox,
    /// Every lease that was ever given out.
    pub(crate) issued: Vec<Held>,
}

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) id: Uuid,
    pub(crate) token: Uuid,
    pub(crate) worker: String,
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
                self.perform(turn, operation)
                    .await
                    .map_err(|problem| format!("inside, {operation:?}\n{problem}"))?;
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
            Operation::Repair { batch_size, worker } => {
                self.repair(turn, *batch_size, WORKERS[*worker]).await
            }
            Operation::Extend { worker, picks, seconds } => self.extend(turn, *worker, picks, *seconds).await,
            Operation::Release { worker, picks } => self.release(turn, *worker, picks).await,
            Operation::MarkHandedOver { worker, picks } => self.mark_handed_over(turn, *worker, picks).await,
            Operation::Hold { worker, picks, delay_seconds } => {
                self.hold(turn, *worker, picks, *delay_seconds).await
            }
            Operation::HandBack { worker, knows } => self.hand_back(turn, WORKERS[*worker], *knows).await,
            Operation::Sweep => self.sweep(turn).await,
            Operation::ReconcileClock => self.reconcile_clock(turn).await,
            Operation::Cancel { pick } => self.cancel(turn, *pick).await,
            Operation::Pause { rail, paused } => self.pause(turn, RAILS[*rail], *paused).await,
            Operation::Configure { rail, marks } => {
                let rate = self.model.rails.get(RAILS[*rail]).and_then(|rail| rail.rate);
                self.configure(turn, RAILS[*rail], *marks, rate).await
            }
            Operation::Suspend { participant, suspended } => {
                self.suspend(turn, PARTICIPANTS[*participant], *suspended).await
            }
            Operation::Order { participant, strict } => {
                self.order(turn, PARTICIPANTS[*participant], *strict).await
            }
            Operation::ActWithoutReason { participant } => {
                self.act_without_reason(turn, PARTICIPANTS[*participant]).await
            }
            Operation::Reconcile { limit } => self.reconcile(turn, *limit).await,
            Operation::Resolve { pick, money_moved } => self.resolve(turn, *pick, money_moved).await,
            Operation::Reissue { pick, key } => self.reissue(turn, *pick, *key).await,
            Operation::NextDue { rails } => self.next_due(turn, rails.as_deref()).await,
            Operation::Report { worker, rails, asleep } => {
                self.report(turn, WORKERS[*worker], rails, *asleep).await
            }
            Operation::Retire { worker } => self.retire(turn, WORKERS[*worker]).await,
            Operation::Age { pick, attempts } => self.age(*pick, *attempts).await,
            Operation::Advance { quarter_seconds } => self.advance(quarter_seconds * SECOND / 4).await,
            Operation::Transaction { .. } => Err("a transaction inside a transaction".to_owned()),
        }
    }

    async fn reconcile_clock(&mut self, turn: usize) -> Result<(), String> {
        let query = sqlx::query("select symphony.reconcile_clock(100)");
        let told: i32 = self.sessions.call(DbUser::Executor, turn, query).await?[0].get(0);
        same(&told, &0)
    }

    async fn pause(&mut self, turn: usize, rail: &str, paused: bool) -> Result<(), String> {
        let sql = match paused {
            true => "select symphony.pause_rail($1, 'op', 'w')",
            false => "select symphony.resume_rail($1, 'op', 'w')",
        };
        self.act(turn, sql, rail, |model, rail| {
            model.pause(rail, paused);
            Ok(())
        })
        .await
    }

    async fn suspend(&mut self, turn: usize, participant: &str, suspended: bool) -> Result<(), String> {
        let sql = match suspended {
            true => "select symphony.suspend_participant($1, 'op', 'w', true)",
            false => "select symphony.reinstate_participant($1, 'op', 'w')",
        };
        self.act(turn, sql, participant, |model, id| model.suspend(id, suspended)).await
    }

    async fn order(&mut self, turn: usize, participant: &str, strict: bool) -> Result<(), String> {
        let sql = match strict {
            true => "select symphony.set_strict_order($1, true, 'op', 'w', true)",
            false => "select symphony.set_strict_order($1, false, 'op', 'w', true)",
        };
        self.act(turn, sql, participant, |model, id| {
            model.set_strict_order(id, strict);
            Ok(())
        })
        .await
    }

    async fn act_without_reason(&mut self, turn: usize, participant: &'static str) -> Result<(), String> {
        let query = sqlx::query("select symphony.suspend_participant($1, 'op', '', true)").bind(participant);
        let told = self.sessions.call(DbUser::Operator, turn, query).await.map(drop);
        same(&told, &refused(Refusal::Invalid))
    }

    async fn retire(&mut self, turn: usize, worker: &'static str) -> Result<(), String> {
        self.model.hosts.remove(worker);
        let query = sqlx::query("select symphony.retire_host($1)").bind(worker);
        same(&self.sessions.call(DbUser::Executor, turn, query).await.map(drop), &Ok(()))
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
        self.sessions.call(DbUser::Superuser, 0, query.bind(id).bind(last_no).bind(attempts)).await?;
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
        let query =
            sqlx::query("update reference_test.clock set at = at + $1 * interval '1 microsecond'").bind(by);
        self.sessions.call(DbUser::Superuser, 0, query).await?;
        self.model.now += by;
        Ok(())
    }

    pub(crate) fn pick(&self, pick: Pick) -> Option<Held> {
        match pick {
            Pick::Held(n) => {
                let leased =
                    self.model.pending.iter().filter_map(|(id, row)| Some((*id, row.lease.as_ref()?)));
                let held =
                    leased.map(|(id, lease)| Held { id, token: lease.token, worker: lease.worker.clone() });
                nth(held, n)
            }
            Pick::Ever(n) => nth(self.issued.iter().cloned(), n),
            Pick::Invented(n) => {
                let id = nth(self.model.records.values().map(|record| record.outbox_id), n)?;
                Some(Held {
                    id,
                    token: Uuid::from_u128(n as u128),
                    worker: WORKERS[n % WORKERS.len()].to_owned(),
                })
            }
        }
    }

    /// The named worker, else the one that holds the first lease.
    pub(crate) fn picks(&self, worker: Option<usize>, picks: &[Pick]) -> (String, Vec<Held>) {
        let held: Vec<Held> = picks.iter().filter_map(|pick| self.pick(*pick)).collect();
        let holder = || held.first().map(|held| held.worker.clone()).unwrap_or_default();
        (worker.map_or_else(holder, |n| WORKERS[n].to_owned()), held)
    }
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(database: &T, model: &T) -> Result<(), String> {
    if database == model {
        Ok(())
    } else {
        Err(format!("the database says {database:?}, the model {model:?}"))
    }
}

pub(crate) fn refused(refusal: Refusal) -> Result<(), String> {
    Err(refusal.sqlstate().to_owned())
}

/// Counts round and round, so that any number picks something.
pub(crate) fn nth<T>(all: impl Iterator<Item = T>, n: usize) -> Option<T> {
    let mut all: Vec<T> = all.collect();
    (!all.is_empty()).then(|| all.swap_remove(n % all.len()))
}

/// The time inside an id, in whole milliseconds.
pub(crate) fn made_at(id: Uuid) -> Micros {
    Micros::try_from(id.as_u128() >> 80).unwrap_or(0) * 1000
}
