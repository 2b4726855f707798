//! The rules of the outbox as plain Rust: what the functions of `migrations/` promise, without sessions, plans or locks.
//!
//! One method per transition, each a few lines, in the order a payment meets them. What the database may choose freely
//! (ids, tokens, which due row of several) is an argument here; everything else follows from the rules. Times are whole
//! microseconds and stand still until somebody moves `now`. The structs are in `state`, a person's acts in `operate`.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

mod operate;
mod state;

pub use state::{
    ATTEMPTS_MAX, Attempt, Completed, Hold, Host, Key, LateAnswer, Lease, Micros, Outbox, Participant,
    Pending, Rail, Receipt, Record, ReferenceOutcome, Refusal, Request, SECOND, Words,
};

impl Outbox {
    // Accepting ------------------------------------------------------------------------------------------------------

    /// Where the queues begin for those who come now: how far claims have come, or else their head.
    pub fn queue_fronts(&self) -> BTreeMap<String, Micros> {
        let mut fronts = BTreeMap::new();
        for row in self.pending.values().filter(|row| !row.unsettled && !row.parked) {
            let head = fronts.entry(row.request.rail_type.clone()).or_insert(self.now);
            *head = row.next_attempt_at.min(*head);
        }
        fronts.extend(self.fronts.clone());
        fronts
    }

    /// `fronts` are those before the batch; `id` and `created_at` are used only if the request is new.
    pub fn enqueue(
        &mut self,
        request: &Request,
        fronts: &BTreeMap<String, Micros>,
        id: Uuid,
        created_at: Micros,
    ) -> Result<Receipt, Refusal> {
        let key = (request.instruction_id.clone(), request.idempotency_key.clone());
        if let Some(known) = self.records.get(&key) {
            if known.request != *request {
                return Err(Refusal::KeyReused);
            }
            let (outbox_id, sequence_id) = (known.outbox_id, known.sequence_id);
            return Ok(Receipt { outbox_id, sequence_id, state: self.state(outbox_id), replayed: true });
        }
        if self.participants.get(&request.participant_id).is_some_and(|switches| switches.suspended) {
            return Err(Refusal::Suspended);
        }
        let front = fronts.get(&request.rail_type).copied().unwrap_or(self.now);
        let own =
            self.places.entry((request.participant_id.clone(), request.rail_type.clone())).or_insert(front);
        *own = front.max(*own) + 1;
        let place = *own;
        let next = self.numbers.entry(request.participant_id.clone()).or_insert(1);
        let sequence_id = *next;
        *next += 1;
        self.records.insert(key, Record { outbox_id: id, sequence_id, request: request.clone() });
        self.pending.insert(
            id,
            Pending {
                request: request.clone(),
                sequence_id,
                created_at,
                next_attempt_at: created_at.min(place),
                attempt_count: 0,
                unsettled: false,
                parked: false,
                handed_over_at: None,
                claimed_at: None,
                lease: None,
            },
        );
        Ok(Receipt { outbox_id: id, sequence_id, state: "PENDING", replayed: false })
    }

