//! When a rail pays: days, hours and holidays of the place where it is.

use chrono::{DateTime, Datelike, FixedOffset, NaiveDate, NaiveTime, Utc, Weekday};
use serde::Deserialize;

/// `[hours]` of a rail file, in the rail's own time (`utc_offset`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoursFile {
    /// `mon`, `tue`, …
    pub days: Vec<String>,
    /// `08:00`
    pub from: String,
    /// `15:30`: nothing is sent from then on.
    pub to: String,
    /// `2026-12-25`, or `12-25` for every year.
    #[serde(default)]
    pub holidays: Vec<String>,
}

/// The same, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hours {
    days: Vec<Weekday>,
    from: NaiveTime,
    to: NaiveTime,
    holidays: Vec<Holiday>,
    offset: FixedOffset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holiday {
    Once(NaiveDate),
    /// Month and day.
    EveryYear(u32, u32),
}

impl Hours {
    pub(crate) fn load(file: &HoursFile, offset: FixedOffset) -> Result<Self, String> {
        let mut days = Vec::new();
        for day in &file.days {
            let short = day.len() == 3 && day.bytes().all(|byte| byte.is_ascii_lowercase());
            let parsed = day.parse().ok().filter(|_| short);
            days.push(parsed.ok_or_else(|| {
                format!("hours.days has {day:?}, expected mon, tue, wed, thu, fri, sat or sun")
            })?);
        }
        if days.is_empty() {
            return Err("hours.days is empty, list the days on which the rail pays".to_owned());
        }
        let time = |key: &str, text: &str| {
            NaiveTime::parse_from_str(text, "%H:%M")
                .map_err(|_| format!("hours.{key} is {text:?}, expected a time such as 08:00"))
        };
        let (from, to) = (time("from", &file.from)?, time("to", &file.to)?);
        if from >= to {
            return Err(format!(
                "hours.to is {:?}, expected a time after hours.from, {:?}",
                file.to, file.from
            ));
        }
        let holidays = file.holidays.iter().map(|text| Holiday::parse(text)).collect::<Result<_, _>>()?;
        Ok(Self { days, from, to, holidays, offset })
    }

    /// Whether the rail pays at this moment, by the rail's own day and time.
    pub fn are_open(&self, now: DateTime<Utc>) -> bool {
        let local = now.with_timezone(&self.offset).naive_local();
        let is_holiday = self.holidays.iter().any(|holiday| holiday.falls_on(local.date()));
        self.days.contains(&local.weekday()) && !is_holiday && (self.from..self.to).contains(&local.time())
    }
}

impl Holiday {
    fn parse(text: &str) -> Result<Self, String> {
        let once = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().filter(|_| text.len() == 10);
        // A leap year, so that the 29th of February is a day.
        let yearly =
            NaiveDate::parse_from_str(&format!("2000-{text}"), "%Y-%m-%d").ok().filter(|_| text.len() == 5);
        match (once, yearly) {
            (Some(day), _) => Ok(Self::Once(day)),
            (None, Some(day)) => Ok(Self::EveryYear(day.month(), day.day())),
            (None, None) => Err(format!(
                "hours.holidays has {text:?}, expected a day such as 2026-12-25, or 12-25 for every year"
            )),
        }
    }

    fn falls_on(self, date: NaiveDate) -> bool {
        match self {
            Self::Once(day) => day == date,
            Self::EveryYear(month, day) => (month, day) == (date.month(), date.day()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(toml: &str) -> Result<Hours, String> {
        let file: HoursFile = toml::from_str(toml).expect("TOML");
        Hours::load(&file, "+02:00".parse().expect("an offset"))
    }

    const WEEK: &str =
        "days = [\"mon\", \"tue\", \"wed\", \"thu\", \"fri\"]\nfrom = \"08:00\"\nto = \"15:30\"\n";

    #[test]
    fn a_bank_pays_on_its_days_within_its_hours_and_on_no_holiday() {
        let hours = hours(&format!("{WEEK}holidays = [\"2026-12-24\", \"12-25\"]")).expect("hours");
        for (at, open) in [
            ("2026-12-23T05:59:59Z", false),
            ("2026-12-23T06:00:00Z", true),
            ("2026-12-23T13:29:59Z", true),
            ("2026-12-23T13:30:00Z", false),
            ("2026-12-24T08:00:00Z", false),
            ("2026-12-25T08:00:00Z", false),
            ("2029-12-25T08:00:00Z", false),
            ("2029-12-24T08:00:00Z", true),
            ("2026-12-26T08:00:00Z", false),
            ("2026-12-27T08:00:00Z", false),
        ] {
            assert_eq!(hours.are_open(at.parse().expect("a time")), open, "{at}");
        }
    }

    #[test]
    fn hours_that_are_none_are_refused_with_their_key() {
        for (toml, problem) in [
            ("days = []\nfrom = \"08:00\"\nto = \"15:30\"".to_owned(), "hours.days is empty"),
            ("days = [\"Monday\"]\nfrom = \"08:00\"\nto = \"15:30\"".to_owned(), "hours.days has \"Monday\""),
            ("days = [\"mon\"]\nfrom = \"8\"\nto = \"15:30\"".to_owned(), "hours.from is \"8\""),
            ("days = [\"mon\"]\nfrom = \"16:00\"\nto = \"15:30\"".to_owned(), "hours.to is \"15:30\""),
            (format!("{WEEK}holidays = [\"Christmas\"]"), "hours.holidays has \"Christmas\""),
            (format!("{WEEK}holidays = [\"02-30\"]"), "hours.holidays has \"02-30\""),
        ] {
            let refused = hours(&toml).expect_err(&toml);
            assert!(refused.starts_with(problem), "{refused}");
        }
    }
}
