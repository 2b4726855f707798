//! What this host has seen of a rail's queue, and from it what the next claim looks at. No I/O and no clock. To ask changes
//! nothing: only a claim that was answered does.

use std::mem;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::breaker_state::Grants;
use outbox::lease::Narrowing;

/// A full sweep is due this often. Between two of them rows that were seen finished are not looked at again. Less than a poll of a
/// second, so that each claim of a host that sleeps is a sweep.
const SWEEP_EVERY: Duration = Duration::from_millis(700);
/// A claim that brings nothing so soon after a find met an empty bucket. Longer than the slowest rate takes to allow one more.
const FOUND_LATELY: Duration = Duration::from_millis(1100);
/// While more is due than there is room for, slots gather: a write for each single one would cost more than it brings. A quarter
/// of all is enough, or this time.
pub(crate) const GATHER: Duration = Duration::from_millis(5);
/// While a breaker is open, or more is due than there is room for, one claim this often is only for payments with a past: neither
/// a broken rail nor a long queue keeps what may have left from being asked about. Behind a long queue every other claim is for
/// them, as long as there are more of them than one brings.
const PAST_EVERY: Duration = Duration::from_secs(1);

/// What a host has seen of the queue of one rail.
#[derive(Debug, Default)]
pub(crate) struct QueueView {
    swept_at: Option<Instant>,
    /// How far claims have come.
    reached: Option<DateTime<Utc>>,
    /// How far they had come at the last sweep. What is committed late may still stand between the two.
    after: Option<DateTime<Utc>>,
    /// More was due than the last claim could bring.
    crowded: bool,
    past_at: Option<Instant>,
    /// More payments that were tried before are due: the last claim for them brought as many as it could.
    more_past: bool,
    /// New payments had a claim since: the next one is for those tried before.
    past_turn: bool,
    /// Something other than the queue may have ended the last claim: after it the bucket may be empty.
    short: bool,
    claimed_at: Option<Instant>,
    found_at: Option<Instant>,
}

/// How much the rail can take now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    /// Payments that it carries at a time.
    pub slots: usize,
    /// And how many more one claim may bring.
    pub free: usize,
    pub breaker: Grants,
    /// It is open, and there is something to pay from.
    pub pays: bool,
}

/// What the next claim looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scope {
    pub limit: usize,
    pub only: Option<Narrowing>,
    /// Rows due before this were seen finished. None: all are looked at.
    pub after: Option<DateTime<Utc>>,
}

/// What a claim brought of one rail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimedRows {
    pub leases: usize,
    /// The latest due time of those that were never tried.
    pub reached: Option<DateTime<Utc>>,
    /// Something other than the queue may have held it back.
    pub short: bool,
    /// The rail has a rate.
    pub has_rate: bool,
}

/// What a claim's answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Brought {
    Nothing,
    /// All that was due then.
    All,
    /// Another claim at once is worth it.
    More,
}

impl QueueView {
    /// What the next claim may look at and bring, if anything.
    pub(crate) fn scope(&self, capacity: &Capacity, now: Instant) -> Option<Scope> {
        let (limit, only) = self.limit(capacity, now);
        let after = self.after.filter(|_| only.is_none() && !self.sweep_is_due(now));
        (limit > 0).then_some(Scope { limit, only, after })
    }

    fn limit(&self, capacity: &Capacity, now: Instant) -> (usize, Option<Narrowing>) {
        let Capacity { free, breaker, pays, .. } = *capacity;
        let past_is_due = is_due(self.past_at, PAST_EVERY, now);
        match breaker {
            // Nothing is wrong with the rail: all that may be asked is asked.
            Grants::All | Grants::One if !pays && (past_is_due || self.more_past) => {
                (free, Some(Narrowing::Asked))
            }
            Grants::All | Grants::One if !pays => (0, None),
            Grants::All if self.slots_gather(capacity, now) => (0, None),
            Grants::All if self.crowded && (past_is_due || self.past_turn) => {
                (free.div_ceil(4), Some(Narrowing::Tried))
            }
            Grants::All => (free, None),
            // One at a time until it is known how that one went. The breaker gives a ticket to the first alone.
            Grants::One => (free.min(1), None),
            Grants::None if past_is_due => (free.min(1), Some(Narrowing::Asked)),
            Grants::None => (0, None),
        }
    }

    fn slots_gather(&self, capacity: &Capacity, now: Instant) -> bool {
        self.crowded && capacity.free < capacity.slots.div_ceil(4) && !is_due(self.claimed_at, GATHER, now)
    }

