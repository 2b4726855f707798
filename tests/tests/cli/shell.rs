//! How the binary behaves in a shell.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use harness::{Db, Pg};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{ConfigFolder, PAYLOAD, UNREACHABLE, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_early_is_no_failure() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    place.enqueue("inv-1", PAYLOAD);
    for arguments in [
        &["status"][..],
        &["status", "--watch"],
        &["list"],
        &["list", "--csv"],
        &["completions", "bash"],
        &["man"],
        &["gaps", "--json"],
        &["migrate"],
        &["migrate", "--json"],
        &["check"],
    ] {
        let mut child = place
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("railhost runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_status_is_drawn_again_until_ctrl_c() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let mut child = place
        .command(&["status", "--watch", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("railhost runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for _ in 0..2 {
        let drawn = lines.next().expect("a line").expect("read");
        let drawn: Value = serde_json::from_str(&drawn).expect("JSON");
        assert!(drawn["rails"].is_array(), "{drawn}");
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("told");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn shells_and_man_are_told_about_every_command() {
    let place = ConfigFolder::new(UNREACHABLE);
    for shell in ["bash", "zsh", "fish"] {
        let output = place.run(&["completions", shell]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("enqueue"), "{shell}");
    }
    let page = place.run(&["man"]);
    assert!(text(&page.stdout).contains(".TH"), "{}", text(&page.stdout));
    assert!(place.run(&["man", "--folder", "pages"]).status.success());
    assert!(place.folder.path().join("pages/railhost-enqueue.1").exists());
    let help = text(&place.run(&["cancel", "--help"]).stdout);
    assert!(help.contains("Examples:\n  railhost cancel "), "{help}");
}

#[test]
fn nothing_that_is_said_contains_a_control_character() {
    let place = ConfigFolder::new(UNREACHABLE);
    let output = place.run(&["enqueue", "--file", "\u{1b}[2J\u{202e}gone.csv"]);
    let said = text(&output.stderr);
    assert!(said.contains("\u{fffd}[2J\u{fffd}gone.csv"), "{said:?}");
    assert!(!said.contains('\u{1b}') && !said.contains('\u{202e}'), "{said:?}");
}

#[test]
fn every_line_on_standard_error_is_json_where_that_is_asked_for() {
    let place = ConfigFolder::new(UNREACHABLE);
    let output = place.run(&["--log-format", "json", "enqueue", "--file", "gone.csv"]);
    assert_eq!(output.status.code(), Some(66));
    assert_json_lines(&text(&output.stderr));
}

fn assert_json_lines(said: &str) {
    assert!(!said.is_empty());
    for line in said.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert!(line["message"].is_string(), "{line}");
    }
}

#[test]
fn arguments_that_are_not_understood_are_one_line_of_json_where_that_is_asked_for() {
    let place = ConfigFolder::new(UNREACHABLE);
    let asked = place.run(&["--log-format", "json", "enqueue", "--instruction", "i"]);
    let by_environment = place.command(&["frobnicate"]).env("RAILHOST_LOG_FORMAT", "json").output();
    for (output, word) in
        [(asked, "--participant"), (by_environment.expect("railhost runs"), "unrecognized subcommand")]
    {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert_json_lines(&said);
        assert!(said.lines().count() == 1 && said.contains(word), "{said}");
    }
    let filter = place.command(&["--log-format=json", "status"]).env("RAILHOST_LOG", "x=loud").output();
    assert_json_lines(&text(&filter.expect("railhost runs").stderr));
}

#[tokio::test]
async fn a_host_that_waits_for_its_database_ends_when_it_is_told_to() {
    let place = ConfigFolder::new(UNREACHABLE);
    let mut command = place.command(&["serve"]);
    let mut host = command.stderr(Stdio::piped()).spawn().expect("railhost runs");
    let mut said = BufReader::new(host.stderr.take().expect("it speaks")).lines();
    while !said.next().expect("it goes on").expect("a line").contains("waiting for it") {}
    kill_process(Pid::from_child(&host), Signal::TERM).expect("sent");
    assert_eq!(host.wait().expect("reaped").code(), Some(0));
}

#[tokio::test]
async fn nothing_is_proved_of_a_participant_that_nobody_knows() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    place.enqueue("one", PAYLOAD);
    assert_eq!(place.run(&["gaps", "--participant", "acme"]).status.code(), Some(0));
    assert_eq!(place.run(&["gaps", "--participant", "acmee"]).status.code(), Some(66));
}
