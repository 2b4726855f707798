//! Benchmarks and simulators, as far as they are refused or reported.

use std::fs;

use serde_json::Value;

use crate::{ConfigFolder, UNREACHABLE, text};

#[test]
fn a_simulator_refuses_what_it_cannot_play() {
    let place = ConfigFolder::new(UNREACHABLE);
    place.write("bad.txt", "amount 1.00: pay gladly\n");
    for (arguments, sentence) in [
        (&["simulate", "nokia"][..], "expected mtn, airtel or bank"),
        (&["simulate", "mtn", "--listen", "0.0.0.0:0"], "expected an address of loopback"),
        (&["simulate", "mtn", "--script", "bad.txt"], "line 1: \"gladly\" is not a reply"),
        (&["simulate", "mtn", "--script", "gone.txt"], "gone.txt"),
    ] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(sentence), "{arguments:?}: {}", text(&output.stderr));
    }
}

const SCENARIO: &str =
    "kind = \"burn-down\"\npayments = 4000\ncontestants = [\"railhost\", \"floor\", \"good\", \"bad\"]\n";

/// Speaks as a rival's driver has to, and does nothing.
const DRIVER: &str = r#"case "$1" in
    prepare) echo '{"event":"prepared","version":"7.1"}' ;;
    enqueue) echo '{"event":"ready"}'; read -r go; echo '{"event":"done"}' ;;
    work) echo '{"event":"ready"}'; read -r go; WORK ;;
esac
"#;

#[test]
fn a_benchmark_measures_us_the_limit_and_rivals_and_names_the_one_that_fails() {
    let place = ConfigFolder::new(UNREACHABLE);
    for (name, work) in [("good", "echo '{\"event\":\"done\"}'"), ("bad", "echo 'out of luck' >&2; exit 9")] {
        fs::create_dir_all(place.folder.path().join("rivals").join(name)).expect("a folder");
        let rival = format!(
            "name = \"{name}\"\nlanguage = \"sh\"\ncommand = [\"sh\", \"driver.sh\"]\nsettings = \"none\"\nlacks = [\"any work\"]\n"
        );
        place.write(&format!("rivals/{name}/rival.toml"), &rival);
        place.write(&format!("rivals/{name}/driver.sh"), &DRIVER.replace("WORK", work));
    }
    place.write("small.toml", SCENARIO);
    let output = place.run(&["bench", "small.toml", "--quick", "--rivals", "rivals", "--out", "out"]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in
        ["| **railhost** |", "| floor |", "| good |", "any work", "good 7.1 (sh)", "CPU in PostgreSQL"]
    {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    assert!(said.contains("bad") && said.contains("failed"), "{said}");
    let results = fs::read_to_string(place.folder.path().join("out/results.json")).expect("results");
    serde_json::from_str::<Value>(&results).expect("JSON");
    let plot = fs::read_to_string(place.folder.path().join("out/small.svg")).expect("a plot");
    assert!(plot.starts_with("<svg") && plot.contains("railhost"), "{plot}");
}

/// A host of ours that does not start, or a scenario that does not fit it any more, is seen nowhere else.
#[test]
fn every_scenario_of_the_benchmark_runs_with_us_in_it() {
    let place = ConfigFolder::new(UNREACHABLE);
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/bench");
    let files: Vec<String> = fs::read_dir(scenarios)
        .expect("the scenarios are there")
        .map(|entry| entry.expect("an entry").path().display().to_string())
        .collect();
    assert!(files.len() > 5, "{files:?}");
    let mut arguments = vec!["bench", "--quick", "--only", "railhost", "--out", "out"];
    arguments.extend(files.iter().map(String::as_str));
    let output = place.run(&arguments);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("failed"), "{said}");
}

#[test]
fn a_benchmark_that_cannot_be_is_refused_before_anything_starts() {
    let place = ConfigFolder::new(UNREACHABLE);
    for (scenario, more, told) in [
        ("kind = \"burn-down\"\npayments = 10\nround = 3\n", &[][..], "round"),
        ("kind = \"walk-down\"\n", &[], "walk-down"),
        ("kind = \"burn-down\"\n", &[], "payments"),
        (SCENARIO, &["--only", "nobody"], "nobody"),
        (SCENARIO, &["--rivals", "nowhere"], "nowhere"),
    ] {
        place.write("small.toml", scenario);
        let output = place.run(&[&["bench", "small.toml", "--out", "out"], more].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{told}: {said}");
        assert!(said.contains(told), "{told}: {said}");
        assert!(!place.folder.path().join("out").exists(), "{told}");
    }
}
