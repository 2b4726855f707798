//! What a person switches, finds and reissues, and what hosts say of themselves.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{
    Attempt, Host, Key, LateAnswer, Micros, Outbox, Participant, Pending, Receipt, Refusal, Request, SECOND,
    Words,
};

const HOST_FORGOTTEN_AFTER: Micros = 3600 * SECOND;

impl Outbox {
    pub fn pause(&mut self, rail: &str, paused: bool) {
        let now = self.now;
        let switch = self.rails.entry(rail.to_owned()).or_default();
        (switch.paused, switch.changed_at) = (paused, now);
        self.acts.push((if paused { "pause_rail" } else { "resume_rail" }, rail.to_owned()));
    }

    /// Writes nothing where nothing changes.
    pub fn configure_rail(&mut self, rail: &str, hand_over_marks: bool, rate: Option<(i32, i32)>) {
        if self
            .rails
            .get(rail)
            .is_some_and(|known| (known.hand_over_marks, known.rate) == (hand_over_marks, rate))
        {
            return;
        }
        let now = self.now;
        let known = self.rails.entry(rail.to_owned()).or_default();
        (known.hand_over_marks, known.rate, known.changed_at) = (hand_over_marks, rate, now);
        self.acts.push(("configure_rail", rail.to_owned()));
    }

    /// A participant without payments and switches can be suspended ahead of them; there is nothing to reinstate.
    pub fn suspend(&mut self, participant: &str, suspended: bool) -> Result<(), Refusal> {
        let seen = self.numbers.contains_key(participant) || self.participants.contains_key(participant);
        if !suspended && !seen {
            return Err(Refusal::Unknown);
        }
        self.participant(participant).suspended = suspended;
        let act = if suspended { "suspend_participant" } else { "reinstate_participant" };
        self.acts.push((act, participant.to_owned()));
        Ok(())
    }

    pub fn set_strict_order(&mut self, participant: &str, strict: bool) {
        self.participant(participant).strict_order = strict;
        let act = if strict { "order_strictly" } else { "order_loosely" };
        self.acts.push((act, participant.to_owned()));
    }

    /// Rows whose parking disagrees with the switches.
    pub fn out_of_line(&self) -> BTreeSet<Uuid> {
        let wrong = |row: &Pending| row.lease.is_none() && !row.unsettled && row.parked != self.held(row);
        self.pending.iter().filter(|(_, row)| wrong(row)).map(|(id, _)| *id).collect()
    }

    /// Brings rows in line. Freed ones come back at the front of their queue, a microsecond apart, and no earlier than they
    /// were due.
    pub fn reconcile(&mut self, ids: &[Uuid]) {
        let mut rows: Vec<_> = ids.iter().map(|id| (self.pending[id].sequence_id, *id)).collect();
        rows.sort_unstable();
        let mut places: BTreeMap<(String, String), Micros> = BTreeMap::new();
        for (_, id) in rows {
            let row = &self.pending[&id];
            let (parked, key) =
                (row.parked, (row.request.participant_id.clone(), row.request.rail_type.clone()));
            let due_at = if parked {
                let place = places.entry(key).or_default();
                *place += 1;
                self.freed_at(row, *place)
            } else {
                row.next_attempt_at
            };
            self.pending.entry(id).and_modify(|row| (row.parked, row.next_attempt_at) = (!parked, due_at));
        }
    }

    /// When a parked row is due that gets this place at the front of its queue.
    pub fn freed_at(&self, row: &Pending, place: Micros) -> Micros {
        let front = self.fronts.get(&row.request.rail_type).copied().unwrap_or(self.now);
        row.next_attempt_at.max(self.now.min(front + place))
    }

    /// A person's finding, only where the rail left the outcome open: once, unless the rail is heard to have paid after a no.
    pub fn resolve(&mut self, id: Uuid, money_moved: &'static str) -> Result<(), Refusal> {
        if !["yes", "no"].contains(&money_moved) {
            return Err(Refusal::Invalid);
        }
        let open = self.verdict(id).is_some_and(|v| {
            v.state == "FAILED"
                && match self.finding(id) {
                    None => v.money_moved == "unknown" || self.heard_success_after(id, Micros::MIN),
                    Some((found, at)) => found == "no" && self.heard_success_after(id, at),
                }
        });
        if !open {
            return Err(Refusal::NotAllowed);
        }
        // It counts as made after every answer that it knows of.
        let heard = self.late_answers.iter().filter(|((of, _), _)| *of == id);
        let at = heard.map(|(_, late)| late.recorded_at).fold(self.now, Micros::max);
        self.resolutions.entry(id).or_default().push((money_moved, at));
        self.acts.push(("resolve_payment", id.to_string()));
        Ok(())
    }

