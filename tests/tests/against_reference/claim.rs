//! Judges one claim: the database may choose, within the rules; what it chose is then played on the model.

use std::collections::{BTreeMap, BTreeSet};

use harness::reference::{Micros, Outbox, Pending, SECOND};
use uuid::Uuid;

use crate::operation::{Claim, RAILS, WORKERS};
use crate::session::Seen;

/// One row of the answer.
#[derive(Clone, Debug)]
pub(crate) struct Leased {
    pub(crate) id: Uuid,
    pub(crate) rail: String,
    pub(crate) token: Uuid,
    pub(crate) expires_at: Micros,
    pub(crate) next_attempt_at: Micros,
    pub(crate) created_at: Micros,
    pub(crate) attempt_count: i32,
    pub(crate) unsettled: bool,
    /// How many attempts and late answers it names, where it says anything of the past.
    pub(crate) past: Option<(i64, i64)>,
}

struct Room {
    limit: usize,
    lease: Micros,
    after: Micros,
}

pub(crate) fn judge(model: &mut Outbox, claim: &Claim, answer: &[Leased], seen: &Seen) -> Result<(), String> {
    let before = model.clone();
    let room = room(model, claim);
    let worker = WORKERS[claim.worker];
    let batch_size = usize::try_from(claim.batch_size).unwrap_or(0);
    // Without rails that much goes first to rows with a past.
    let reserved = if claim.rails.is_none() { batch_size.div_ceil(4) } else { 0 };

    let (taken, ended) = take_over(model, claim, &room, seen)?;
    park_and_promote(model, &ended, answer, seen);
    park(model, &room, seen)?;
    let free = model.clone();

    for row in answer {
        let Some(room) = room.get(row.rail.as_str()) else {
            return Err(format!("{row:?}: a rail that was not asked for"));
        };
        let Some(now) = model.pending.get(&row.id) else { return Err(format!("{row:?} is not pending")) };
        let due = now.next_attempt_at <= model.now
            && (now.next_attempt_at >= room.after || taken.contains(&row.id));
        if now.lease.is_some() || now.parked || !due || !model.may_lease(now) {
            return Err(format!("{row:?} must not be leased: {now:?}"));
        }
        if before.pending.values().any(|p| p.lease.as_ref().is_some_and(|lease| lease.token == row.token)) {
            return Err(format!("{row:?}: the token is not fresh"));
        }
        model.lease(row.id, worker, row.token, model.now + room.lease);
        told_truly(model, row)?;
    }
    if answer.len() > batch_size {
        return Err(format!("{} rows in a batch of {batch_size}", answer.len()));
    }

    for (rail, room) in &room {
        let leased: Vec<&Leased> = answer.iter().filter(|row| row.rail == *rail).collect();
        if leased.len() > room.limit {
            return Err(format!("{} rows of {rail}, which has room for {}", leased.len(), room.limit));
        }
        in_order(&free, rail, room, &leased, &taken, reserved)?;
        let full = answer.len() == batch_size || leased.len() == room.limit;
        let left = due(model, rail, room);
        let left =
            left.iter().find(|(_, row)| model.may_lease(row) && !ended.contains(&row.request.participant_id));
        if let (false, Some(left)) = (full, left) {
            return Err(format!("there was room, and a row that was due stayed behind: {left:?}"));
        }
    }
    first_come(&before, &room, reserved, batch_size, answer)
}

fn has_past(row: &Pending) -> bool {
    row.attempt_count > 0 || row.unsettled
}

fn room(model: &Outbox, claim: &Claim) -> BTreeMap<&'static str, Room> {
    let batch = claim.batch_size;
    let all = || (0..RAILS.len()).map(|rail| (rail, batch, claim.lease_seconds)).collect();
    let rails: Vec<_> = claim.rails.clone().unwrap_or_else(all);
    let after = claim.after_seconds_ago.filter(|_| claim.rails.is_some());
    let one = |(rail, limit, lease): (usize, i32, i64)| {
        let rail = RAILS[rail];
        #[expect(clippy::cast_possible_truncation, reason = "a few tokens")]
        let tokens = model.tokens(rail).map_or(i32::MAX, |tokens| tokens.floor() as i32);
        let room = Room {
            limit: usize::try_from(limit.min(batch).min(tokens)).unwrap_or(0),
            lease: lease * SECOND,
            after: after.map_or(Micros::MIN, |seconds| model.now - seconds * SECOND),
        };
        (rail, room)
    };
    rails.into_iter().map(one).collect()
}

