use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use serde::Deserialize;
use toml::Table;

use super::figures::FigureShape;
use super::shapes;
use super::targets::Target;
use terminal::BadArgument;

/// In the order in which they run.
const BUILT_IN: [(&str, &str); 9] = [
    ("1-burn-down", include_str!("../../../../config/bench/1-burn-down.toml")),
    ("2-at-once", include_str!("../../../../config/bench/2-at-once.toml")),
    ("3-steady", include_str!("../../../../config/bench/3-steady.toml")),
    ("4-slow-rail", include_str!("../../../../config/bench/4-slow-rail.toml")),
    ("5-dead-rail", include_str!("../../../../config/bench/5-dead-rail.toml")),
    ("6-hosts", include_str!("../../../../config/bench/6-hosts.toml")),
    ("7-hot-participant", include_str!("../../../../config/bench/7-hot-participant.toml")),
    ("8-backlog", include_str!("../../../../config/bench/8-backlog.toml")),
    ("9-pinned", include_str!("../../../../config/bench/9-pinned.toml")),
];

/// What is measured, and how often.
#[derive(Debug)]
pub(super) struct Scenario {
    /// The file's name, without the number that puts it in order.
    pub name: String,
    /// The remark at the top of the file, which says what it shows.
    pub about: String,
    pub common: Common,
    pub kind: ScenarioKind,
}

/// The keys that a file of any kind may have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Common {
    pub rounds: usize,
    /// For one run of one contestant.
    pub limit_seconds: u64,
    pub contestants: Vec<String>,
    pub targets: Vec<Target>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            rounds: 3,
            limit_seconds: 600,
            contestants: vec![super::names::OURS.to_owned()],
            targets: Vec::new(),
        }
    }
}

const COMMON_KEYS: [&str; 4] = ["rounds", "limit_seconds", "contestants", "targets"];

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum ScenarioKind {
    BurnDown(BurnDown),
    AtOnce(AtOnce),
    Steady(Steady),
    SlowRail(SlowRail),
    DeadRail(DeadRail),
    Hosts(Hosts),
    HotParticipant(HotParticipant),
    Backlog(Backlog),
}

/// Enqueue all, then process all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BurnDown {
    pub payments: usize,
    /// For contestants that would take too long.
    #[serde(default)]
    pub payments_of: BTreeMap<String, usize>,
    /// A transaction elsewhere stays open all the time, and nothing can be cleaned away.
    #[serde(default)]
    pub pinned: bool,
    #[serde(default = "one")]
    pub hosts: usize,
    /// Rows that stay behind: only the first payments count.
    #[serde(default)]
    pub backlog: usize,
}

fn one() -> usize {
    1
}

/// Enqueue and process at the same time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtOnce {
    pub payments: usize,
    #[serde(default)]
    pub payments_of: BTreeMap<String, usize>,
}

/// So many a second for some time, over a real HTTP call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Steady {
    /// Payments a second.
    pub rate: NonZeroU64,
    pub seconds: u64,
    /// At a time.
    pub calls: u32,
}

/// Calls that all wait at the rail.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SlowRail {
    pub calls: u32,
    pub delay_seconds: u64,
}

/// One rail of four never answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadRail {
    /// Of each rail.
    pub payments: usize,
}

/// The same work by more hosts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hosts {
    /// For each host.
    pub payments: usize,
    pub hosts: Vec<usize>,
}

/// One participant's queue, and a thousand that come later with one payment each.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HotParticipant {
    pub backlog: usize,
}

/// The first payments of a long queue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Backlog {
    pub payments: usize,
    pub sizes: Vec<usize>,
}

impl ScenarioKind {
    /// How its figures are shown.
    pub(super) fn shape(&self) -> &'static FigureShape {
        match self {
            Self::BurnDown(_) => &shapes::BURN_DOWN,
            Self::AtOnce(_) => &shapes::AT_ONCE,
            Self::Backlog(_) => &shapes::BACKLOG,
            Self::Steady(_) => &shapes::STEADY,
            Self::SlowRail(_) => &shapes::SLOW_RAIL,
            Self::DeadRail(_) => &shapes::DEAD_RAIL,
            Self::Hosts(_) => &shapes::HOSTS,
            Self::HotParticipant(_) => &shapes::HOT_PARTICIPANT,
        }
    }
}

pub(super) fn built_in() -> Result<Vec<Scenario>, BadArgument> {
    BUILT_IN.iter().map(|(name, text)| parse(name, &format!("{name}.toml"), text)).collect()
}

pub(super) fn read(file: &Path) -> Result<Scenario, BadArgument> {
    let shown = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|error| BadArgument(format!("{shown}: {error}")))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    parse(&stem, &shown, &text)
}

fn parse(stem: &str, file: &str, text: &str) -> Result<Scenario, BadArgument> {
    let wrong = |problem: &str| BadArgument(format!("{file}: {problem}"));
    let mut rest: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.message()))?;
    let mut common = Table::new();
    for key in COMMON_KEYS {
        common.extend(rest.remove_entry(key));
    }
    let common: Common = common.try_into().map_err(|error| wrong(error.message()))?;
    let kind: ScenarioKind = rest.try_into().map_err(|error| wrong(error.message()))?;
    if !(1..=100).contains(&common.rounds) {
        return Err(wrong(&format!("rounds is {}, expected 1 to 100", common.rounds)));
    }
    let figures: Vec<_> = kind.shape().columns.iter().map(|column| column.figure).collect();
    if let Some(target) = common.targets.iter().find(|target| !figures.contains(&target.figure.as_str())) {
        return Err(wrong(&format!(
            "targets.figure is {:?}, expected one of {}",
            target.figure,
            figures.join(", ")
        )));
    }
    let about: Vec<_> = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    Ok(Scenario {
        name: stem.trim_start_matches(|char: char| char.is_ascii_digit()).trim_start_matches('-').to_owned(),
        about: about.join(" "),
        common,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_sound() {
        let scenarios = built_in().expect("all of them can be read");
        for scenario in &scenarios {
            assert!(!scenario.about.is_empty(), "{} does not say what it shows", scenario.name);
        }
    }

    #[test]
    fn defaults_fill_what_a_file_leaves_out() {
        let scenario = parse("1-x", "x.toml", "# It shows\n# this.\nkind = \"burn-down\"\npayments = 7\n")
            .expect("it is sound");
        assert_eq!((scenario.name.as_str(), scenario.about.as_str()), ("x", "It shows this."));
        assert_eq!((scenario.common.rounds, scenario.common.limit_seconds), (3, 600));
        let ScenarioKind::BurnDown(asked) = scenario.kind else { panic!("another kind") };
        assert_eq!((asked.payments, asked.hosts, asked.pinned, asked.backlog), (7, 1, false, 0));
    }

    #[test]
    fn a_mistake_is_refused_with_file_and_key() {
        for (text, problem) in [
            ("kind = \"burn-down\"\npaymnts = 7", "paymnts"),
            ("kind = \"burn-up\"\npayments = 7", "burn-up"),
            ("payments = 7", "kind"),
            ("kind = \"hosts\"\npayments = 7", "hosts"),
            ("kind = \"burn-down\"\npayments = 7\nrounds = 0", "rounds is 0"),
            (
                "kind = \"burn-down\"\npayments = 7\n[[targets]]\nfigure = \"joy\"\nagainst = \"floor\"\nratio = { at_least = 1 }",
                "targets.figure is \"joy\"",
            ),
        ] {
            let BadArgument(said) = parse("x", "x.toml", text).expect_err(text);
            assert!(said.starts_with("x.toml: ") && said.contains(problem), "{said}");
        }
    }
}
