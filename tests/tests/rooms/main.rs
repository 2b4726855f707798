//! The folder tree is the architecture: which room may depend on which, and that no two modules of a room depend on each other.

mod modules;
mod pages;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml::Table;

/// Each room and the rooms that it may depend on. An arrow that is not here is an arrow back.
const ARROWS: [(&str, &[&str]); 12] = [
    ("payment", &[]),
    ("faults", &[]),
    ("observe", &[]),
    ("form", &["payment"]),
    ("terminal", &["payment"]),
    ("verdict", &["form", "payment"]),
    ("outbox", &["payment", "verdict"]),
    ("rail", &["faults", "form", "payment", "verdict"]),
    ("conformance", &["form", "payment", "rail", "verdict"]),
    ("relayer", &["faults", "form", "observe", "outbox", "payment", "rail", "verdict"]),
    ("dev", &["conformance", "form", "outbox", "payment", "rail", "rail-simulators", "terminal", "verdict"]),
    ("dev/simulators", &[]),
];

/// What a room without I/O does not have.
const IMPURE: [&str; 6] = ["hyper", "reqwest", "rustls", "sqlx", "tokio", "wasmtime"];
const PURE: [&str; 3] = ["payment", "form", "verdict"];
/// Nor this in its sources: the machine, and its clock.
const OUTSIDE: [&str; 7] =
    ["std::env", "std::fs", "std::net", "std::process", "std::thread", "Instant::now", "Utc::now"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn host() -> PathBuf {
    root().join("host")
}

fn dependencies(room: &str) -> BTreeSet<String> {
    let path = host().join(room).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let manifest: Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let table = |key: &str| manifest.get(key).and_then(|found| found.as_table().cloned()).unwrap_or_default();
    table("dependencies").into_iter().chain(table("dev-dependencies")).map(|(name, _)| name).collect()
}

/// Every folder below `host` that is a crate, but for the binary.
fn rooms() -> BTreeSet<String> {
    let crates = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.filter(|path| path.join("Cargo.toml").exists()).collect()
    };
    let host = host();
    let first = crates(&host);
    let second = first.iter().flat_map(|room| crates(room)).collect::<Vec<_>>();
    let name = |path: &PathBuf| path.strip_prefix(&host).expect("below host").display().to_string();
    first.iter().chain(&second).map(name).collect()
}

#[test]
fn rooms_depend_only_on_those_below_them() {
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    assert_eq!(rooms(), arrows.keys().map(ToString::to_string).collect(), "each room stands in the table");
    let known: BTreeSet<&str> = arrows.keys().copied().chain(["rail-simulators"]).collect();
    for (room, allowed) in arrows {
        let depends_on = dependencies(room).into_iter().filter(|name| known.contains(name.as_str()));
        for other in depends_on {
            assert!(
                allowed.contains(&other.as_str()),
                "{room} depends on {other}, expected only {allowed:?}"
            );
        }
    }
}

#[test]
fn rooms_that_decide_do_no_io() {
    for room in PURE {
        let found: Vec<_> =
            dependencies(room).into_iter().filter(|name| IMPURE.contains(&name.as_str())).collect();
        assert!(found.is_empty(), "{room} has {found:?}");
        assert_eq!(sources_with(room, &OUTSIDE), Vec::<String>::new(), "{room} reaches outside");
    }
}

#[test]
fn money_is_no_float_and_a_payment_knows_no_rail_by_name() {
    for room in ["payment", "form"] {
        assert_eq!(sources_with(room, &["f32", "f64"]), Vec::<String>::new(), "{room}");
    }
    assert_eq!(sources_with("payment", &["\"mtn", "\"airtel"]), Vec::<String>::new());
}

/// The files of a room in which one of these stands.
fn sources_with(room: &str, words: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    sizes::sources(&host().join(room).join("src"), &mut files);
    assert!(!files.is_empty(), "{room} has sources");
    let has_one = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        words.iter().any(|word| text.contains(word))
    };
    files.into_iter().filter(has_one).map(|path| path.display().to_string()).collect()
}

#[test]
fn no_two_modules_of_a_room_depend_on_each_other() {
    for room in rooms().iter().map(String::as_str).chain([""]) {
        let cycles = modules::cycles(&host().join(room).join("src"));
        assert!(cycles.is_empty(), "host/{room}: modules in a circle:\n{}", cycles.join("\n"));
    }
}

#[test]
fn a_filter_for_all_lines_of_the_host_names_each_room_that_writes_some() {
    let telemetry = fs::read_to_string(host().join("src/telemetry.rs")).expect("it is there");
    let line = telemetry.lines().find(|line| line.starts_with("const ROOMS")).expect("the rooms are named");
    for room in rooms().into_iter().filter(|room| dependencies(room).contains("tracing")) {
        assert!(line.contains(&format!("{room:?}")), "{room} is missing from {line}");
    }
}