    /// `PENDING`, or the state of the last attempt.
    pub fn state(&self, id: Uuid) -> &'static str {
        if self.pending.contains_key(&id) {
            return "PENDING";
        }
        self.attempts.get(&id).and_then(|all| all.last()).map_or("", |last| last.state)
    }

    // Leasing --------------------------------------------------------------------------------------------------------

    /// Suspension and strict order keep a settled payment back, and so does the pause of its rail.
    pub fn may_lease(&self, row: &Pending) -> bool {
        let paused = self.rails.get(&row.request.rail_type).is_some_and(|rail| rail.paused);
        row.unsettled || (!paused && !self.held(row))
    }

    pub fn held(&self, row: &Pending) -> bool {
        let Some(switches) = self.participants.get(&row.request.participant_id) else { return false };
        let same = |other: &&Pending| other.request.participant_id == row.request.participant_id;
        switches.suspended
            || (switches.strict_order
                && self.pending.values().filter(same).any(|o| o.sequence_id < row.sequence_id))
    }

    /// Unleased rows of a rail that are due and not parked, in the order of the claim.
    pub fn due(&self, rail: &str) -> Vec<(Uuid, &Pending)> {
        let due = |row: &Pending| {
            row.request.rail_type == rail
                && row.lease.is_none()
                && !row.parked
                && row.next_attempt_at <= self.now
        };
        let mut rows: Vec<_> =
            self.pending.iter().map(|(id, row)| (*id, row)).filter(|(_, row)| due(row)).collect();
        rows.sort_by_key(|(_, row)| (row.next_attempt_at, row.created_at));
        rows
    }

    /// How many rows of this rail the shared rate allows now; `None` is no limit.
    pub fn tokens(&self, rail: &str) -> Option<f64> {
        let rail = self.rails.get(rail)?;
        let (rate, burst) = rail.rate?;
        let (left, at) = rail.bucket.unwrap_or((f64::from(burst), self.now));
        #[expect(clippy::cast_precision_loss, reason = "the tests move the clock by quarters of a second")]
        let refilled = left + f64::from(rate) * ((self.now - at) as f64 / SECOND as f64);
        Some(refilled.min(f64::from(burst)))
    }

    pub fn lease(&mut self, id: Uuid, worker: &str, token: Uuid, expires_at: Micros) {
        let rail_type = self.pending[&id].request.rail_type.clone();
        if let Some(tokens) = self.tokens(&rail_type) {
            let now = self.now;
            self.rails.entry(rail_type).and_modify(|rail| rail.bucket = Some((tokens - 1.0, now)));
        }
        let now = self.now;
        let row = &self.pending[&id];
        if row.attempt_count == 0 && !row.unsettled {
            let front = self.fronts.entry(row.request.rail_type.clone()).or_insert(row.next_attempt_at);
            *front = row.next_attempt_at.max(*front);
        }
        self.pending.entry(id).and_modify(|row| {
            row.claimed_at = Some(now);
            row.lease = Some(Lease { token, worker: worker.to_owned(), expires_at });
        });
    }

    /// The fence: only the worker and token of a lease that has not run out pass.
    pub fn holds(&self, worker: &str, id: Uuid, token: Uuid) -> bool {
        let lease = self.pending.get(&id).and_then(|row| row.lease.as_ref());
        lease.is_some_and(|l| l.token == token && l.worker == worker && l.expires_at > self.now)
    }

    pub fn expired(&self) -> Vec<Uuid> {
        let ran_out = |row: &Pending| row.lease.as_ref().is_some_and(|lease| lease.expires_at <= self.now);
        self.pending.iter().filter(|(_, row)| ran_out(row)).map(|(id, _)| *id).collect()
    }

    /// Ends a lease that ran out, for repair and for the claim that takes it over.
    pub fn expire(&mut self, id: Uuid, delay: Micros) -> Completed {
        let row = self.pending[&id].clone();
        let worker = row.lease.as_ref().map_or("", |lease| &lease.worker);
        let marks = self.rails.get(&row.request.rail_type).is_some_and(|rail| rail.hand_over_marks);
        let unsettled = row.unsettled || row.handed_over_at.is_some() || !marks;
        let last = self.last_no(id) + 1 >= ATTEMPTS_MAX;
        let error_code = match (last, unsettled) {
            (false, _) => "LEASE_EXPIRED",
            (true, true) => "OUTCOME_UNKNOWN",
            (true, false) => "RETRIES_EXHAUSTED",
        };
        let words = Words {
            error_code: Some(error_code.to_owned()),
            error_message: Some(format!("lease of {worker} ran out")),
            ..Words::default()
        };
        let state = if last { "FAILED" } else { "ZOMBIE_REQUEUE" };
        let money_moved = if unsettled { "unknown" } else { "no" };
        self.end(id, state, money_moved, words, false, |row, now| {
            row.unsettled = unsettled;
            row.next_attempt_at = now + delay;
        })
    }

    pub fn extend(&mut self, worker: &str, id: Uuid, token: Uuid, seconds: i64) -> Option<Micros> {
        let until = self.now + seconds * SECOND;
        let lease = self.held_row(worker, id, token)?.lease.as_mut()?;
        lease.expires_at = lease.expires_at.max(until);
        Some(lease.expires_at)
    }

    /// A row that this lease handed over is kept.
    pub fn release(&mut self, worker: &str, id: Uuid, token: Uuid) -> bool {
        let Some(row) = self.held_row(worker, id, token).filter(|row| row.own_mark().is_none()) else {
            return false;
        };
        row.lease = None;
        true
    }

    /// The lease ends and nothing is used up; a settled row loses its mark.
    pub fn hold(&mut self, worker: &str, id: Uuid, token: Uuid, delay: i64, error_code: &str) -> bool {
        let now = self.now;
        let Some(row) = self.held_row(worker, id, token) else { return false };
        row.lease = None;
        row.next_attempt_at = now + delay * SECOND;
        if !row.unsettled {
            row.handed_over_at = None;
        }
        let rail_type = row.request.rail_type.clone();
        let (worker, error_code) = (worker.to_owned(), error_code.to_owned());
        let first = Hold { times: 0, first_at: now, last_at: now, rail_type, worker, error_code };
        let before = self.holds.get(&id).map_or((0, now), |hold| (hold.times, hold.first_at));
        self.holds.insert(id, Hold { times: before.0 + 1, first_at: before.1, ..first });
        true
    }

    /// A claim whose answer never came: what was leased by that worker under other tokens, and not handed over, goes back. A
    /// lease under which something was heard was given to a rail.
    pub fn hand_back(&mut self, worker: &str, known: &[Uuid]) -> BTreeSet<Uuid> {
        let lost = |id: Uuid, row: &Pending| {
            row.own_mark().is_none()
                && row.lease.as_ref().is_some_and(|lease| {
                    lease.worker == worker
                        && !known.contains(&lease.token)
                        && !self.late_answers.contains_key(&(id, lease.token))
                })
        };
        let ids: BTreeSet<Uuid> =
            self.pending.iter().filter(|(id, row)| lost(**id, row)).map(|(id, _)| *id).collect();
        for id in &ids {
            self.pending.entry(*id).and_modify(|row| row.lease = None);
        }
        ids
    }

    pub fn mark_handed_over(&mut self, worker: &str, id: Uuid, token: Uuid) -> Option<Micros> {
        let now = self.now;
        let row = self.held_row(worker, id, token)?;
        row.handed_over_at = row.own_mark().or(Some(now));
        row.handed_over_at
    }

    // Verdicts -------------------------------------------------------------------------------------------------------

    pub fn complete(
        &mut self,
        worker: &str,
        id: Uuid,
        token: Uuid,
        said: &ReferenceOutcome,
    ) -> Result<Completed, Refusal> {
        said.check()?;
        if !self.holds(worker, id, token) {
            return self.completed_before(worker, id, token).ok_or(Refusal::LeaseLost);
        }
        if self.last_no(id) >= ATTEMPTS_MAX {
            return Err(Refusal::CeilingPassed);
        }
        let mut words = said.words.clone();
        let sounds_open = matches!(words.error_code.as_deref(), Some("OUTCOME_UNKNOWN" | "RAIL_PENDING"))
            || said.money_moved == Some("unknown");
        let unsettled = said.unsettled.unwrap_or(self.pending[&id].unsettled || sounds_open);
        let forced = said.state == "RETRYABLE" && self.last_no(id) + 1 == ATTEMPTS_MAX;
        if forced {
            words.error_code =
                Some(if unsettled { "OUTCOME_UNKNOWN" } else { "RETRIES_EXHAUSTED" }.to_owned());
        }
        let money_moved = match said.state {
            "DISPATCHED" => "yes",
            "FAILED" => said.money_moved.unwrap_or("unknown"),
            _ if unsettled => "unknown",
            _ => "no",
        };
        let delay = said.retry_delay_seconds.unwrap_or(1) * SECOND;
        let state = if forced { "FAILED" } else { said.state };
        Ok(self.end(id, state, money_moved, words, true, |row, now| {
            row.unsettled = unsettled;
            row.next_attempt_at = now + delay;
            // The mark belongs to what is open; a settled row is handed over anew.
            if !unsettled {
                row.handed_over_at = None;
            }
        }))
    }

    /// True the first time that this token speaks.
    pub fn record_late_answer(&mut self, id: Uuid, token: Uuid, late: LateAnswer) -> Result<bool, Refusal> {
        if !["DISPATCHED", "FAILED", "RETRYABLE"].contains(&late.state) {
            return Err(Refusal::NoSuchState);
        }
        if !["yes", "no", "unknown"].contains(&late.money_moved) {
            return Err(Refusal::Invalid);
        }
        if self.state(id).is_empty() {
            return Err(Refusal::Unknown);
        }
        let first = !self.late_answers.contains_key(&(id, token));
        // It counts as heard after every finding that did not know of it.
        let found_at = self.resolutions.get(&id).and_then(|all| all.iter().map(|(_, at)| *at).max());
        let recorded_at = found_at.map_or(late.recorded_at, |at| late.recorded_at.max(at + 1));
        self.late_answers.entry((id, token)).or_insert(LateAnswer { recorded_at, ..late });
        Ok(first)
    }

    // What must hold in every state ----------------------------------------------------------------------------------

    pub fn check(&self) -> Result<(), String> {
        let mut numbers: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        for record in self.records.values() {
            let id = record.outbox_id;
            numbers.entry(record.request.participant_id.clone()).or_default().insert(record.sequence_id);
            let history = self.attempts.get(&id).map_or(&[][..], Vec::as_slice);
            let verdicts = history.iter().filter(|a| a.is_verdict()).count();
            let pending = self.pending.contains_key(&id);
            if verdicts + usize::from(pending) != 1 || history.len() > 20 {
                return Err(format!(
                    "{id}: {verdicts} verdicts, pending: {pending}, {} attempts",
                    history.len()
                ));
            }
        }
        for (participant, next) in &self.numbers {
            if numbers.get(participant).is_none_or(|given| !given.iter().copied().eq(1..*next)) {
                return Err(format!("the stream of {participant} has a gap or a number twice"));
            }
        }
        for (id, row) in &self.pending {
            if row.parked && (row.unsettled || row.lease.is_some()) {
                return Err(format!("{id} is parked although it is unsettled or leased"));
            }
        }
        Ok(())
    }

    // Shared by the above --------------------------------------------------------------------------------------------

    pub fn last_no(&self, id: Uuid) -> i32 {
        self.attempts.get(&id).map_or(0, |all| i32::try_from(all.len()).unwrap_or(i32::MAX))
    }

    pub fn verdict(&self, id: Uuid) -> Option<&Attempt> {
        self.attempts.get(&id)?.iter().find(|attempt| attempt.is_verdict())
    }

    /// Writes the attempt; a verdict takes the row away, anything else frees it and lets `again` reschedule it.
    fn end(
        &mut self,
        id: Uuid,
        state: &'static str,
        money_moved: &'static str,
        words: Words,
        by_holder: bool,
        again: impl FnOnce(&mut Pending, Micros),
    ) -> Completed {
        let now = self.now;
        let attempt_no = self.last_no(id) + 1;
        let mut row = self.pending.remove(&id).expect("only a leased row is ended");
        let lease = row.lease.take().expect("only a leased row is ended");
        let attempt = Attempt {
            state,
            money_moved,
            request: row.request.clone(),
            worker: lease.worker,
            token: lease.token,
            claimed_at: row.claimed_at.unwrap_or_default(),
            completed_at: now,
            words,
            by_holder,
        };
        if attempt.is_verdict() {
            self.promote(&row.request.participant_id);
        } else {
            row.attempt_count = row.attempt_count.max(attempt_no);
            again(&mut row, now);
            self.pending.insert(id, row);
        }
        self.attempts.entry(id).or_default().push(attempt);
        Completed { attempt_no, state, repeated: false }
    }

    /// After a verdict the next payment of a strictly ordered, active participant may go.
    fn promote(&mut self, participant: &str) {
        let Some(switches) = self.participants.get(participant) else { return };
        if !switches.strict_order || switches.suspended {
            return;
        }
        let stream = self.pending.iter().filter(|(_, row)| row.request.participant_id == participant);
        let head = stream.min_by_key(|(_, row)| row.sequence_id).map(|(id, row)| (*id, row.parked));
        if let Some((id, true)) = head {
            self.reconcile(&[id]);
        }
    }

    /// A completion whose answer was lost on the way is recognised by its token.
    fn completed_before(&self, worker: &str, id: Uuid, token: Uuid) -> Option<Completed> {
        let all = self.attempts.get(&id)?;
        let at = all.iter().position(|a| a.by_holder && a.token == token && a.worker == worker)?;
        Some(Completed { attempt_no: i32::try_from(at).ok()? + 1, state: all[at].state, repeated: true })
    }

    fn held_row(&mut self, worker: &str, id: Uuid, token: Uuid) -> Option<&mut Pending> {
        self.holds(worker, id, token).then(|| self.pending.get_mut(&id)).flatten()
    }
}