/// Leases that ran out and are gone now were taken over, each with its row in the history.
fn take_over(
    model: &mut Outbox,
    claim: &Claim,
    room: &BTreeMap<&str, Room>,
    seen: &Seen,
) -> Result<(BTreeSet<Uuid>, BTreeSet<String>), String> {
    let mut taken = BTreeSet::new();
    let mut ended = BTreeSet::new();
    let mut left = claim.takeovers;
    for id in model.expired() {
        let row = model.pending[&id].clone();
        let token = row.lease.map(|lease| lease.token);
        if seen.get(&id).is_some_and(|(now, ..)| *now == token) {
            continue;
        }
        if !room.contains_key(row.request.rail_type.as_str()) {
            return Err(format!("{id} was taken over on a rail that was not asked for"));
        }
        left -= 1;
        if left < 0 {
            return Err(format!("more than {} takeovers", claim.takeovers));
        }
        if model.expire(id, 0).state == "FAILED" {
            ended.insert(row.request.participant_id);
        } else {
            taken.insert(id);
        }
    }
    Ok((taken, ended))
}

/// A head may have been parked on one rail before a takeover at the ceiling, on another rail, made way for it: all that is
/// left to see is that it is due since now.
fn park_and_promote(model: &mut Outbox, ended: &BTreeSet<String>, answer: &[Leased], seen: &Seen) {
    let strict =
        |row: &Pending| model.participants.get(&row.request.participant_id).is_some_and(|p| p.strict_order);
    let heads: Vec<(Uuid, Micros)> = model
        .pending
        .iter()
        .filter(|(_, row)| {
            ended.contains(&row.request.participant_id)
                && strict(row)
                && row.lease.is_none()
                && !model.held(row)
        })
        .filter_map(|(id, row)| {
            // The front may have moved within this very claim.
            let moved = answer.iter().filter(|leased| leased.rail == row.request.rail_type);
            let fronts =
                moved.map(|leased| row.next_attempt_at.max(model.now.min(leased.next_attempt_at + 1)));
            let (.., due_at) = seen.get(id)?;
            fronts.chain([model.freed_at(row, 1)]).find(|freed_at| freed_at == due_at).map(|at| (*id, at))
        })
        .collect();
    for (id, freed_at) in heads {
        model.pending.entry(id).and_modify(|row| row.next_attempt_at = freed_at);
    }
}

/// Rows that the claim met and may not lease leave its index.
fn park(model: &mut Outbox, room: &BTreeMap<&str, Room>, seen: &Seen) -> Result<(), String> {
    for (id, (_, parked, _)) in seen {
        let Some(row) = model.pending.get(id) else { return Err(format!("{id} should be gone")) };
        if row.parked || !parked {
            continue;
        }
        let met = room.contains_key(row.request.rail_type.as_str()) && row.next_attempt_at <= model.now;
        if row.unsettled || row.lease.is_some() || !met || !model.held(row) {
            return Err(format!("{id} must not be parked: {row:?}"));
        }
        model.pending.entry(*id).and_modify(|row| row.parked = true);
    }
    Ok(())
}

fn told_truly(model: &Outbox, row: &Leased) -> Result<(), String> {
    let now = &model.pending[&row.id];
    let lease = now.lease.as_ref().map_or(0, |lease| lease.expires_at);
    let said = (row.next_attempt_at, row.created_at, row.attempt_count, row.unsettled, row.expires_at);
    let is = (now.next_attempt_at, now.created_at, now.attempt_count, now.unsettled, lease);
    let late = model.late_answers.keys().filter(|(id, _)| *id == row.id).count();
    let past = (i64::from(model.last_no(row.id)), i64::try_from(late).unwrap_or(i64::MAX));
    let past_told = row.past.map_or(past.0 == 0, |told| told == past);
    if said == is && past_told {
        Ok(())
    } else {
        Err(format!("{row:?} is not what the row is: {now:?}, past {past:?}"))
    }
}

fn due<'a>(model: &'a Outbox, rail: &str, room: &Room) -> Vec<(Uuid, &'a Pending)> {
    model.due(rail).into_iter().filter(|(_, row)| row.next_attempt_at >= room.after).collect()
}

