//! Figures, and what is said of many of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::names::OURS;

/// What one run gave: figures by name, the unit last in it.
pub(super) type Sample = BTreeMap<&'static str, f64>;

/// A sample, and the round it was taken in: those of one round were taken side by side.
#[derive(Debug, Serialize)]
pub(super) struct Taken {
    pub round: usize,
    pub figures: Sample,
}

/// A contestant, or ourselves under certain circumstances, and all that was measured of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct FigureRow {
    pub name: String,
    /// Of a rival.
    pub language: String,
    pub settings: String,
    /// What it does not do.
    pub lacks: Vec<String>,
    pub samples: Vec<Taken>,
    pub ending: Option<RunEnding>,
}

/// Why a contestant has no further turn.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunEnding {
    NotFinishedInSeconds(u64),
    Failed(String),
}

/// The middle of some figures, and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

/// How the figures of a kind of scenario are shown.
#[derive(Debug)]
pub(super) struct FigureShape {
    pub columns: &'static [Column],
    /// For a second table.
    pub costs: &'static [Column],
    pub plotted: Column,
    /// The plotted figure is also shown as a multiple of the first line's.
    pub relative: bool,
}

#[derive(Debug)]
pub(super) struct Column {
    pub figure: &'static str,
    pub heading: &'static str,
}

pub(super) const fn column(figure: &'static str, heading: &'static str) -> Column {
    Column { figure, heading }
}

impl FigureRow {
    pub(super) fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.name == OURS
    }

    pub(super) fn values(&self, figure: &str) -> Vec<f64> {
        self.samples.iter().filter_map(|taken| taken.figures.get(figure).copied()).collect()
    }

    pub(super) fn median(&self, figure: &str) -> Option<f64> {
        median(&self.values(figure))
    }

    /// Our median by theirs, and the range of the same within a round.
    pub(super) fn ratio(&self, theirs: &Self, figure: &str) -> Option<Spread> {
        let median = self.median(figure)? / theirs.median(figure)?;
        let of_round = |taken: &Taken| {
            let other = theirs.samples.iter().find(|other| other.round == taken.round)?;
            Some(taken.figures.get(figure)? / other.figures.get(figure)?)
        };
        let rounds: Vec<f64> = self.samples.iter().filter_map(of_round).collect();
        let range = Spread::of(&rounds)?;
        Some(Spread { median, ..range })
    }
}

impl RunEnding {
    pub(super) fn text(&self) -> String {
        match self {
            Self::NotFinishedInSeconds(seconds) => format!("not finished in {seconds} s"),
            Self::Failed(problem) => format!("failed: {}", problem.lines().next().unwrap_or_default()),
        }
    }
}

impl Spread {
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            median: median(values)?,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    pub(super) fn text(&self) -> String {
        let (median, least, most) = (number(self.median), number(self.least), number(self.most));
        if least == most { median } else { format!("{median} ({least}–{most})") }
    }
}

/// Of samples in any order.
pub(super) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[n / 2]),
        n => Some(f64::midpoint(sorted[n / 2 - 1], sorted[n / 2])),
    }
}

/// The least sample that this share of all does not exceed. Of samples in any order.
pub(super) fn percentile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

/// Three digits that matter, or thousands set apart.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        big if big >= 999.5 => grouped(value.round() as i64),
        big if big >= 99.95 => format!("{value:.0}"),
        some if some >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_percentile_is_one_of_the_samples() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (share, expected) in [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)] {
            assert_eq!(percentile(&samples, share), Some(expected), "{share}");
        }
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
    }

    #[test]
    fn numbers_are_as_long_as_they_are_worth() {
        for (value, expected) in [
            (1_234_567.4, "1,234,567"),
            (999.6, "1,000"),
            (123.4, "123"),
            (12.34, "12.3"),
            (9.999, "10.0"),
            (0.5, "0.50"),
            (-12_000.0, "-12,000"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn a_ratio_pairs_the_samples_of_a_round() {
        let line = |values: &[(usize, f64)]| FigureRow {
            samples: values
                .iter()
                .map(|(round, value)| Taken { round: *round, figures: Sample::from([("x", *value)]) })
                .collect(),
            ..FigureRow::named("line")
        };
        let ours = line(&[(0, 2.0), (1, 6.0), (2, 4.0)]);
        let theirs = line(&[(0, 2.0), (2, 1.0)]);
        let ratio = ours.ratio(&theirs, "x").expect("both have figures");
        assert_eq!(ratio, Spread { median: 4.0 / 1.5, least: 1.0, most: 4.0 });
        assert_eq!(ours.ratio(&line(&[]), "x"), None);
    }
}
