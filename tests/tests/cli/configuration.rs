//! What is wrong with a configuration is found before anything starts.

use std::fs;

use harness::{Db, Pg};

use crate::{ConfigFolder, MOCK, UNREACHABLE, text};

#[test]
fn a_wrong_configuration_names_file_key_and_expectation() {
    let place = ConfigFolder::new(UNREACHABLE);
    let cases = [
        (
            "[retention]\nattempt_days = 30\n",
            "config/bad.toml: line 2: unknown field `attempt_days`, expected one of",
        ),
        ("[retention]\nattempts_days = 3\n", "retention.attempts_days is 3, expected 7 or more"),
        (
            "[database.logins]\ningest = { file = \"/not/there\" }\n",
            "database.logins.ingest refers to /not/there",
        ),
        ("[relayer]\npoll_ms = 60000\n", "relayer.poll_ms is 60000, expected 250 to 1000"),
        (
            "[adapters]\ncalls_max = 63\n",
            "config/bad.toml: adapters.calls_max is 63, expected 64 or more: that is pace.concurrency of all rails",
        ),
    ];
    for (content, sentence) in cases {
        place.write("config/bad.toml", content);
        refused(&place, "config/bad.toml", sentence);
    }
    let mock = "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n";
    place.write("config/rails/slow.toml", &format!("{mock}pace = {{ lease_seconds = 20 }}\n"));
    let short = place.run(&["serve"]);
    assert_eq!(short.status.code(), Some(64));
    assert!(
        text(&short.stderr).contains("rails/slow.toml: pace.lease_seconds is 20, expected 38 to 110"),
        "{}",
        text(&short.stderr)
    );
    fs::remove_file(place.folder.path().join("config/rails/slow.toml")).expect("removed");
    place.write(
        "config/rails/bank.toml",
        "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = false\nhand_over_marks = false\n",
    );
    refused(&place, "config/development.toml", "rails/bank.toml: hand_over_marks is false, expected true");
}

/// A command that works with it ends with 64; `check` tells of it, whatever else it finds.
fn refused(place: &ConfigFolder, config: &str, sentence: &str) {
    let status = place.run(&["--config", config, "status"]);
    assert_eq!(status.status.code(), Some(64), "{sentence}: {}", text(&status.stderr));
    for output in [status, place.run(&["--config", config, "check"])] {
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains(sentence), "{sentence}: {}", text(&output.stderr));
    }
}

#[test]
fn a_rails_file_whose_name_no_payment_could_have_is_refused() {
    let place = ConfigFolder::new(UNREACHABLE);
    let names = [("x ", "begins or ends with white space"), ("x\ty", "contains a control character")];
    for (name, problem) in names {
        let path = place.write(&format!("config/rails/{name}.toml"), MOCK);
        refused(
            &place,
            "config/development.toml",
            &format!(".toml: the file's name is the rail's, which {problem}"),
        );
        fs::remove_file(path).expect("removed");
    }
}

#[test]
fn what_is_good_for_simulators_does_not_start_in_production() {
    let place = ConfigFolder::new("postgres://nobody@%2Fnowhere/none");
    fs::create_dir_all(place.folder.path().join("config/live")).expect("a folder");
    place.write("config/live.toml", "production = true\nrails = \"live\"\n");
    let file = dev::rail_files::rail_file("mtn").expect("it is there");
    let pinned = format!("component = \"mtn.wasm\"\nsha256 = \"{}\"", "0".repeat(64));
    for (file, sentence) in [
        (file.to_owned(), "live/mtn.toml: component is built in, expected a file and its sha256"),
        (
            file.replace("component = \"builtin:mtn\"", &pinned),
            "live/mtn.toml: network.reach is loopback, where simulators are",
        ),
    ] {
        place.write("config/live/mtn.toml", &file);
        refused(&place, "config/live.toml", sentence);
    }
}

#[test]
fn a_host_whose_component_is_missing_does_not_start() {
    let place = ConfigFolder::new(UNREACHABLE);
    let rail = "kind = \"mock\"\ncomponent = \"gone.wasm\"\nidempotent = true\nhand_over_marks = false\n";
    place.write("config/rails/gone.toml", &format!("{rail}sha256 = \"{}\"\n", "0".repeat(64)));
    let output = place.run(&["serve"]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("gone.wasm"), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_or_empty_database_exits_69_and_check_passes_after_migrate() {
    let nowhere = ConfigFolder::new(UNREACHABLE).run(&["status"]);
    assert_eq!(nowhere.status.code(), Some(69), "{}", text(&nowhere.stderr));

    let place = ConfigFolder::new(&Db::empty(Pg::V15).await.url());
    let empty = place.run(&["check"]);
    assert_eq!(empty.status.code(), Some(69));
    assert!(text(&empty.stderr).contains("run railhost migrate"), "{}", text(&empty.stderr));
    let first = place.json(&["migrate"]);
    assert_eq!(first["migrated"]["already_applied"], 0);
    assert_eq!(place.json(&["migrate"])["migrated"]["newly_applied"], 0);
    assert!(place.run(&["check"]).status.success());
}
