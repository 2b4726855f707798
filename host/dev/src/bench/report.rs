use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;

use super::figures::{Column, FigureRow, RunEnding, Spread};
use super::machine::Machine;
use super::plot;
use super::scenario::Scenario;
use super::targets::TargetResult;
use terminal::BadArgument;

/// A scenario, and all that was measured in it.
#[derive(Debug)]
pub(super) struct Measured {
    pub scenario: Scenario,
    pub lines: Vec<FigureRow>,
    judged: Vec<TargetResult>,
}

/// Tables, plots and every sample, in a folder.
#[derive(Debug)]
pub(super) struct BenchReport {
    machine: Machine,
    measured: Vec<Measured>,
    folder: PathBuf,
}

impl Measured {
    pub(super) fn new(scenario: Scenario, lines: Vec<FigureRow>) -> Self {
        let judged = scenario.common.targets.iter().map(|target| target.judge(&lines)).collect();
        Self { scenario, lines, judged }
    }

    fn text(&self) -> String {
        let (shape, name) = (self.scenario.kind.shape(), &self.scenario.name);
        let mut text = format!("\n## {name}\n\n{}\n\n", self.scenario.about);
        text += &self.table(shape.columns, shape.relative, true);
        if !self.judged.is_empty() {
            text += &format!("\n{}", targets(&self.judged));
        }
        if !shape.costs.is_empty() {
            text += &format!("\nCost per payment:\n\n{}", self.table(shape.costs, false, false));
        }
        text
    }

    fn table(&self, columns: &[Column], relative: bool, with_lacks: bool) -> String {
        let with_lacks = with_lacks && self.lines.iter().any(|line| !line.lacks.is_empty());
        let mut headings = vec!["median (min–max)"];
        headings.extend(columns.iter().map(|column| column.heading));
        headings.extend(relative.then_some("× the first"));
        headings.extend(with_lacks.then_some("does not do"));
        let mut text = row(&headings) + &row(&vec!["---"; headings.len()]);
        for line in &self.lines {
            let mut cells = vec![who(line)];
            cells.extend(columns.iter().map(|column| cell(line, column.figure)));
            if relative {
                let figure = self.scenario.kind.shape().plotted.figure;
                let ratio = self.lines.first().and_then(|first| line.ratio(first, figure));
                cells.push(shown(ratio.as_ref()));
            }
            if with_lacks {
                cells.push(if line.lacks.is_empty() { "–".to_owned() } else { line.lacks.join(", ") });
            }
            text += &row(&cells);
        }
        text
    }

    fn plot(&self) -> String {
        let plotted = &self.scenario.kind.shape().plotted;
        let bars = self.lines.iter().map(|line| plot::Bar {
            name: line.name.clone(),
            spread: Spread::of(&line.values(plotted.figure)),
            highlighted: line.is_ours(),
            note: line.ending.as_ref().map(RunEnding::text),
        });
        plot::bars(&format!("{}: {}", self.scenario.name, plotted.heading), &bars.collect::<Vec<_>>())
    }
}

impl BenchReport {
    pub(super) fn new(machine: Machine, folder: &Path) -> Self {
        Self { machine, measured: Vec::new(), folder: folder.to_owned() }
    }

    /// Takes a scenario in and writes down all there are, so that a run that is cut short leaves what it had.
    pub(super) fn add(&mut self, measured: Measured) -> anyhow::Result<()> {
        self.write(&format!("{}.svg", measured.scenario.name), &measured.plot())?;
        self.measured.push(measured);
        self.write("table.md", &self.text())?;
        let scenarios: Vec<_> = self
            .measured
            .iter()
            .map(|measured| {
                json!({
                    "name": measured.scenario.name,
                    "about": measured.scenario.about,
                    "lines": measured.lines,
                    "targets": measured.judged,
                })
            })
            .collect();
        let results = json!({ "machine": self.machine, "scenarios": scenarios });
        self.write("results.json", &serde_json::to_string_pretty(&results)?)
    }

    pub(super) fn text(&self) -> String {
        let scenarios = self.measured.iter().map(Measured::text);
        format!("# Benchmarks\n\n{}{}", self.machine.text(), scenarios.collect::<String>())
    }

    /// Puts the tables between the two marks of a page, and the plots into the folder `results` beside it.
    pub(super) fn put_into(&self, page: &Path) -> anyhow::Result<()> {
        let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let written = between_marks(&text, &self.text()).ok_or_else(|| {
            BadArgument::new(format!(
                "{} has no place for the tables, expected a line {BEGIN:?} and after it a line {END:?}",
                page.display()
            ))
        })?;
        let plots = page.with_file_name("results");
        fs::create_dir_all(&plots).with_context(|| format!("cannot make {}", plots.display()))?;
        for measured in &self.measured {
            let name = format!("{}.svg", measured.scenario.name);
            fs::copy(self.folder.join(&name), plots.join(&name))
                .with_context(|| format!("cannot copy {name}"))?;
        }
        fs::write(page, written).with_context(|| format!("cannot write {}", page.display()))
    }

