//! The files of our rails: the mock, and the bank against its simulator.

use anyhow::Context;
use railhost::builtin;
use toml::{Table, Value as Toml};

/// A rail of a host that is measured.
#[derive(Debug, Clone)]
pub(super) struct RailFile {
    pub name: String,
    pub text: String,
    /// At a time.
    pub calls: u32,
}

/// Longer than the slowest simulator takes to answer; the lease holds it and the writing down.
const BANK_CALL_MS: i64 = 50_000;
const BANK_FIRST_BYTE_MS: i64 = 45_000;
const BANK_LEASE_SECONDS: f64 = 100.0;

const BANK_ADDRESS: &str = "http://127.0.0.1:7103";

/// A mock that answers after a time, which no deadline cuts short.
pub(super) fn mock(name: &str, calls: u32, delay_ms: u32) -> RailFile {
    let delay = if delay_ms > 0 { format!("delay {delay_ms} ") } else { String::new() };
    scripted(name, calls, "timeouts = { call_ms = 110000 }", 180, &format!("{delay}settled"))
}

/// A mock that never answers: its calls end by their deadline alone.
pub(super) fn dead(name: &str, calls: u32) -> RailFile {
    scripted(name, calls, "timeouts = { call_ms = 2000 }", 45, "delay 60000 settled")
}

fn scripted(name: &str, calls: u32, timeouts: &str, lease_seconds: u32, step: &str) -> RailFile {
    let text = format!(
        "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n{timeouts}\n\
         [pace]\nconcurrency = {calls}\nlease_seconds = {lease_seconds}\n[settings]\nscript = \"otherwise: {step}\"\n"
    );
    RailFile { name: name.to_owned(), text, calls }
}

/// The project's own file of the bank, at its simulator's address, with time for slow answers. Without rate and SLA it is what the
/// database takes a rail to be that it was told nothing of.
pub(super) fn bank(name: &str, base: &str, calls: u32) -> anyhow::Result<RailFile> {
    let text = builtin::rail_file("bank").context("the bank has no file")?;
    let mut file: Table = text.replace(BANK_ADDRESS, base).parse()?;
    file.remove("rate");
    file.remove("sla_seconds");
    let timeouts =
        [("call_ms", BANK_CALL_MS), ("first_byte_ms", BANK_FIRST_BYTE_MS), ("idle_ms", BANK_FIRST_BYTE_MS)];
    let timeouts: Table = timeouts.map(|(key, ms)| (key.to_owned(), Toml::from(ms))).into_iter().collect();
    file.insert("timeouts".to_owned(), Toml::Table(timeouts));
    let pace = file.get_mut("pace").and_then(Toml::as_table_mut).context("the bank's file has no pace")?;
    pace.insert("concurrency".to_owned(), i64::from(calls).into());
    pace.insert("lease_seconds".to_owned(), BANK_LEASE_SECONDS.into());
    Ok(RailFile { name: name.to_owned(), text: file.to_string(), calls })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use railhost::rail::definition::Definition;

    use super::*;

    #[test]
    fn a_host_takes_the_files() {
        let bank = bank("bank", "http://127.0.0.1:1", 500).expect("it has a file");
        for file in [mock("mock", 2500, 0), mock("slow", 32, 20), dead("dead", 32), bank] {
            let definition = Definition::parse(&file.name, Path::new("/nowhere"), &file.text);
            let definition =
                definition.unwrap_or_else(|problem| panic!("{}: {problem}\n{}", file.name, file.text));
            assert_eq!(definition.file.pace.concurrency, file.calls);
        }
    }
}