    fn sweep_is_due(&self, now: Instant) -> bool {
        is_due(self.swept_at, SWEEP_EVERY, now)
    }

    /// A claim of this scope was answered, and `now` is when it was sent. A claim that failed may have seen nothing: it does not
    /// come here, and the next one sweeps again.
    pub(crate) fn claimed(&mut self, scope: &Scope, now: Instant) {
        self.claimed_at = Some(now);
        if scope.only.is_none() && scope.after.is_none() && self.sweep_is_due(now) {
            (self.swept_at, self.after) = (Some(now), self.reached);
        }
    }

    /// What it brought. After [`Self::claimed`].
    pub(crate) fn brought(&mut self, scope: &Scope, answer: &ClaimedRows, now: Instant) -> Brought {
        let (full, is_empty) = (answer.leases >= scope.limit, answer.leases == 0);
        let was_short = mem::replace(&mut self.short, answer.short && !is_empty);
        if let Some(only) = scope.only {
            self.past_at = Some(now);
            // The claim before may have emptied the bucket: then the turn is kept for when there is something in it.
            if was_short && is_empty {
                return Brought::Nothing;
            }
            (self.more_past, self.past_turn) = (full || answer.short, false);
            // Behind a long queue others are next, at once. Behind an open breaker nobody is.
            return match !is_empty || only == Narrowing::Tried {
                true => Brought::More,
                false => Brought::Nothing,
            };
        }
        // An empty bucket and an empty queue look the same. Shortly after something was found it is the bucket.
        let found_lately = self.found_at.is_some() && !is_due(self.found_at, FOUND_LATELY, now);
        let waits_for_rate = self.crowded && is_empty && found_lately && answer.has_rate;
        self.crowded = full || answer.short || waits_for_rate;
        if !is_empty {
            self.found_at = Some(now);
            self.past_turn = self.more_past;
        }
        self.reached = self.reached.max(answer.reached);
        match is_empty {
            _ if full => Brought::More,
            true => Brought::Nothing,
            false => Brought::All,
        }
    }

    /// More was due than the last claim could bring.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// The database's clock went back: what lies behind is due again.
    pub(crate) fn forget_times(&mut self) {
        (self.reached, self.after, self.swept_at) = (None, None, None);
    }
}