    /// Somebody broke; to be slow is no failure.
    pub(super) fn has_failures(&self) -> bool {
        let mut lines = self.measured.iter().flat_map(|measured| &measured.lines);
        lines.any(|line| matches!(line.ending, Some(RunEnding::Failed(_))))
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Between these two lines of a page a benchmark writes.
const BEGIN: &str = "<!-- railhost bench: begin -->";
const END: &str = "<!-- railhost bench: end -->";

/// The page with these tables in it, a level below its own headings. None where it does not have both marks.
fn between_marks(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let lines = tables.lines().filter(|line| !line.starts_with("# "));
    let lowered: String = lines
        .map(|line| if line.starts_with("## ") { format!("#{line}\n") } else { format!("{line}\n") })
        .collect();
    Some(format!("{before}{BEGIN}\n{}\n{END}{after}", lowered.trim_end()))
}

fn targets(judged: &[TargetResult]) -> String {
    let headings = ["ours against", "figure", "ours", "theirs", "ratio (range over rounds)", "target", ""];
    let mut text = row(&headings) + &row(&["---"; 7]);
    for judged in judged {
        let met = match judged.met {
            Some(true) => "**met**",
            Some(false) => "missed",
            None => "not measured",
        };
        text += &row(&[
            judged.against.clone(),
            judged.figure.clone(),
            shown(judged.ours.as_ref()),
            shown(judged.theirs.as_ref()),
            shown(judged.ratio.as_ref()),
            judged.wanted.clone(),
            met.to_owned(),
        ]);
    }
    text
}

fn who(line: &FigureRow) -> String {
    let name = if line.is_ours() { format!("**{}**", line.name) } else { line.name.clone() };
    match &line.ending {
        Some(ending) => format!("{name} ({})", ending.text()),
        None => name,
    }
}

fn cell(line: &FigureRow, figure: &str) -> String {
    shown(Spread::of(&line.values(figure)).as_ref())
}

fn shown(spread: Option<&Spread>) -> String {
    spread.map_or_else(|| "–".to_owned(), Spread::text)
}

/// A line of a table in Markdown, whatever stands in its cells.
fn row<C: AsRef<str>>(cells: &[C]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| cell.as_ref().replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::{Sample, Taken};
    use crate::bench::scenario;

    #[test]
    fn tables_take_the_place_between_the_marks_of_a_page_and_no_other() {
        let page = format!("# Page\n\n{BEGIN}\nold\n{END}\n\n## Next\n");
        let written = between_marks(&page, "# Benchmarks\n\nA machine.\n\n## 1-burn-down\n\n| a |\n")
            .expect("it has marks");
        let wanted =
            format!("# Page\n\n{BEGIN}\n\nA machine.\n\n### 1-burn-down\n\n| a |\n{END}\n\n## Next\n");
        assert_eq!(written, wanted);
        assert_eq!(
            between_marks(&written, "# Benchmarks\n\nA machine.\n\n## 1-burn-down\n\n| a |\n"),
            Some(wanted)
        );
        assert_eq!(between_marks("# Page\n", "x"), None);
    }

    #[test]
    fn the_table_shows_who_did_what_and_who_did_not_finish() {
        let scenario = scenario::built_in().expect("all are sound").remove(0);
        let taken = |round, value| Taken { round, figures: Sample::from([("process_per_s", value)]) };
        let ours =
            FigureRow { samples: vec![taken(0, 2600.0), taken(1, 3000.0)], ..FigureRow::named("railhost") };
        let theirs = FigureRow {
            samples: vec![taken(0, 2000.0), taken(1, 2000.0)],
            lacks: vec!["fencing".to_owned()],
            ..FigureRow::named("graphile-worker")
        };
        let slow =
            FigureRow { ending: Some(RunEnding::NotFinishedInSeconds(9)), ..FigureRow::named("pg-boss") };
        let text = Measured::new(scenario, vec![ours, theirs, slow]).text();
        for line in [
            "| **railhost** | 2,800 (2,600–3,000) | – | – | – |",
            "| graphile-worker | 2,000 | – | – | fencing |",
            "| pg-boss (not finished in 9 s) | – | – | – | – |",
            "| graphile-worker | process_per_s | 2,800 (2,600–3,000) | 2,000 | 1.40 (1.30–1.50) | ≥ 1.30 | **met** |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing from\n{text}");
        }
        assert!(text.contains("| not measured |"), "{text}");
    }
}
