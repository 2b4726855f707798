use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::bed::{proc_line, say};

/// Where and on what the figures were measured.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    quick: bool,
    processor: String,
    cores: usize,
    memory: String,
    load_average_before: String,
    load_average_after: String,
    version: String,
    settings: Vec<(String, String)>,
    taken_s: f64,
}

/// What a figure has to reach.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// One row of the table: samples of ours and, unless the figure stands alone, of what it is held against. The samples of
/// both sides were taken in turns, so the n-th of each make a pair.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    /// The row of the table, and a letter where one line there has several figures.
    pub(crate) number: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: Vec<f64>,
    pub(crate) against: Vec<f64>,
    pub(crate) target: Target,
    pub(crate) note: String,
}

#[derive(Debug, Serialize)]
struct Verdict<'a> {
    #[serde(flatten)]
    figure: &'a Figure,
    value: f64,
    met: bool,
}

#[derive(Debug)]
pub(crate) struct Report {
    facts: Facts,
    figures: Vec<Figure>,
    folder: PathBuf,
    started: Instant,
}

impl Facts {
    pub(crate) fn new(version: String, settings: Vec<(String, String)>, quick: bool) -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            quick,
            processor: proc_line("cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: proc_line("meminfo", "MemTotal").unwrap_or_else(unknown),
            load_average_before: proc_line("loadavg", "").unwrap_or_else(unknown),
            load_average_after: String::new(),
            version,
            settings,
            taken_s: 0.0,
        }
    }
}

impl Figure {
    /// The median of the pairs' ratios, or of the samples where there is nothing to hold them against.
    pub(crate) fn value(&self) -> f64 {
        median(&self.values())
    }

    pub(crate) fn met(&self) -> bool {
        match self.target {
            Target::AtLeast(least) => self.value() >= least,
            Target::AtMost(most) => self.value() <= most,
        }
    }

    fn values(&self) -> Vec<f64> {
        if self.against.is_empty() {
            return self.ours.clone();
        }
        self.ours.iter().zip(&self.against).map(|(ours, against)| ours / against).collect()
    }

    fn row(&self) -> String {
        let target = match self.target {
            Target::AtLeast(least) => format!("≥ {}", number(least)),
            Target::AtMost(most) => format!("≤ {}", number(most)),
        };
        let (ratio, suffix) =
            if self.against.is_empty() { ("–".to_owned(), "") } else { (spread(&self.values()), " ×") };
        format!(
            "| {} | {} | {} {} | {} | {ratio}{suffix} | {target} | {} |",
            self.number,
            if self.note.is_empty() { self.what.clone() } else { format!("{} ({})", self.what, self.note) },
            spread(&self.ours),
            self.unit,
            if self.against.is_empty() {
                "–".to_owned()
            } else {
                format!("{} {}", spread(&self.against), self.unit)
            },
            if self.met() { "met" } else { "**missed**" },
        )
    }
}

impl Report {
    pub(crate) fn new(facts: Facts, folder: &Path) -> Self {
        Self { facts, figures: Vec::new(), folder: folder.to_owned(), started: Instant::now() }
    }

    /// Takes figures in and writes down all there are, so that a run that is cut short leaves what it had.
    pub(crate) fn add(&mut self, figures: impl IntoIterator<Item = Figure>) -> Result<()> {
        for figure in figures {
            say(&figure.row());
            self.figures.push(figure);
        }
        self.figures.sort_by_key(|figure| {
            let digits = figure.number.trim_end_matches(char::is_alphabetic);
            (digits.parse::<u32>().unwrap_or(u32::MAX), figure.number)
        });
        self.facts.taken_s = self.started.elapsed().as_secs_f64();
        self.facts.load_average_after = proc_line("loadavg", "").unwrap_or_default();
        self.write()
    }

    pub(crate) fn heading(&self) -> String {
        let facts = &self.facts;
        let settings: Vec<_> =
            facts.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        format!(
            "{}{}, {} cores, {} of memory; load average at the start {}\n{}\n{}",
            if facts.quick { "QUICK: a smoke test, its figures mean nothing\n" } else { "" },
            facts.processor,
            facts.cores,
            facts.memory,
            facts.load_average_before,
            facts.version,
            settings.join(", "),
        )
    }

    pub(crate) fn table(&self) -> String {
        let mut table = format!("{}\n\n", self.heading());
        table.push_str("| # | what | ours: median (min–max) | against: median (min–max) | ratio: median of pairs (min–max) | target | |\n");
        table.push_str("|---|---|---|---|---|---|---|\n");
        for figure in &self.figures {
            table.push_str(&figure.row());
            table.push('\n');
        }
        let (taken_s, load) = (self.facts.taken_s, &self.facts.load_average_after);
        write!(table, "\nTook {taken_s:.0} s; load average at the end {load}.").ok();
        table
    }

    fn write(&self) -> Result<()> {
        let figures: Vec<_> = self
            .figures
            .iter()
            .map(|figure| Verdict { figure, value: figure.value(), met: figure.met() })
            .collect();
        let results = serde_json::json!({ "facts": self.facts, "figures": figures });
        let write = |name: &str, text: String| {
            let path = self.folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
        };
        write("results.json", serde_json::to_string_pretty(&results)?)?;
        write("table.md", self.table())
    }
}

pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

fn spread(samples: &[f64]) -> String {
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match samples.len() {
        1 => number(median(samples)),
        _ => format!("{} ({}–{})", number(median(samples)), number(least), number(most)),
    }
}

/// Three digits that matter.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        big if big >= 100.0 => format!("{value:.0}"),
        some if some >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
