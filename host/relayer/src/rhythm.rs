//! When this host claims, and for what it waits between two claims. No I/O and no clock: each event and its time go in, the next
//! action comes out.

use std::mem;
use std::time::{Duration, Instant};

use crate::presence::{Presence, Window};

const WAIT_MIN: Duration = Duration::from_millis(20);
/// Between two claims while more is due than may be taken.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Payments often come in groups: the first claim after a find follows soon, the next ones after longer and longer waits.
const WAIT_FIRST: Duration = Duration::from_millis(2);
/// For this long after a find a host claims often, also where it gets notifications: a retry, a free slot and a promoted payment
/// send none. Longer than a rate takes to allow one more.
const AWAKE: Duration = Duration::from_millis(1100);
/// The database takes a host for dead that was silent for a minute.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(15);
const FAILED_PAUSE_FIRST: Duration = Duration::from_millis(100);
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(5);

/// What a claim brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    Found {
        /// More is due than it brought.
        more: bool,
    },
    NothingDue,
    /// There is no room for what is due.
    NoRoom,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The host has just started, or a wait is over.
    Ready,
    /// A claim was answered.
    Looked {
        looked: Looked,
        /// Those since the claim before.
        notifications: u32,
    },
    /// A claim failed.
    Failed,
    /// No claim was sent: the database does not take outcomes at the moment.
    CannotWrite,
    /// The database knows this of the host, and that it serves so many rails.
    Told { presence: Presence, rails: usize },
    /// The database could not be told. Then the next claim fails too, and that failure is logged.
    NotTold,
}

/// What the claimer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Claim,
    /// Tell the database, which is also the sign of life.
    Tell(Presence),
    /// Wait for a notification, not longer than this.
    AwaitNotification(Duration),
    /// Wait for a notification or until the next payment is due, not longer than this.
    AwaitDue(Duration),
    /// Wait for a free slot, not longer than this.
    AwaitSlot(Duration),
    /// Wait after a failure.
    Pause(Duration),
}

/// The claimer's state.
#[derive(Debug)]
pub(crate) struct Rhythm {
    /// It can get notifications.
    listens: bool,
    /// It claims this often, notified or not.
    poll: Duration,
    /// What the database was told last: the presence, how many rails, and when.
    presence: Presence,
    rails: usize,
    told_at: Instant,
    found_at: Instant,
    window: Window,
    /// What the last claim brought, while the database is told before the rest.
    pending: Option<Looked>,
    failed_pause: Duration,
}

impl Rhythm {
    /// Of a host that has just told the database that it is awake and serves so many rails.
    pub(crate) fn new(listens: bool, poll: Duration, rails: usize, now: Instant) -> Self {
        Self {
            listens,
            poll,
            presence: Presence::Awake,
            rails,
            told_at: now,
            found_at: now,
            window: Window::new(now),
            pending: None,
            failed_pause: FAILED_PAUSE_FIRST,
        }
    }

    /// What to do after this event. `rails` is how many the host serves now.
    pub(crate) fn next(&mut self, event: Event, rails: usize, now: Instant) -> Action {
        match event {
            Event::Ready => self.claim(rails, now),
            Event::Looked { looked, notifications } => self.looked(looked, notifications, rails, now),
            Event::Failed => self.failed(),
            Event::CannotWrite => Action::AwaitSlot(WAIT_MAX),
            Event::Told { presence, rails: told } => {
                (self.presence, self.rails, self.told_at) = (presence, told, now);
                self.after_telling(rails, now)
            }
            Event::NotTold => self.after_telling(rails, now),
        }
    }

    /// A claim, and before it the sign of life where that is due.
    fn claim(&self, rails: usize, now: Instant) -> Action {
        let is_silent = now.saturating_duration_since(self.told_at) > SIGN_OF_LIFE_EVERY;
        match is_silent || self.rails != rails {
            true => Action::Tell(self.presence),
            false => Action::Claim,
        }
    }

    /// The rest that the last claim calls for; where none waits for its rest, a claim.
    fn after_telling(&mut self, rails: usize, now: Instant) -> Action {
        match self.pending.take() {
            Some(looked) => self.rest(looked, rails, now),
            None => Action::Claim,
        }
    }

