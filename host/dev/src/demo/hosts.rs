//! The demo's host processes, each a `railhost serve` with the demo's own rails.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use outbox::read::Reader;

const FILE: &str = "demo.toml";
const DRAIN_MAX: Duration = Duration::from_secs(60);
const FROZEN: Duration = Duration::from_millis(200);

/// All of them end with this.
pub(super) struct DemoHosts {
    /// Configuration and logs; gone in the end.
    folder: PathBuf,
    running: Vec<(String, Child)>,
    started: usize,
}

impl DemoHosts {
    pub(super) fn new(postgres: &Path, cache: &Path) -> anyhow::Result<Self> {
        let postgres = std::path::absolute(postgres)?;
        let folder = postgres.with_file_name("demo");
        let rails = folder.join("rails");
        if folder.exists() {
            ensure!(
                folder.join(FILE).exists(),
                "{} exists and was not created by the demo",
                folder.display()
            );
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&rails).with_context(|| format!("cannot make {}", rails.display()))?;
        let quoted = |path: &Path| toml::Value::from(path.display().to_string()).to_string();
        let text = format!(
            "[embedded]\nfolder = {}\n\n[adapters]\ncache = {}\n",
            quoted(&postgres),
            quoted(&std::path::absolute(cache)?)
        );
        fs::write(folder.join(FILE), text)?;
        Ok(Self { folder, running: Vec::new(), started: 0 })
    }

    /// Where the hosts look for rails.
    pub(super) fn rails(&self) -> PathBuf {
        self.folder.join("rails")
    }

    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        self.started += 1;
        let name = format!("host-{}", self.started);
        let log = File::create(self.log(&name))?;
        let child = Command::new(std::env::current_exe()?)
            .arg("--dev")
            .arg("--config")
            .arg(self.folder.join(FILE))
            .arg("serve")
            .env_remove("DATABASE_URL")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.running.push((name, child));
        Ok(())
    }

    /// A host that ended by itself is a fault of the demo, and its log says why.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        for (name, child) in &mut self.running {
            if let Some(status) = child.try_wait()? {
                let log = fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
                bail!("{name} ended, {status}:\n{log}");
            }
        }
        Ok(())
    }

    /// Kills the first one if it is in the middle of something, and says which. It is frozen first: what it holds then it would
    /// have held for ever.
    pub(super) async fn kill_at_work(&mut self, reader: &Reader) -> anyhow::Result<Option<String>> {
        let Some((name, child)) = self.running.first() else { bail!("no host is running") };
        let (name, host) = (name.clone(), Pid::from_child(child));
        let Some(worker_id) = self.worker_id(&name) else { return Ok(None) };
        kill_process(host, Signal::STOP)?;
        // What it had sent is written meanwhile.
        tokio::time::sleep(FROZEN).await;
        if reader.leases_of(&worker_id).await? == 0 {
            kill_process(host, Signal::CONT)?;
            return Ok(None);
        }
        let (_, mut child) = self.running.remove(0);
        child.kill()?;
        child.wait()?;
        Ok(Some(name))
    }

    /// As its log tells it.
    fn worker_id(&self, name: &str) -> Option<String> {
        let log = fs::read_to_string(self.log(name)).ok()?;
        let (_, after) = log.split_once("Host ")?;
        after.split_once(" serves ").map(|(worker_id, _)| worker_id.to_owned())
    }

    pub(super) async fn drain(&mut self) -> anyhow::Result<()> {
        for (_, child) in &self.running {
            kill_process(Pid::from_child(child), Signal::TERM)?;
        }
        let began = Instant::now();
        for (name, mut child) in std::mem::take(&mut self.running) {
            while child.try_wait()?.is_none() {
                if began.elapsed() > DRAIN_MAX {
                    child.kill()?;
                    child.wait()?;
                    bail!("{name} did not drain within {DRAIN_MAX:?}");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }
}

impl Drop for DemoHosts {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            child.kill().ok();
            child.wait().ok();
        }
        fs::remove_dir_all(&self.folder).ok();
    }
}
