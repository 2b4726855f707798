//! Which payments: the filters of `list`, which the acts on many payments take too.

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};
use clap::{Args, ValueEnum};
use outbox::read::Filter;

#[derive(Debug, Args)]
#[command(next_help_heading = "Which payments")]
pub(super) struct Filters {
    /// Only payments of this rail.
    #[arg(long = "rail", value_name = "RAIL")]
    of_rail: Option<String>,
    /// Only payments of this participant.
    #[arg(long = "participant", value_name = "PARTICIPANT")]
    of_participant: Option<String>,
    /// Only payments in this state; several are separated by commas.
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', ignore_case = true)]
    states: Vec<StateFilter>,
    /// Only payments with this error code.
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Only payments with this code of the rail.
    #[arg(long, value_name = "CODE")]
    rail_code: Option<String>,
    #[command(flatten)]
    span: Span,
    /// Only payments on the review list.
    #[arg(long)]
    review: bool,
    /// Only payments whose outcome is not known.
    #[arg(long)]
    unsettled: bool,
}

/// From when until when.
#[derive(Debug, Args)]
pub(super) struct Span {
    /// Accepted then or later: a time like 2026-05-03T08:00:00Z, a date, or an age like 30m, 2h, 3d.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub since: Option<DateTime<Utc>>,
    /// Accepted before then.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub until: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StateFilter {
    /// Due, and not taken yet.
    Pending,
    /// A host works on it.
    Leased,
    /// Held back: its rail is paused, its participant suspended, or one before it is open.
    Parked,
    /// Due later.
    Scheduled,
    /// Paid.
    Dispatched,
    Failed,
}

impl Filters {
    pub(super) fn filter(&self) -> Filter {
        let states =
            self.states.iter().filter_map(|state| Some(state.to_possible_value()?.get_name().to_uppercase()));
        Filter {
            rail_type: self.of_rail.clone(),
            participant_id: self.of_participant.clone(),
            states: states.collect(),
            error_code: self.error_code.clone(),
            rail_code: self.rail_code.clone(),
            since: self.span.since,
            until: self.span.until,
            needs_review: self.review,
            unsettled: self.unsettled,
        }
    }
}

/// A moment, a day's beginning in UTC, or an age.
fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(time.to_utc());
    }
    if let Ok(day) = text.parse::<NaiveDate>() {
        return Ok(day.and_time(NaiveTime::MIN).and_utc());
    }
    age(text).and_then(|age| Utc::now().checked_sub_signed(age)).ok_or_else(|| {
        "expected a time like 2026-05-03T08:00:00Z, a date like 2026-05-03, or an age like 30m, 2h, 3d"
            .to_owned()
    })
}

fn age(text: &str) -> Option<TimeDelta> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let count: u32 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    TimeDelta::try_seconds(i64::from(count) * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_moment_a_day_or_an_age() {
        assert_eq!(
            parse_time("2026-05-03T10:00:00+02:00").expect("a moment").to_rfc3339(),
            "2026-05-03T08:00:00+00:00"
        );
        assert_eq!(parse_time("2026-05-03").expect("a day").to_rfc3339(), "2026-05-03T00:00:00+00:00");
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("2h", 7200), ("3d", 259_200), ("1w", 604_800)] {
            let age = Utc::now() - parse_time(text).expect("an age");
            assert!((age.num_seconds() - seconds).abs() <= 1, "{text}");
        }
        for text in ["", "h", "-2h", "2", "2x", "yesterday", "2026-13-01", "2µ"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
