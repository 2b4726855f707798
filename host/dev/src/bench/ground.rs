use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::bed::BenchServer;
use super::contestant::Contestant;
use super::driver;
use super::figures::FigureRow;
use super::names::{FLOOR, FUNCTIONS, OURS};
use super::rival::Rival;
use super::scenario::Scenario;
use terminal::print::say;

/// A smoke test does so much less.
const QUICK_DIVISOR: usize = 20;

/// Where it is measured, and who is there.
#[derive(Debug)]
pub(super) struct BenchSetup {
    pub bed: BenchServer,
    /// Those that could be prepared.
    rivals: Vec<Rival>,
    /// The contestants that were asked for, by name.
    wanted: Vec<String>,
    quick: bool,
    rounds: Option<u32>,
}

impl BenchSetup {
    /// Tries every rival that is wanted, and leaves out those that do not run.
    pub(super) async fn open(
        bed: BenchServer,
        rivals: Vec<Rival>,
        wanted: Vec<String>,
        quick: bool,
        rounds: Option<u32>,
    ) -> anyhow::Result<Self> {
        allow_many_files();
        if cfg!(debug_assertions) {
            say("This is a build for development: its figures mean nothing.");
        }
        let mut ready = Vec::new();
        for rival in rivals.into_iter().filter(|rival| wanted.contains(&rival.name)) {
            match driver::prepare(&rival, &bed, &bed.fresh().await?).await {
                Ok(version) => ready.push(Rival { version, ..rival }),
                Err(error) => say(&format!("{} is left out: {error:#}", rival.name)),
            }
            bed.drop_databases().await?;
        }
        Ok(Self { bed, rivals: ready, wanted, quick, rounds })
    }

    pub(super) fn rivals(&self) -> &[Rival] {
        &self.rivals
    }

    /// The contestants of a scenario that are at hand and wanted; who is not at hand is named.
    pub(super) fn contestants(&self, scenario: &Scenario) -> Vec<(FigureRow, Contestant)> {
        let mut found = Vec::new();
        for name in &scenario.common.contestants {
            let contestant = match name.as_str() {
                OURS => Some(Contestant::Ours),
                FLOOR => Some(Contestant::Floor),
                FUNCTIONS => Some(Contestant::Functions),
                name => self.rivals.iter().find(|rival| rival.name == name).cloned().map(Contestant::Rival),
            };
            match contestant {
                Some(contestant) if self.wanted.contains(name) => found.push((contestant.line(), contestant)),
                Some(_) => {}
                None => say(&format!("  {name} is not at hand and left out")),
            }
        }
        found
    }

    /// Circumstances under which only we are measured; none where we are not wanted.
    pub(super) fn ours<T>(
        &self,
        circumstances: impl IntoIterator<Item = (String, T)>,
    ) -> Vec<(FigureRow, T)> {
        let wanted = self.wanted.iter().any(|name| name == OURS);
        circumstances
            .into_iter()
            .filter(|_| wanted)
            .map(|(name, what)| (FigureRow::named(name), what))
            .collect()
    }

    /// A number of payments, calls or rows, as large as this run is.
    pub(super) fn scaled(&self, count: usize) -> usize {
        if self.quick { count.div_ceil(QUICK_DIVISOR) } else { count }
    }

    /// A time that cannot become as short as counts become small.
    pub(super) fn scaled_seconds(&self, seconds: u64) -> u64 {
        if self.quick { seconds.min(8) } else { seconds }
    }

    pub(super) fn rounds(&self, scenario: &Scenario) -> usize {
        match (self.rounds, self.quick) {
            (Some(rounds), _) => rounds as usize,
            (None, true) => 1,
            (None, false) => scenario.common.rounds,
        }
    }
}

/// Thousands of calls are thousands of open files, at both of their ends; children inherit the limit.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it may not be raised, a scenario that needs more says so.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok();
}