    /// Takes back a payment of which nothing can have left. `token` stands in the place of a lease.
    pub fn cancel(&mut self, id: Uuid, token: Uuid) -> Result<i32, Refusal> {
        let Some(row) = self.pending.get(&id).cloned() else {
            return Err(if self.state(id).is_empty() { Refusal::Unknown } else { Refusal::NotAllowed });
        };
        let tried = self.attempts.get(&id).map_or(&[][..], Vec::as_slice);
        let mut late = self.late_answers.iter().filter(|((of, _), _)| *of == id).map(|(_, late)| late);
        let may_have_left = row.unsettled
            || row.handed_over_at.is_some()
            || tried.iter().any(|attempt| attempt.money_moved != "no")
            || late.any(|late| late.money_moved != "no" || late.state == "DISPATCHED");
        if row.lease.is_some() || may_have_left {
            return Err(Refusal::NotAllowed);
        }
        let attempt_no = self.last_no(id) + 1;
        let words = Words {
            error_code: Some("CANCELLED".to_owned()),
            error_message: Some("cancelled by op: w".to_owned()),
            ..Words::default()
        };
        self.pending.remove(&id);
        self.attempts.entry(id).or_default().push(Attempt {
            state: "FAILED",
            money_moved: "no",
            request: row.request.clone(),
            worker: "operator".to_owned(),
            token,
            claimed_at: self.now,
            completed_at: self.now,
            words,
            by_holder: false,
        });
        self.promote(&row.request.participant_id);
        self.acts.push(("cancel_payment", id.to_string()));
        Ok(attempt_no)
    }

    /// A new row in place of one that failed without moving money: never an old row, and one per predecessor.
    pub fn reissue(
        &mut self,
        old: Uuid,
        key: &Key,
        id: Uuid,
        created_at: Micros,
    ) -> Result<Receipt, Refusal> {
        let verdict = self.verdict(old).ok_or(Refusal::NotAllowed)?;
        let moved = self.finding(old).map_or(verdict.money_moved, |(found, _)| found);
        let cancelled = verdict.worker == "operator";
        if cancelled
            || verdict.state != "FAILED"
            || moved != "no"
            || self.heard_success_after(old, Micros::MIN)
        {
            return Err(Refusal::NotAllowed);
        }
        let (instruction_id, idempotency_key) = key.clone();
        let request = Request { instruction_id, idempotency_key, ..verdict.request.clone() };
        let fronts = self.queue_fronts();
        let receipt = self.clone().enqueue(&request, &fronts, id, created_at)?;
        if self.reissues.get(&old) == Some(&receipt.outbox_id) {
            return Ok(receipt);
        }
        if receipt.replayed || self.reissues.contains_key(&old) {
            return Err(Refusal::NotAllowed);
        }
        self.enqueue(&request, &fronts, id, created_at)?;
        self.reissues.insert(old, receipt.outbox_id);
        self.acts.push(("reissue_payment", old.to_string()));
        Ok(receipt)
    }

    fn finding(&self, id: Uuid) -> Option<(&'static str, Micros)> {
        self.resolutions.get(&id).and_then(|all| all.last()).copied()
    }

    fn heard_success_after(&self, id: Uuid, at: Micros) -> bool {
        let success = |late: &LateAnswer| late.money_moved == "yes" || late.state == "DISPATCHED";
        self.late_answers.iter().any(|((of, _), late)| *of == id && success(late) && late.recorded_at > at)
    }

    pub fn report_host(&mut self, worker: &str, rails: &[String], asleep: bool) {
        let host = Host { rails: rails.to_vec(), asleep, seen_at: self.now };
        self.hosts.insert(worker.to_owned(), host);
        self.hosts.retain(|_, host| host.seen_at >= self.now - HOST_FORGOTTEN_AFTER);
    }

    /// When the next scheduled row falls due.
    pub fn next_due_at(&self, rails: Option<&[String]>) -> Option<Micros> {
        let asked = |row: &&Pending| rails.is_none_or(|rails| rails.contains(&row.request.rail_type));
        let waiting = self.pending.values().filter(asked).filter(|row| !row.parked);
        waiting.map(|row| row.next_attempt_at).filter(|at| *at > self.now).min()
    }

    fn participant(&mut self, participant: &str) -> &mut Participant {
        let now = self.now;
        let switches = self.participants.entry(participant.to_owned()).or_default();
        switches.changed_at = now;
        switches
    }
}
