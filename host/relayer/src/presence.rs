//! Whether this host waits for notifications or claims often and needs none. No I/O and no clock.

use std::mem;
use std::time::{Duration, Instant};

/// A notification costs those who enqueue, a claim costs us. A host that gets more notifications than this within a window claims
/// often instead and needs none. It goes back to them when most of its claims find nothing and no more than this find something.
pub(crate) const WINDOW: Duration = Duration::from_millis(100);
const NOTIFICATIONS_MAX: u32 = 16;
const FINDS_MIN: u32 = 10;

/// Whether the database sends this host notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It claims often and needs none.
    Awake,
    /// It waits for them.
    Asleep,
}

/// What came within a short time. It decides between notifications and frequent claims.
#[derive(Debug)]
pub(crate) struct Window {
    since: Instant,
    notifications: u32,
    /// Claims that brought something, and claims that brought nothing.
    finds: u32,
    in_vain: u32,
}

impl Window {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, notifications: 0, finds: 0, in_vain: 0 }
    }

    pub(crate) fn notified(&mut self, notifications: u32) {
        self.notifications += notifications;
    }

    pub(crate) fn found(&mut self) {
        self.finds += 1;
    }

    pub(crate) fn found_nothing(&mut self) {
        self.in_vain += 1;
    }

    /// Once a window is over the next one begins.
    pub(crate) fn is_over(&mut self, now: Instant) -> Option<Self> {
        let is_over = now.saturating_duration_since(self.since) >= WINDOW;
        is_over.then(|| mem::replace(self, Self::new(now)))
    }

    /// A host that sleeps has to wake up. One that gets no notifications does so for anything that it finds.
    pub(crate) fn is_busy(&self, listens: bool) -> bool {
        self.notifications > NOTIFICATIONS_MAX || !listens && self.finds > 0
    }

    /// A host that is awake may sleep.
    pub(crate) fn is_quiet(&self) -> bool {
        self.finds <= FINDS_MIN && self.finds <= self.in_vain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(notifications: u32, finds: u32, in_vain: u32) -> Window {
        Window { since: Instant::now(), notifications, finds, in_vain }
    }

    #[test]
    fn a_window_lasts_a_tenth_of_a_second_and_the_next_one_begins_empty() {
        let now = Instant::now();
        let mut window = Window::new(now);
        window.notified(9);
        window.found();
        window.found_nothing();
        assert!(window.is_over(now + WINDOW - Duration::from_millis(1)).is_none());
        let past = window.is_over(now + WINDOW).expect("it is over");
        assert_eq!((past.notifications, past.finds, past.in_vain), (9, 1, 1));
        assert_eq!((window.notifications, window.finds, window.in_vain), (0, 0, 0));
        assert!(window.is_over(now + WINDOW).is_none());
    }

    #[test]
    fn a_host_stays_awake_while_most_claims_or_many_find_something() {
        assert!(window(0, FINDS_MIN, FINDS_MIN).is_quiet());
        assert!(!window(0, FINDS_MIN, FINDS_MIN - 1).is_quiet(), "most of them find something");
        assert!(!window(0, FINDS_MIN + 1, 99).is_quiet(), "many find something");
    }

    #[test]
    fn a_host_that_gets_too_many_notifications_has_to_wake_up() {
        assert!(!window(NOTIFICATIONS_MAX, 9, 0).is_busy(true));
        assert!(window(NOTIFICATIONS_MAX + 1, 0, 0).is_busy(true));
    }

    #[test]
    fn a_host_that_gets_no_notifications_has_to_wake_up_for_anything_that_it_finds() {
        assert!(window(0, 1, 0).is_busy(false));
        assert!(!window(0, 0, 9).is_busy(false));
    }
}
