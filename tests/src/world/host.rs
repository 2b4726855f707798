//! A host in a process of its own, on a wire of its own to the database.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wire::Wire;
use crate::port::Port;
use crate::{PATIENCE, railhost};

#[derive(Debug)]
pub struct HostProcess {
    pub wire: Wire,
    /// All that its processes said.
    pub log: PathBuf,
    /// What its metrics said at the end.
    pub metrics: String,
    pages: Port,
    config: PathBuf,
    url: String,
    child: Option<Child>,
    /// Where in the log its present process begins.
    from: u64,
    frozen: bool,
}

/// A test that fails leaves no process behind.
impl Drop for HostProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl HostProcess {
    pub(super) fn new(folder: &Path, number: usize, wire: Wire, url: String, pages: Port) -> Self {
        Self {
            wire,
            log: folder.join(format!("host-{number}.log")),
            metrics: String::new(),
            pages,
            config: folder.join(format!("config/host-{number}.toml")),
            url,
            child: None,
            from: 0,
            frozen: false,
        }
    }

    pub fn start(&mut self, environment: &[(&str, &str)]) {
        assert!(!self.is_up(), "it runs");
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        self.from = log.metadata().expect("a length").len();
        let folder = self.config.parent().and_then(Path::parent).expect("a folder");
        let child = railhost()
            .current_dir(folder)
            .env("RAILHOST_CONFIG", &self.config)
            .env("DATABASE_URL", &self.url)
            .env("RAILHOST_LOG", "info,sqlx=warn")
            .envs(environment.iter().copied())
            .arg("serve")
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("railhost runs");
        self.child = Some(child);
    }

    pub fn is_up(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().expect("asked").is_none())
    }

    pub fn send(&self, signal: Signal) {
        if let Some(child) = &self.child {
            kill_process(Pid::from_child(child), signal).expect("sent");
        }
    }

    /// With SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().expect("reaped");
        }
        self.frozen = false;
    }

    pub fn freeze(&mut self) {
        self.send(Signal::STOP);
        self.frozen = true;
    }

    pub fn thaw(&mut self) {
        if std::mem::take(&mut self.frozen) {
            self.send(Signal::CONT);
        }
    }

    /// Waits until the process ends by itself; none if it does not.
    pub async fn ended(&mut self) -> Option<ExitStatus> {
        let waited = Instant::now();
        let child = self.child.as_mut()?;
        while waited.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait().expect("asked") {
                self.child = None;
                return Some(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }

    /// The last that its present process said, for a test that fails.
    pub fn last_words(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let own = String::from_utf8_lossy(log.get(self.from as usize..).unwrap_or_default()).into_owned();
        let lines: Vec<_> = own.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Asks it for its metrics, if it is there.
    pub(super) async fn keep_metrics(&mut self) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.pages.number)).await else { return };
        let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        if stream.write_all(request).await.is_ok() {
            stream.read_to_string(&mut self.metrics).await.ok();
        }
    }

    /// The value of one of its metrics, labels and all.
    pub async fn metric(&mut self, name: &str) -> Option<f64> {
        self.metrics.clear();
        self.keep_metrics().await;
        self.metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Waits until its process serves, if it comes to that.
    pub async fn serves(&mut self) {
        let waited = Instant::now();
        while self.is_up() && waited.elapsed() < PATIENCE {
            let log = std::fs::read(&self.log).expect("a log");
            if String::from_utf8_lossy(&log[self.from as usize..]).contains(" serves ") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