/// True where it was never done, or this long ago.
fn is_due(last: Option<Instant>, every: Duration, now: Instant) -> bool {
    last.is_none_or(|at| now.saturating_duration_since(at) >= every)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);
    const FREE: Capacity = Capacity { slots: 64, free: 64, breaker: Grants::All, pays: true };
    const CLOSED: Capacity = Capacity { pays: false, ..FREE };
    const BROKEN: Capacity = Capacity { breaker: Grants::None, ..FREE };
    const NOTHING: ClaimedRows = ClaimedRows { leases: 0, reached: None, short: false, has_rate: false };
    const FULL: ClaimedRows = ClaimedRows { leases: 64, ..NOTHING };

    fn at(second: i64) -> Option<DateTime<Utc>> {
        Some(DateTime::from_timestamp(second, 0).expect("a time"))
    }

    fn found(leases: usize, second: i64) -> ClaimedRows {
        ClaimedRows { leases, reached: at(second), ..NOTHING }
    }

    /// A claim that is sent and answered.
    fn claim(
        view: &mut QueueView,
        capacity: &Capacity,
        answer: &ClaimedRows,
        now: Instant,
    ) -> (Scope, Brought) {
        let scope = view.scope(capacity, now).expect("there is room");
        view.claimed(&scope, now);
        (scope, view.brought(&scope, answer, now))
    }

    fn is_sweep(view: &QueueView, now: Instant) -> bool {
        view.scope(&FREE, now).expect("there is room").after.is_none()
    }

    /// One that has reached second 10 and swept just now.
    fn swept() -> (QueueView, Instant) {
        let (mut view, now) = (QueueView::default(), Instant::now());
        claim(&mut view, &FREE, &found(3, 10), now);
        let later = now + SWEEP_EVERY;
        claim(&mut view, &FREE, &NOTHING, later);
        (view, later)
    }

    /// One behind a long queue, whose last claim was full just now.
    fn crowded() -> (QueueView, Instant) {
        let (mut view, now) = (QueueView::default(), Instant::now());
        assert_eq!(claim(&mut view, &FREE, &FULL, now).1, Brought::More);
        (view, now)
    }

    #[test]
    fn between_two_sweeps_a_claim_looks_only_beyond_what_was_reached_before_the_last_one() {
        let (mut view, now) = swept();
        let (scope, _) = claim(&mut view, &FREE, &found(1, 20), now + MILLISECOND);
        assert_eq!(scope.after, at(10));
        let (scope, _) = claim(&mut view, &FREE, &NOTHING, now + SWEEP_EVERY - MILLISECOND);
        assert_eq!(scope.after, at(10), "what was committed late may stand before 20");
        let (scope, _) = claim(&mut view, &FREE, &NOTHING, now + SWEEP_EVERY);
        assert_eq!(scope.after, None, "a sweep");
        assert_eq!(view.scope(&FREE, now + SWEEP_EVERY).expect("room").after, at(20));
    }

    #[test]
    fn who_asks_twice_before_a_claim_is_sent_still_sweeps() {
        let (view, now) = swept();
        let later = now + SWEEP_EVERY;
        assert!(is_sweep(&view, later));
        assert!(is_sweep(&view, later + MILLISECOND), "nothing was sent: no slot of the sandbox was free");
    }

    #[test]
    fn a_claim_that_failed_is_followed_by_a_sweep() {
        let (mut view, now) = swept();
        let failed = view.scope(&FREE, now + SWEEP_EVERY).expect("room");
        assert_eq!(failed.after, None);
        let (scope, _) = claim(&mut view, &FREE, &NOTHING, now + SWEEP_EVERY + 50 * MILLISECOND);
        assert_eq!(scope.after, None, "the one that failed may have seen nothing");
        assert!(!is_sweep(&view, now + SWEEP_EVERY + 51 * MILLISECOND), "this one was answered");
    }

    #[test]
    fn a_claim_for_payments_with_a_past_is_no_sweep() {
        let (mut view, now) = swept();
        let later = now + SWEEP_EVERY;
        let (scope, _) = claim(&mut view, &BROKEN, &NOTHING, later);
        assert_eq!((scope.only, scope.after), (Some(Narrowing::Asked), None));
        assert!(is_sweep(&view, later));
    }

    #[test]
    fn a_claim_that_was_on_its_way_when_the_clock_went_back_does_not_count_as_a_sweep() {
        let (mut view, now) = swept();
        let scope = view.scope(&FREE, now).expect("room");
        assert_eq!(scope.after, at(10));
        view.forget_times();
        view.claimed(&scope, now);
        assert!(is_sweep(&view, now));
    }

    #[test]
    fn after_the_clock_went_back_the_next_claim_sweeps_and_what_is_reached_begins_anew() {
        let (mut view, now) = swept();
        view.forget_times();
        claim(&mut view, &FREE, &found(1, 5), now);
        claim(&mut view, &FREE, &NOTHING, now + SWEEP_EVERY);
        assert_eq!(view.scope(&FREE, now + SWEEP_EVERY).expect("room").after, at(5));
    }

    #[test]
    fn what_is_tried_again_moves_nothing_on() {
        let (mut view, now) = swept();
        claim(&mut view, &FREE, &ClaimedRows { leases: 2, ..NOTHING }, now);
        assert_eq!(view.reached, at(10));
        claim(&mut view, &FREE, &found(1, 7), now);
        assert_eq!(view.reached, at(10), "it never goes back");
    }

    #[test]
    fn without_a_free_slot_there_is_nothing_to_claim() {
        let full = Capacity { free: 0, ..FREE };
        assert_eq!(QueueView::default().scope(&full, Instant::now()), None);
    }

    #[test]
    fn a_rail_that_has_to_prove_itself_gets_one_payment() {
        let one = Capacity { breaker: Grants::One, ..FREE };
        let scope = QueueView::default().scope(&one, Instant::now()).expect("room");
        assert_eq!((scope.limit, scope.only), (1, None));
    }

    #[test]
    fn behind_an_open_breaker_one_payment_a_second_is_asked_about() {
        let (mut view, now) = (QueueView::default(), Instant::now());
        let (scope, brought) = claim(&mut view, &BROKEN, &found(1, 1), now);
        assert_eq!((scope.limit, scope.only, brought), (1, Some(Narrowing::Asked), Brought::More));
        assert_eq!(view.scope(&BROKEN, now + PAST_EVERY - MILLISECOND), None);
        let (_, brought) = claim(&mut view, &BROKEN, &NOTHING, now + PAST_EVERY);
        assert_eq!(brought, Brought::Nothing);
    }

    #[test]
    fn a_rail_that_is_closed_is_asked_about_all_that_may_be_asked() {
        let (mut view, now) = (QueueView::default(), Instant::now());
        let (scope, _) = claim(&mut view, &CLOSED, &FULL, now);
        assert_eq!((scope.limit, scope.only), (64, Some(Narrowing::Asked)));
        claim(&mut view, &CLOSED, &found(1, 1), now + MILLISECOND);
        assert_eq!(view.scope(&CLOSED, now + 2 * MILLISECOND), None, "no more of them");
        let beginning = Capacity { breaker: Grants::One, ..CLOSED };
        assert_eq!(view.scope(&beginning, now + PAST_EVERY * 2).expect("room").limit, 64);
    }

    #[test]
    fn behind_a_long_queue_slots_gather_until_a_quarter_is_free_or_for_five_milliseconds() {
        let (mut view, now) = crowded();
        view.past_at = Some(now);
        let (few, quarter) = (Capacity { free: 15, ..FREE }, Capacity { free: 16, ..FREE });
        assert_eq!(view.scope(&few, now + GATHER - MILLISECOND), None);
        assert_eq!(view.scope(&quarter, now + GATHER - MILLISECOND).expect("room").limit, 16);
        assert_eq!(view.scope(&few, now + GATHER).expect("room").limit, 15);
    }

    #[test]
    fn behind_a_long_queue_a_quarter_of_one_claim_a_second_is_for_what_was_tried_before() {
        let (mut view, now) = crowded();
        let (scope, brought) = claim(&mut view, &FREE, &NOTHING, now);
        assert_eq!((scope.limit, scope.only), (16, Some(Narrowing::Tried)));
        assert_eq!(brought, Brought::More, "others are next, at once");
        assert_eq!(claim(&mut view, &FREE, &FULL, now).0.only, None);
        assert_eq!(view.scope(&FREE, now + PAST_EVERY).expect("room").only, Some(Narrowing::Tried));
    }

    #[test]
    fn every_other_claim_is_for_what_was_tried_before_while_there_is_more_of_it() {
        let (mut view, now) = crowded();
        let turns: Vec<_> = (0..4).map(|_| claim(&mut view, &FREE, &FULL, now).0.only).collect();
        assert_eq!(turns, [Some(Narrowing::Tried), None, Some(Narrowing::Tried), None]);
    }

    #[test]
    fn a_turn_that_met_an_empty_bucket_is_kept() {
        let (mut view, now) = crowded();
        claim(&mut view, &FREE, &FULL, now);
        let short = ClaimedRows { leases: 5, short: true, ..NOTHING };
        claim(&mut view, &FREE, &short, now);
        let (scope, brought) = claim(&mut view, &FREE, &NOTHING, now);
        assert_eq!((scope.only, brought), (Some(Narrowing::Tried), Brought::Nothing));
        assert_eq!(
            view.scope(&FREE, now).expect("room").only,
            Some(Narrowing::Tried),
            "it is still their turn"
        );
    }

    #[test]
    fn it_is_crowded_after_a_full_or_a_short_claim_and_not_after_one_that_brought_all() {
        let (mut view, now) = (QueueView::default(), Instant::now());
        for (answer, is_crowded, brought) in [
            (FULL, true, Brought::More),
            (found(3, 1), false, Brought::All),
            (ClaimedRows { leases: 3, short: true, ..NOTHING }, true, Brought::All),
            (NOTHING, false, Brought::Nothing),
        ] {
            view.past_at = Some(now);
            assert_eq!(claim(&mut view, &FREE, &answer, now).1, brought, "{answer:?}");
            assert_eq!(view.is_crowded(), is_crowded, "{answer:?}");
            view.past_turn = false;
        }
    }

    #[test]
    fn an_empty_answer_soon_after_a_find_means_an_empty_bucket_where_the_rail_has_a_rate() {
        for (has_rate, since, is_crowded) in [
            (true, FOUND_LATELY - MILLISECOND, true),
            (true, FOUND_LATELY, false),
            (false, FOUND_LATELY - MILLISECOND, false),
        ] {
            let (mut view, now) = crowded();
            view.past_at = Some(now + since);
            claim(&mut view, &FREE, &ClaimedRows { has_rate, ..NOTHING }, now + since);
            assert_eq!(view.is_crowded(), is_crowded, "rate {has_rate}, after {since:?}");
        }
    }
}
