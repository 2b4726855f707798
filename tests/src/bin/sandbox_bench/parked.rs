//! Calls that wait for a rail which never answers: a payment and a connection each, and no guest. The rail is another process, so
//! that its memory is not counted.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::adapter_rig::{AdapterRig, guest, instruction};
use rail::definition::Definition;
use rail::{Loaded, Sandbox, SandboxOptions, Task};

use super::{descriptors, resident_kib, row};

/// A rail that is waited for as long as the measurement takes.
const WAITS: &str = "timeouts = { call_ms = 300000, first_byte_ms = 300000 }\npace = { lease_seconds = 400 }";

/// Accepts connections and does nothing with them, until its parent is gone.
pub(crate) fn silent_rail() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    let mut kept = Vec::new();
    for connection in listener.incoming() {
        kept.push(connection?);
    }
    Ok(())
}

pub(crate) struct SilentRail {
    child: Child,
    pub port: u16,
}

impl SilentRail {
    pub(crate) fn start() -> Result<Self> {
        let mut child =
            Command::new(std::env::current_exe()?).arg("--silent-rail").stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut line)?;
        Ok(Self { child, port: line.trim().parse()? })
    }
}

impl Drop for SilentRail {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The guest that pays, on a rail that is silent.
pub(crate) async fn load(sandbox: &Sandbox, rail: &SilentRail, more: &str) -> Result<Loaded> {
    let rig = AdapterRig::new().await;
    let text = rig
        .file(&guest("pays_and_tells"), more)
        .replace(&rig.rail.base(), &format!("http://127.0.0.1:{}", rail.port));
    let definition = Definition::parse("silent", &rig.path(""), &text).map_err(anyhow::Error::msg)?;
    Ok(Loaded::load(sandbox, &definition).await?)
}

pub(crate) fn run(calls: usize) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let rail = SilentRail::start()?;
        let folder = tempfile::tempdir()?;
        let sandbox = Sandbox::new(
            folder.path(),
            harness::railhost_path(),
            SandboxOptions { calls_max: calls, ..SandboxOptions::default() },
        )?;
        ensure!(sandbox.in_use() == [0; 4]);
        let loaded = std::sync::Arc::new(load(&sandbox, &rail, WAITS).await?);
        let sandbox = std::sync::Arc::new(sandbox);
        // By then nothing is left of what loading needed.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (before, descriptors_before) = (resident_kib(), descriptors());
        let tasks: Vec<_> = (0..calls)
            .map(|_| {
                let (loaded, sandbox) = (loaded.clone(), sandbox.clone());
                tokio::spawn(async move { loaded.call(&sandbox, Task::Disburse, instruction(), None).await })
            })
            .collect();
        // Each has a connection of its own.
        while descriptors() < descriptors_before + calls {
            ensure!(tasks.iter().all(|task| !task.is_finished()), "a call came back");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        ensure!(sandbox.free() == 0, "{} calls are not open", sandbox.free());
        ensure!(sandbox.in_use() == [0; 4], "guests wait for the rail: {:?}", sandbox.in_use());
        let each = resident_kib().saturating_sub(before) as f64 / calls as f64;
        for task in tasks {
            task.abort();
        }
        row(
            &format!("resident memory per open call that waits for its rail, {calls} in flight"),
            &format!("{each:.1} KiB, and no guest"),
            "–",
            "–",
            "≤ 80 KiB",
        );
        Ok(())
    })
}
