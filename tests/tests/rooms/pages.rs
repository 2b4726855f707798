//! The pages say what is true of the code, as far as a program can see.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::{ARROWS, root};

const README_LINES_MAX: usize = 90;
const GLOSSARY_WORDS_MAX: usize = 40;
const PAGES: [&str; 12] = [
    "README.md",
    "host/README.md",
    "host/CHANGELOG.md",
    "config/README.md",
    "migrations/README.md",
    "migrations/SQL_CALLERS.md",
    "plugins/README.md",
    "tests/README.md",
    "tests/bench/README.md",
    "wit/README.md",
    ".github/SECURITY.md",
    ".github/THREAT_MODEL.md",
];

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The targets of links that lead to files of the project, and the paths that stand in backticks.
fn paths(text: &str) -> BTreeSet<String> {
    let linked = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let linked = linked.filter(|target| !target.contains("://") && !target.starts_with('#'));
    linked.map(|target| target.split('#').next().unwrap_or_default().to_owned()).collect()
}

/// Paths in backticks that begin at a folder of the top level and name one file.
fn named(text: &str) -> BTreeSet<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let tops = ["host/", "tests/", "migrations/", "config/", "plugins/", "wit/"];
    let is_path = |word: &&str| {
        tops.iter().any(|top| word.starts_with(top))
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
            && !word
                .split('/')
                .any(|part| part.chars().any(|c| c.is_ascii_uppercase()) && !part.ends_with(".md"))
    };
    quoted.filter(is_path).map(str::to_owned).collect()
}

#[test]
fn links_and_paths_on_the_pages_lead_to_files() {
    let mut lost = Vec::new();
    for name in PAGES {
        let text = page(name);
        let folder = Path::new(name).parent().map(Path::to_owned).unwrap_or_default();
        let linked = paths(&text).into_iter().map(|target| folder.join(target));
        let wanted = linked.chain(named(&text).into_iter().map(PathBuf::from));
        lost.extend(
            wanted
                .filter(|path| !root().join(path).exists())
                .map(|path| format!("{name}: {}", path.display())),
        );
    }
    assert!(lost.is_empty(), "nothing is there:\n{}", lost.join("\n"));
}

#[test]
fn each_test_target_stands_on_the_page_for_qa() {
    let text = page("tests/README.md");
    let rows: BTreeSet<String> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| line.split('|').nth(1).unwrap_or_default().split(','))
        .map(|word| word.trim().trim_matches('`').to_owned())
        .collect();
    let entries = fs::read_dir(root().join("tests/tests")).expect("the targets");
    let targets = entries.map(|entry| entry.expect("an entry").path().with_extension(""));
    for target in targets {
        let name = target.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(rows.contains(&name), "{name} is not among {rows:?}");
    }
}

#[test]
fn each_room_stands_on_the_map_and_on_the_maintainers_page() {
    for name in ["README.md", "host/README.md"] {
        let text = page(name);
        for (room, _) in ARROWS {
            assert!(text.contains(&format!("host/{room}")), "{name} does not name host/{room}");
        }
    }
}

#[test]
fn the_first_page_is_short_and_has_the_two_commands() {
    let text = page("README.md");
    assert!(text.lines().count() <= README_LINES_MAX, "{} lines", text.lines().count());
    for command in ["cargo run --release -- demo", "bash tests/run"] {
        assert!(text.contains(command), "{command}");
    }
}

/// A crate begins with its modules, in the order in which one reads them.
#[test]
fn the_reading_guide_of_a_crate_names_each_of_its_modules_and_no_other() {
    let mut problems = Vec::new();
    for guide in [
        "form/src/lib.rs",
        "verdict/src/lib.rs",
        "rail/src/lib.rs",
        "rail/src/gate/mod.rs",
        "relayer/src/lib.rs",
    ] {
        let text = page(&format!("host/{guide}"));
        let (head, code): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("//!"));
        let named = head.iter().flat_map(|line| line.split('`').skip(1).step_by(2));
        // The linker of the pages is told that a module is meant, where a function has the same name.
        let named = named.map(|word| word.strip_prefix("mod@").unwrap_or(word));
        let named: BTreeSet<&str> = named
            .filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
            .collect();
        let modules = code.iter().filter_map(|line| line.split("mod ").nth(1)?.strip_suffix(';'));
        let modules: BTreeSet<&str> = modules.collect();
        problems.extend(modules.difference(&named).map(|name| format!("host/{guide} does not name {name}")));
        problems.extend(
            named.difference(&modules).map(|name| format!("host/{guide} names {name}, which is not there")),
        );
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_glossary_is_short() {
    let text = page("host/README.md");
    let glossary =
        text.split("## Glossary").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a glossary");
    let words = glossary.lines().filter(|line| line.starts_with("| ")).count() - 1;
    assert!((20..=GLOSSARY_WORDS_MAX).contains(&words), "{words} words");
}

#[test]
fn the_changelog_and_the_security_page_know_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        page("host/CHANGELOG.md").contains(&format!("## {version}")),
        "host/CHANGELOG.md has no entry {version}"
    );
    assert!(page(".github/SECURITY.md").contains(version), ".github/SECURITY.md does not name {version}");
}

#[test]
fn each_metric_that_a_room_makes_stands_on_the_operators_page() {
    let operator = page("config/README.md");
    let mut missing = Vec::new();
    for folder in ["host/relayer/src/metrics", "host/src/cli"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                continue;
            }
            // Without white space: a long call stands on several lines.
            let text: String = fs::read_to_string(path).expect("a source").split_whitespace().collect();
            for call in text.split("registry.").skip(1) {
                let made = [
                    "counter",
                    "counters",
                    "gauge",
                    "gauges",
                    "seconds",
                    "amounts",
                    "histogram",
                    "histograms",
                ];
                let Some((constructor, rest)) = call.split_once('(') else { continue };
                let name = rest.split('"').nth(1).unwrap_or_default();
                let stands =
                    [format!("`{name}`"), format!("`{name}{{")].iter().any(|named| operator.contains(named));
                if made.contains(&constructor) && !stands {
                    missing.push(name.to_owned());
                }
            }
        }
    }
    assert!(missing.is_empty(), "config/README.md does not name {missing:?}");
}

/// What SQL raises is told to those who call it, and is one named error in Rust.
#[test]
fn each_sqlstate_that_a_function_raises_is_explained_to_callers() {
    let callers = page("migrations/SQL_CALLERS.md");
    for room in fs::read_dir(root().join("migrations/functions")).expect("the functions") {
        for file in fs::read_dir(room.expect("a room").path()).expect("a room") {
            let text = fs::read_to_string(file.expect("a file").path()).expect("a text");
            for rest in text.split("errcode = '").skip(1) {
                let state = &rest[..5];
                assert!(callers.contains(state), "migrations/SQL_CALLERS.md does not explain {state}");
            }
        }
    }
}