    fn failed(&mut self) -> Action {
        let longer = (self.failed_pause * 2).min(FAILED_PAUSE_MAX);
        Action::Pause(mem::replace(&mut self.failed_pause, longer))
    }

    fn looked(&mut self, looked: Looked, notifications: u32, rails: usize, now: Instant) -> Action {
        self.failed_pause = FAILED_PAUSE_FIRST;
        self.window.notified(notifications);
        match looked {
            Looked::Found { .. } => {
                self.found_at = now;
                self.window.found();
            }
            Looked::NothingDue => self.window.found_nothing(),
            Looked::NoRoom => {}
        }
        match self.change(looked, now) {
            // Then one more claim: what was enqueued before the database knew of it sent no notification.
            Some(Presence::Asleep) => Action::Tell(Presence::Asleep),
            Some(Presence::Awake) => {
                self.pending = Some(looked);
                Action::Tell(Presence::Awake)
            }
            None => self.rest(looked, rails, now),
        }
    }

    /// The other presence, where the window that is over calls for it.
    fn change(&mut self, looked: Looked, now: Instant) -> Option<Presence> {
        let past = self.window.is_over(now)?;
        match self.presence {
            Presence::Asleep => past.is_busy(self.listens).then_some(Presence::Awake),
            Presence::Awake => (past.is_quiet() && looked == Looked::NothingDue).then_some(Presence::Asleep),
        }
    }

