//! Times a fresh Extism plugin per call. Reads a number of calls per line, answers with a line of nanoseconds per call.

use std::io::{BufRead, Write};
use std::time::Instant;
use std::{env, io};

use anyhow::{Context, Result, ensure};
use extism::{CompiledPlugin, Manifest, Plugin, PluginBuilder, Wasm};

const PAYMENT: &str = r#"{"amount":"10.50","currency":"ZMW","destination":[["msisdn","260961234567"]]}"#;

fn main() -> Result<()> {
    let component = env::args().nth(1).context("the plugin's path is missing")?;
    let manifest = Manifest::new([Wasm::data(std::fs::read(component)?)]);
    // Compiled once, as Extism advises for plugins that are made often.
    let compiled = CompiledPlugin::new(PluginBuilder::new(manifest))?;
    for line in io::stdin().lock().lines() {
        let calls: usize = line?.trim().parse()?;
        let nanoseconds = (0..calls).map(|_| once(&compiled)).collect::<Result<Vec<_>>>()?;
        println!("{}", nanoseconds.join(" "));
        io::stdout().flush()?;
    }
    Ok(())
}

fn once(compiled: &CompiledPlugin) -> Result<String> {
    let started = Instant::now();
    let mut plugin = Plugin::new_from_compiled(compiled)?;
    let found: &str = plugin.call("validate", PAYMENT)?;
    ensure!(found == "[]", "validate found {found}");
    let answer: &str = plugin.call("disburse", PAYMENT)?;
    ensure!(answer.contains("pending"), "disburse answered {answer}");
    drop(plugin);
    Ok(started.elapsed().as_nanos().to_string())
}
