//! Which commit is built, and whether what only development needs is in it.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=RAILHOST_COMMIT");
    println!("cargo::rerun-if-changed=../.git/HEAD");
    println!("cargo::rerun-if-changed=../.git/logs/HEAD");
    // A release from a source archive names its commit itself.
    let commit = env::var("RAILHOST_COMMIT").ok().or_else(from_git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=RAILHOST_COMMIT={commit}");
    let kind = if env::var_os("CARGO_FEATURE_DEV").is_some() { "with development" } else { "shipped" };
    println!("cargo::rustc-env=RAILHOST_KIND={kind}");
}

fn from_git() -> Option<String> {
    let said = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(said.stdout).ok()?.trim().to_owned();
    (said.status.success() && !commit.is_empty()).then_some(commit)
}