    fn rest(&self, looked: Looked, rails: usize, now: Instant) -> Action {
        let is_asleep = self.presence == Presence::Asleep;
        let is_notified = is_asleep && self.listens;
        let since_found = now.saturating_duration_since(self.found_at);
        match looked {
            Looked::Found { more: false } if is_notified => {
                Action::AwaitNotification(WAIT_MIN.min(self.poll))
            }
            Looked::Found { .. } => self.claim(rails, now),
            Looked::NoRoom => Action::AwaitSlot(WAIT_MAX),
            Looked::NothingDue if is_asleep && since_found >= AWAKE => Action::AwaitDue(self.poll),
            Looked::NothingDue => {
                let first = if is_notified { WAIT_MIN } else { WAIT_FIRST };
                Action::AwaitNotification(self.poll.min((since_found / 2).clamp(first, WAIT_MAX)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::WINDOW;

    const POLL: Duration = Duration::from_secs(1);
    const RAILS: usize = 3;
    const MILLISECOND: Duration = Duration::from_millis(1);
    const FOUND: Looked = Looked::Found { more: false };
    const FOUND_MORE: Looked = Looked::Found { more: true };

    /// A claimer and a clock that only the test moves.
    struct Driven {
        rhythm: Rhythm,
        now: Instant,
    }

    impl Driven {
        fn new(listens: bool) -> Self {
            let now = Instant::now();
            Self { rhythm: Rhythm::new(listens, POLL, RAILS, now), now }
        }

        /// One that found nothing for a while and said so.
        fn asleep(listens: bool) -> Self {
            let mut driven = Self::new(listens);
            assert_eq!(driven.after(WINDOW).looked(Looked::NothingDue), Action::Tell(Presence::Asleep));
            assert_eq!(driven.told(Presence::Asleep), Action::Claim, "one more claim before it relies on it");
            driven
        }

        fn after(&mut self, passed: Duration) -> &mut Self {
            self.now += passed;
            self
        }

        fn on(&mut self, event: Event) -> Action {
            self.rhythm.next(event, RAILS, self.now)
        }

        fn looked(&mut self, looked: Looked) -> Action {
            self.on(Event::Looked { looked, notifications: 0 })
        }

        fn told(&mut self, presence: Presence) -> Action {
            self.on(Event::Told { presence, rails: RAILS })
        }
    }

    fn wait(at_most_ms: u64) -> Action {
        Action::AwaitNotification(Duration::from_millis(at_most_ms))
    }

    #[test]
    fn it_claims_as_soon_as_it_starts_and_after_every_wait_and_awake_also_after_every_find() {
        assert_eq!(Driven::new(true).on(Event::Ready), Action::Claim);
        assert_eq!(Driven::asleep(true).on(Event::Ready), Action::Claim);
        assert_eq!(Driven::new(true).looked(FOUND), Action::Claim);
    }

    #[test]
    fn a_sleeping_host_that_found_all_waits_a_little_for_a_notification() {
        assert_eq!(Driven::asleep(true).looked(FOUND), wait(20));
        assert_eq!(Driven::asleep(true).looked(FOUND_MORE), Action::Claim, "more is due");
        assert_eq!(Driven::asleep(false).looked(FOUND), Action::Claim, "nobody would notify it");
    }

    #[test]
    fn waits_grow_with_the_time_since_the_last_find_up_to_fifty_milliseconds() {
        let mut host = Driven::new(true);
        host.looked(FOUND);
        let mut waits = Vec::new();
        for since_ms in [0, 8, 40, 99] {
            host.now = host.rhythm.found_at + Duration::from_millis(since_ms);
            waits.push(host.looked(Looked::NothingDue));
        }
        assert_eq!(waits, [wait(2), wait(4), wait(20), Action::AwaitNotification(99 * MILLISECOND / 2)]);
        let mut asleep = Driven::asleep(true);
        asleep.looked(FOUND);
        assert_eq!(asleep.looked(Looked::NothingDue), wait(20), "a notification ends it sooner");
        assert_eq!(asleep.after(Duration::from_millis(500)).looked(Looked::NothingDue), wait(50));
    }

    #[test]
    fn no_wait_is_longer_than_the_poll() {
        let mut host = Driven::asleep(true);
        host.rhythm.poll = MILLISECOND;
        assert_eq!(host.looked(FOUND), wait(1));
        assert_eq!(host.looked(Looked::NothingDue), wait(1));
        assert_eq!(host.after(AWAKE).looked(Looked::NothingDue), Action::AwaitDue(MILLISECOND));
    }

    #[test]
    fn a_sleeping_host_claims_often_for_a_while_after_a_find_and_then_waits_for_the_next_due_time() {
        let mut host = Driven::asleep(true);
        host.looked(FOUND);
        assert_eq!(host.after(AWAKE - MILLISECOND).looked(Looked::NothingDue), wait(50));
        assert_eq!(host.after(MILLISECOND).looked(Looked::NothingDue), Action::AwaitDue(POLL));
    }

    #[test]
    fn an_idle_host_makes_few_claims() {
        let mut host = Driven::asleep(true);
        host.after(AWAKE);
        let (began, mut claims) = (host.now, 0);
        while host.now < began + Duration::from_secs(10) {
            match host.looked(Looked::NothingDue) {
                Action::AwaitDue(at_most) => host.now += at_most,
                Action::Tell(_) => {}
                other => panic!("{other:?}"),
            }
            claims += 1;
        }
        assert!(claims <= 11, "{claims} claims in ten seconds");
    }

    #[test]
    fn without_room_it_waits_for_a_slot_asleep_or_awake() {
        for mut host in [Driven::new(true), Driven::asleep(true)] {
            assert_eq!(host.looked(Looked::NoRoom), Action::AwaitSlot(WAIT_MAX));
        }
    }

    #[test]
    fn while_outcomes_cannot_be_written_it_waits_and_nothing_else_changes() {
        let mut host = Driven::new(true);
        assert_eq!(host.on(Event::Failed), Action::Pause(FAILED_PAUSE_FIRST));
        assert_eq!(host.on(Event::CannotWrite), Action::AwaitSlot(WAIT_MAX));
        assert_eq!(host.on(Event::Failed), Action::Pause(FAILED_PAUSE_FIRST * 2), "that was no answer");
    }

    #[test]
    fn each_failure_in_a_row_doubles_the_pause_up_to_a_limit_and_an_answer_ends_that() {
        let mut host = Driven::new(true);
        let pauses: Vec<Action> = (0..8).map(|_| host.on(Event::Failed)).collect();
        let expected = [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000];
        assert_eq!(pauses, expected.map(|ms| Action::Pause(Duration::from_millis(ms))));
        host.looked(Looked::NoRoom);
        assert_eq!(host.on(Event::Failed), Action::Pause(FAILED_PAUSE_FIRST));
    }

    #[test]
    fn it_falls_asleep_only_when_a_window_is_over_and_the_last_claim_found_nothing() {
        let mut host = Driven::new(true);
        let wait = Action::AwaitNotification((WINDOW - MILLISECOND) / 2);
        assert_eq!(host.after(WINDOW - MILLISECOND).looked(Looked::NothingDue), wait);
        assert_eq!(host.after(MILLISECOND).looked(Looked::NothingDue), Action::Tell(Presence::Asleep));
        let mut host = Driven::new(true);
        host.looked(Looked::NothingDue);
        assert_eq!(host.after(WINDOW).looked(FOUND), Action::Claim, "it found something just now");
    }

    #[test]
    fn where_too_many_notifications_come_it_says_awake_and_then_rests_as_its_claim_calls_for() {
        let mut host = Driven::asleep(true);
        let notified = |notifications| Event::Looked { looked: Looked::NoRoom, notifications };
        host.on(notified(9));
        host.after(WINDOW);
        assert_eq!(host.on(notified(9)), Action::Tell(Presence::Awake), "together they are too many");
        assert_eq!(host.told(Presence::Awake), Action::AwaitSlot(WAIT_MAX));
    }

    #[test]
    fn a_host_that_cannot_be_notified_says_awake_as_soon_as_it_finds_something() {
        assert_eq!(Driven::asleep(false).after(WINDOW).looked(FOUND), Action::Tell(Presence::Awake));
        assert_eq!(Driven::asleep(true).after(WINDOW).looked(FOUND), wait(20));
    }

    #[test]
    fn a_host_that_could_not_be_heard_goes_on_as_what_the_database_knows_it_for() {
        let mut host = Driven::new(true);
        assert_eq!(host.after(WINDOW).looked(Looked::NothingDue), Action::Tell(Presence::Asleep));
        assert_eq!(host.on(Event::NotTold), Action::Claim);
        assert_eq!(host.looked(FOUND), Action::Claim, "still awake");
        let mut host = Driven::asleep(false);
        assert_eq!(host.after(WINDOW).looked(FOUND), Action::Tell(Presence::Awake));
        assert_eq!(host.on(Event::NotTold), Action::Claim, "it found something");
    }

    #[test]
    fn a_sign_of_life_is_given_before_the_first_claim_after_fifteen_seconds_with_the_same_presence() {
        for (mut host, presence) in
            [(Driven::new(true), Presence::Awake), (Driven::asleep(true), Presence::Asleep)]
        {
            assert_eq!(host.after(SIGN_OF_LIFE_EVERY).on(Event::Ready), Action::Claim);
            assert_eq!(host.after(MILLISECOND).on(Event::Ready), Action::Tell(presence));
            assert_eq!(host.on(Event::NotTold), Action::Claim, "it is tried once before each claim");
            assert_eq!(host.on(Event::Ready), Action::Tell(presence));
            assert_eq!(host.told(presence), Action::Claim);
            assert_eq!(host.on(Event::Ready), Action::Claim);
        }
    }

    #[test]
    fn a_host_that_never_waits_gives_its_sign_of_life_too() {
        let mut host = Driven::new(true);
        assert_eq!(
            host.after(SIGN_OF_LIFE_EVERY + MILLISECOND).looked(FOUND_MORE),
            Action::Tell(Presence::Awake)
        );
    }

    #[test]
    fn a_rail_that_is_new_is_told_of_at_once() {
        let mut host = Driven::new(true);
        assert_eq!(host.rhythm.next(Event::Ready, RAILS + 1, host.now), Action::Tell(Presence::Awake));
        let told = Event::Told { presence: Presence::Awake, rails: RAILS + 1 };
        assert_eq!(host.rhythm.next(told, RAILS + 1, host.now), Action::Claim);
        assert_eq!(host.rhythm.next(Event::Ready, RAILS + 1, host.now), Action::Claim);
    }
}
