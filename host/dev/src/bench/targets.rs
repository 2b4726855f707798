use serde::{Deserialize, Serialize};

use super::figures::{FigureRow, Spread, number};
use super::names::OURS;

/// What our figure is to be of theirs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    pub figure: String,
    pub against: Against,
    pub ratio: Wanted,
    /// Reached by choice, not by promise.
    pub aim: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a contestant's name or { fastest = \"LANGUAGE\" }")]
pub(super) enum Against {
    Name(String),
    /// The highest median among rivals in a language.
    Fastest {
        fastest: String,
    },
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wanted {
    AtLeast(f64),
    Below(f64),
}

/// A target, and what was measured. The ratio is that of the medians, its range that of the rounds.
#[derive(Debug, Serialize)]
pub(super) struct TargetResult {
    pub figure: String,
    pub against: String,
    pub wanted: String,
    pub ours: Option<Spread>,
    pub theirs: Option<Spread>,
    pub ratio: Option<Spread>,
    /// Unknown where one of the two has no figure.
    pub met: Option<bool>,
}

impl Target {
    pub(super) fn judge(&self, lines: &[FigureRow]) -> TargetResult {
        let ours = lines.iter().find(|line| line.name == OURS);
        let theirs = self.against.find(lines, &self.figure);
        let spread = |line: Option<&FigureRow>| line.and_then(|line| Spread::of(&line.values(&self.figure)));
        let ratio = ours.zip(theirs).and_then(|(ours, theirs)| ours.ratio(theirs, &self.figure));
        TargetResult {
            figure: self.figure.clone(),
            against: match (&self.against, theirs) {
                (Against::Name(name), _) => name.clone(),
                (Against::Fastest { fastest }, Some(line)) => {
                    format!("{}, the fastest in {fastest}", line.name)
                }
                (Against::Fastest { fastest }, None) => format!("the fastest in {fastest}"),
            },
            wanted: match self.aim {
                Some(aim) => format!("{} (aim {})", self.ratio.text(), number(aim)),
                None => self.ratio.text(),
            },
            ours: spread(ours),
            theirs: spread(theirs),
            met: ratio.map(|ratio| self.ratio.holds(ratio.median)),
            ratio,
        }
    }
}

impl Against {
    fn find<'l>(&self, lines: &'l [FigureRow], figure: &str) -> Option<&'l FigureRow> {
        match self {
            Self::Name(name) => lines.iter().find(|line| line.name == *name),
            Self::Fastest { fastest } => lines
                .iter()
                .filter(|line| line.language.eq_ignore_ascii_case(fastest))
                .filter_map(|line| Some((line, line.median(figure)?)))
                .max_by(|left, right| left.1.total_cmp(&right.1))
                .map(|(line, _)| line),
        }
    }
}

impl Wanted {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::Below(most) => ratio < most,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {}", number(least)),
            Self::Below(most) => format!("< {}", number(most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::{Sample, Taken};

    fn line(name: &str, language: &str, values: &[f64]) -> FigureRow {
        let taken = |(round, value): (usize, &f64)| Taken { round, figures: Sample::from([("x", *value)]) };
        FigureRow {
            language: language.to_owned(),
            samples: values.iter().enumerate().map(taken).collect(),
            ..FigureRow::named(name)
        }
    }

    fn target(against: Against, ratio: Wanted) -> Target {
        Target { figure: "x".to_owned(), against, ratio, aim: None }
    }

    #[test]
    fn the_fastest_of_a_language_is_the_one_to_beat() {
        let lines = [
            line(OURS, "", &[26.0, 30.0, 28.0]),
            line("slow", "rust", &[5.0, 5.0, 5.0]),
            line("quick", "rust", &[20.0, 20.0, 20.0]),
            line("other", "node", &[90.0, 90.0, 90.0]),
        ];
        let judged =
            target(Against::Fastest { fastest: "rust".to_owned() }, Wanted::AtLeast(1.3)).judge(&lines);
        assert_eq!(judged.against, "quick, the fastest in rust");
        let ratio = judged.ratio.expect("both have figures");
        assert_eq!((ratio.median, ratio.least, ratio.most), (1.4, 1.3, 1.5));
        assert_eq!(judged.met, Some(true));
    }

    #[test]
    fn whoever_has_no_figure_is_not_judged() {
        let lines = [line(OURS, "", &[1.0]), line("absent", "node", &[])];
        for against in ["absent", "unheard-of"] {
            let judged = target(Against::Name(against.to_owned()), Wanted::Below(1.0)).judge(&lines);
            assert_eq!(judged.met, None);
        }
    }
}
