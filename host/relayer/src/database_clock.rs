//! The database's clock, as its claims show it.

use std::time::Instant;

use chrono::{DateTime, Utc};

/// What the clock showed last, and when we received that.
#[derive(Debug, Default)]
pub(crate) struct DatabaseClock(Option<(DateTime<Utc>, Instant)>);

impl DatabaseClock {
    /// True if it went back.
    pub(crate) fn shows(&mut self, now: DateTime<Utc>, received: Instant) -> bool {
        self.0.replace((now, received)).is_some_and(|(before, _)| now < before)
    }

    /// Behind the database's clock by the time that the answer took, and never ahead of it. Until a claim brought something it is
    /// our own clock.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.0.map_or_else(Utc::now, |(shown, received)| shown + received.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_clock_of_the_database_goes_on_from_what_it_showed_whatever_ours_says() {
        let mut clock = DatabaseClock::default();
        let shown = DateTime::from_timestamp(1_000_000_000, 0).expect("a time");
        assert!(!clock.shows(shown, Instant::now()));
        assert!((shown..shown + Duration::from_secs(3600)).contains(&clock.now()));
        assert!(clock.shows(shown - Duration::from_secs(1), Instant::now()), "it went back");
        assert!(clock.now() < shown + Duration::from_secs(3600));
    }
}
