//! Which commit is built, and whether what only development needs is in it.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-env-changed=RAILHOST_COMMIT");
    // A release from a source archive names its commit itself.
    let named = env::var("RAILHOST_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = named.or_else(from_git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=RAILHOST_COMMIT={commit}");
    let kind = if env::var_os("CARGO_FEATURE_DEV").is_some() { "with development" } else { "shipped" };
    println!("cargo::rustc-env=RAILHOST_KIND={kind}");
}

fn from_git() -> Option<String> {
    // The sources may lie in a repository that is not theirs.
    let workspace = fs::canonicalize("..").ok()?;
    (Path::new(&git(&["rev-parse", "--show-toplevel"])?) == workspace).then_some(())?;
    for changes in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", changes])?;
        // Cargo builds anew each time where a file that it is to look at is not there.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?.trim().to_owned();
    (said.status.success() && !text.is_empty()).then_some(text)
}
