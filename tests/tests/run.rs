//! The script that passes every check, with others in the place of the tools that it calls: whatever becomes of a run, its last
//! lines say what it did not look at.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const RUN: &str = include_str!("../run");
const DENY_KNOWN: &str = "if [ \"$1\" = --version ]; then echo cargo-deny 0.20.2; fi\n";

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("#!/bin/sh\n{text}")).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("changed");
}

/// Runs it with these for cargo and cargo-deny. Answers whether it passed, and its last lines.
fn run(cargo: &str, deny: &str) -> (bool, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("plugins")).expect("a folder");
    fs::create_dir_all(at("tests")).expect("a folder");
    fs::write(at("tests/run"), RUN).expect("written");
    write_program(&at("bin/cargo"), cargo);
    write_program(&at("target/debug/railhost"), "");
    write_program(&at("bin/rustc"), "echo host: here\n");
    write_program(&at("target/tools/bin/cargo-deny"), &format!("{DENY_KNOWN}{deny}"));
    let path = env::var_os("PATH").expect("a path");
    let path = env::join_paths([at("bin")].into_iter().chain(env::split_paths(&path))).expect("a path");
    let done = Command::new("bash").arg(at("tests/run")).env("PATH", path).output().expect("bash runs");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    (done.status.success(), said.lines().rev().take(3).map(str::to_owned).collect())
}

#[test]
fn the_last_lines_of_a_run_say_what_it_did_not_look_at_and_why() {
    let (passed, last) = run("", "");
    assert!(passed && last[0].starts_with("== all passed"), "{last:?}");

    let unreachable = "case \"$*\" in *fetch*) echo trying >&2; echo no route to the database >&2; echo >&2; exit 1;; esac\n";
    let because = "ADVISORIES NOT CHECKED, THEIR DATABASE CANNOT BE FETCHED: no route to the database";
    let (passed, last) = run("", unreachable);
    assert!(passed && last[0] == because, "{last:?}");

    // However early it ends.
    let (passed, last) = run("exit 1\n", unreachable);
    assert!(!passed, "{last:?}");
    assert_eq!(last[0], "ADVISORIES NOT CHECKED: THE RUN ENDED BEFORE THEIR TURN");
    assert!(last[1].starts_with("== FAILED"), "{last:?}");

    let skips = "case \"$*\" in *--no-fail-fast*) echo 'NOT RUN: XSD: no validator';; esac\n";
    let (passed, last) = run(skips, unreachable);
    assert!(!passed, "what was not run has not passed: {last:?}");
    assert_eq!(last[..2], [because, "NOT RUN: XSD: NO VALIDATOR"]);
    assert!(last[2].starts_with("== FAILED"), "{last:?}");

    // Found, and so looked for.
    let (passed, last) = run("", "case \"$*\" in *advisories*) exit 1;; esac\n");
    assert!(!passed && last[0].starts_with("== FAILED"), "{last:?}");
}
