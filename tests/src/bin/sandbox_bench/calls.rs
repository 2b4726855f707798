//! A fresh instance, `validate`, `disburse` of the mock, and its end: pooled, mapped anew, and as an Extism plugin. A payment that is
//! pending takes one instance. For one that is settled a second instance reads the reply.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use form::Meaning;
use harness::adapter_rig::instruction;
use rail::definition::Definition;
use rail::{Allocation, Loaded, Sandbox, SandboxOptions, Task};

use super::{Spread, meaning, on_one_core, ratio, row, timed};

/// What the mock says, and what that means.
const PENDING: (&str, Meaning) = ("pending", Meaning::Pending);
const SETTLED: (&str, Meaning) = ("settled", Meaning::Success);

/// In blocks: what one side leaves in the caches is not charged to the other. The first one warms up.
const BLOCKS: usize = 20;

struct Side {
    sandbox: Sandbox,
    loaded: Loaded,
    expected: Meaning,
    samples: Vec<Duration>,
}

impl Side {
    async fn new(folder: &Path, allocation: Allocation, (step, expected): (&str, Meaning)) -> Result<Self> {
        let file = format!(
            "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n\
             [settings]\nscript = \"otherwise: {step}\"\n"
        );
        let definition = Definition::parse("mock", "".as_ref(), &file).map_err(anyhow::Error::msg)?;
        let options = SandboxOptions { calls_max: 100, allocation, ..SandboxOptions::default() };
        let sandbox = Sandbox::new(&folder.join("compiled"), harness::railhost_path(), options)?;
        let loaded = Loaded::load(&sandbox, &definition).await?;
        Ok(Self { sandbox, loaded, expected, samples: Vec::new() })
    }

    async fn block(&mut self, number: usize, calls: usize) -> Result<()> {
        let payment = instruction();
        for _ in 0..calls {
            let (attempt, took) =
                timed(self.loaded.call(&self.sandbox, Task::Disburse, payment.clone(), None)).await;
            ensure!(meaning(&attempt) == Some(self.expected), "{attempt:?}");
            if number > 0 {
                self.samples.push(took);
            }
        }
        Ok(())
    }
}

pub(crate) fn run(calls: usize) -> Result<()> {
    let (pooled, mapped, settled) = on_one_core(async move {
        let folder = tempfile::tempdir()?;
        let mut pooled = Side::new(folder.path(), Allocation::Pooled, PENDING).await?;
        let mut mapped = Side::new(folder.path(), Allocation::OnDemand, PENDING).await?;
        let mut settled = Side::new(folder.path(), Allocation::Pooled, SETTLED).await?;
        for number in 0..=BLOCKS {
            pooled.block(number, calls / BLOCKS).await?;
            mapped.block(number, calls / BLOCKS).await?;
            settled.block(number, calls / BLOCKS).await?;
        }
        anyhow::Ok((Spread::of(pooled.samples), Spread::of(mapped.samples), Spread::of(settled.samples)))
    })??;
    row(
        "fresh instance + validate + disburse (mock) + drop, against mapping memory for each call",
        &pooled.to_string(),
        &mapped.to_string(),
        &format!("{:.2} ×", ratio(pooled.p50(), mapped.p50())),
        "≤ 0.4 ×",
    );
    row(
        "the same with a second fresh instance that reads the reply (a payment that is settled), against the one alone",
        &settled.to_string(),
        &pooled.to_string(),
        &format!("{:.2} ×", ratio(settled.p50(), pooled.p50())),
        "–",
    );
    Ok(())
}

/// The same against Extism, which is built first: it lives outside the workspace with a wasmtime of its own.
pub(crate) fn against_extism(calls: usize) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/extism");
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/extism");
    eprintln!("building the Extism rival into target/extism; the first time takes minutes");
    ensure!(
        Command::new("rustup").args(["target", "add", "wasm32-unknown-unknown"]).status()?.success(),
        "the target of Extism plugins cannot be added"
    );
    for arguments in
        [["--package", "extism-rival-plugin", "--target=wasm32-unknown-unknown"].as_slice(), &["--bins"]]
    {
        let built = Command::new("cargo")
            .args(["build", "--quiet", "--release", "--target-dir"])
            .arg(&target)
            .args(arguments)
            .current_dir(&folder)
            .status()?;
        ensure!(built.success(), "the Extism rival does not build");
    }
    let (ours, rival) = on_one_core(async move {
        let folder = tempfile::tempdir()?;
        let mut ours = Side::new(folder.path(), Allocation::Pooled, PENDING).await?;
        let mut rival = Rival::start(&target)?;
        for number in 0..=BLOCKS {
            ours.block(number, calls / BLOCKS).await?;
            rival.block(number, calls / BLOCKS)?;
        }
        let samples = std::mem::take(&mut rival.samples);
        anyhow::Ok((Spread::of(ours.samples), Spread::of(samples)))
    })??;
    row(
        "fresh instance + validate + disburse (mock) + drop, against a fresh Extism plugin per call",
        &ours.to_string(),
        &rival.to_string(),
        &format!("{:.1} × faster", ratio(rival.p50(), ours.p50())),
        "≥ 3 × faster",
    );
    Ok(())
}

/// The rival's process. It inherits the processor that its parent is tied to.
struct Rival {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
    samples: Vec<Duration>,
}

impl Rival {
    fn start(target: &Path) -> Result<Self> {
        let mut child = Command::new(target.join("release/extism-rival"))
            .arg(target.join("wasm32-unknown-unknown/release/extism_rival_plugin.wasm"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let ask = child.stdin.take().context("a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Self { child, ask, answers, samples: Vec::new() })
    }

    fn block(&mut self, number: usize, calls: usize) -> Result<()> {
        writeln!(self.ask, "{calls}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let samples: Vec<Duration> = line
            .split_whitespace()
            .map(|nanoseconds| Ok(Duration::from_nanos(nanoseconds.parse()?)))
            .collect::<Result<_>>()?;
        ensure!(samples.len() == calls, "the rival ended");
        if number > 0 {
            self.samples.extend(samples);
        }
        Ok(())
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