/// Within a rail the first rows come first, after some with a past where room is reserved for them; what was taken over
/// stands apart, and all of it that may be leased is.
fn in_order(
    free: &Outbox,
    rail: &str,
    room: &Room,
    leased: &[&Leased],
    taken: &BTreeSet<Uuid>,
    reserved: usize,
) -> Result<(), String> {
    let got: Vec<Uuid> = leased.iter().map(|row| row.id).collect();
    let forgotten = taken.iter().find(|id| {
        let row = &free.pending[id];
        row.request.rail_type == rail && free.may_lease(row) && !got.contains(id)
    });
    if let Some(id) = forgotten {
        return Err(format!("{id} was taken over and not leased"));
    }
    let at = |row: &Leased| (row.next_attempt_at, row.created_at);
    if !leased.chunk_by(|a, b| a.token == b.token).all(|lease| lease.is_sorted_by_key(|row| at(row))) {
        return Err(format!("{rail}: the answer is not in order"));
    }
    let new: BTreeSet<Uuid> = got.iter().copied().filter(|id| !taken.contains(id)).collect();
    let mut wrong = Ok(());
    // How much of the reserved room this rail had is the database's choice.
    for with_past in 0..=reserved {
        wrong = first_of_rail(free, rail, &due(free, rail, room), &new, taken, with_past);
        if wrong.is_ok() {
            break;
        }
    }
    wrong
}

/// Whether these are the first of the queue, after the first `with_past` of those with a past.
fn first_of_rail(
    free: &Outbox,
    rail: &str,
    waiting: &[(Uuid, &Pending)],
    new: &BTreeSet<Uuid>,
    taken: &BTreeSet<Uuid>,
    with_past: usize,
) -> Result<(), String> {
    let may_go = || waiting.iter().filter(|(id, row)| free.may_lease(row) && !taken.contains(id));
    let ahead: BTreeSet<Uuid> =
        may_go().filter(|(_, row)| has_past(row)).map(|(id, _)| *id).take(with_past.min(new.len())).collect();
    let first: Vec<Uuid> =
        may_go().map(|(id, _)| *id).filter(|id| !ahead.contains(id)).take(new.len() - ahead.len()).collect();
    if first.iter().chain(&ahead).copied().collect::<BTreeSet<_>>() != *new {
        return Err(format!("{rail}: leased {new:?}, the first of the queue are {ahead:?} and {first:?}"));
    }
    // Whatever stood in front of a leased row and may not go has been moved out of the way. The settled rows of a paused
    // rail are not even looked at.
    let paused = free.rails.get(rail).is_some_and(|rail| rail.paused);
    let last = first.last().and_then(|last| waiting.iter().position(|(id, _)| id == last)).unwrap_or(0);
    match waiting.iter().take(last).find(|(_, row)| !paused && free.held(row) && !row.unsettled) {
        Some((id, _)) => Err(format!("{rail}: {id} was met, may not be leased, and is not parked")),
        None => Ok(()),
    }
}

/// Across rails the rows that are due first are leased, if nothing had to be moved out of the way before: up to the
/// reserved number those with a past, then all.
fn first_come(
    before: &Outbox,
    room: &BTreeMap<&str, Room>,
    reserved: usize,
    batch_size: usize,
    answer: &[Leased],
) -> Result<(), String> {
    let ran_out = |id: &Uuid| room.contains_key(before.pending[id].request.rail_type.as_str());
    let mut queue: Vec<(Uuid, &Pending)> =
        room.iter().flat_map(|(rail, room)| due(before, rail, room)).collect();
    if before.expired().iter().any(ran_out) || queue.iter().any(|(_, row)| !row.unsettled && before.held(row))
    {
        return Ok(());
    }
    queue.retain(|(_, row)| before.may_lease(row));
    queue.sort_by_key(|(_, row)| (row.next_attempt_at, row.created_at));
    let mut left: BTreeMap<&str, usize> = room.iter().map(|(rail, room)| (*rail, room.limit)).collect();
    let mut first = BTreeSet::new();
    let tried = queue.iter().filter(|(_, row)| has_past(row)).map(|row| (reserved, row));
    let turns: Vec<(usize, &(Uuid, &Pending))> =
        tried.chain(queue.iter().map(|row| (batch_size, row))).collect();
    for (most, (id, row)) in turns {
        let Some(left) = left.get_mut(row.request.rail_type.as_str()).filter(|left| **left > 0) else {
            continue;
        };
        if first.len() < most && first.insert(*id) {
            *left -= 1;
        }
    }
    let got: BTreeSet<Uuid> = answer.iter().map(|row| row.id).collect();
    if got == first { Ok(()) } else { Err(format!("leased {got:?}, due first are {first:?}")) }
}
