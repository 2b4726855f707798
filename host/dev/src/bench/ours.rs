//! Hosts as they are shipped: this binary's own `serve`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::rail_files;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::bed::{BenchServer, Db};
use super::process;
use super::rails::BenchRailFile;

/// The first host of all compiles its adapters.
const READY_WITHIN: Duration = Duration::from_secs(120);
const DRAIN_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What a host allows unless its rails need more.
const CALLS_MIN: u32 = 1_000;

/// It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct BenchHost {
    child: Child,
    /// Where it tells what it did.
    pages: SocketAddr,
    pub ready_at: Instant,
    /// Its configuration and its log; kept where it failed.
    folder: PathBuf,
}

/// A number of verdicts that was waited for, and maybe some more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    pub verdicts: usize,
    pub at: Instant,
}

impl BenchHost {
    /// Returns once it says that it serves; what is due is on its way from then on.
    pub(super) async fn start(
        bed: &BenchServer,
        db: &Db,
        number: usize,
        rails: &[BenchRailFile],
    ) -> anyhow::Result<Self> {
        let folder = bed.folder(&format!("hosts/{}-{number}", db.name))?;
        write_configuration(&folder, &bed.compiled(), rails)?;
        // The database has to know the rails before a host serves them.
        let told = railhost(&folder, db, "migrate")?
            .stdin(Stdio::null())
            .output()
            .context("railhost does not run")?;
        if !told.status.success() {
            bail!("railhost migrate: {}", String::from_utf8_lossy(&told.stderr).trim_end());
        }
        let mut child = railhost(&folder, db, "serve")?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("railhost does not run")?;
        let errors = child.stderr.take().context("nobody hears it")?;
        let heard = listen(errors, File::create(folder.join("log"))?);
        // From here on it is killed whatever happens.
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut host = Self { child, pages: unknown, ready_at: Instant::now(), folder };
        let heard = tokio::time::timeout(READY_WITHIN, heard).await;
        let (said, ready_at) = heard
            .ok()
            .and_then(Result::ok)
            .with_context(|| format!("a host did not start: {}", host.last_words()))?;
        host.pages = pages(&said).with_context(|| format!("it has no pages: {said}"))?;
        host.ready_at = ready_at;
        Ok(host)
    }

    /// Payments with a verdict so far, by rail.
    pub(super) async fn verdicts(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let ask = async {
            let mut stream = TcpStream::connect(self.pages).await?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            Ok::<_, std::io::Error>(text)
        };
        let text = ask.await.with_context(|| format!("a host does not answer: {}", self.last_words()))?;
        Ok(verdicts(&text))
    }

    pub(super) fn cpu_us(&self) -> f64 {
        process::cpu_us(self.child.id())
    }

    pub(super) fn resident_kib(&self) -> f64 {
        process::resident_kib(self.child.id())
    }

    /// Drains it, and forgets it where that went well.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            if began.elapsed() > DRAIN_WITHIN {
                bail!("a host did not drain within {DRAIN_WITHIN:?}: {}", self.last_words());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        fs::remove_dir_all(&self.folder).ok();
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = self.folder.join("log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        format!("{last} ({})", log.display())
    }
}

impl Drop for BenchHost {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Waits until hosts together have written so many verdicts over rails that are counted.
pub(super) async fn until(
    hosts: &[BenchHost],
    wanted: usize,
    counted: impl Fn(&str) -> bool,
) -> anyhow::Result<Reached> {
    loop {
        let mut verdicts = 0;
        for host in hosts {
            let of_host = host.verdicts().await?;
            verdicts +=
                of_host.iter().filter(|(rail, _)| counted(rail)).map(|(_, count)| *count).sum::<u64>();
        }
        let verdicts = usize::try_from(verdicts)?;
        if verdicts >= wanted {
            return Ok(Reached { verdicts, at: Instant::now() });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A command of this binary, under the configuration of a host.
fn railhost(folder: &Path, db: &Db, name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("--config")
        .arg(folder.join("host.toml"))
        .arg(name)
        .current_dir(folder)
        .env("DATABASE_URL", &db.url)
        .env_remove("RAILHOST_CONFIG")
        .env_remove("RAILHOST_LOG")
        .env_remove("RAILHOST_LOG_FORMAT");
    Ok(command)
}

fn write_configuration(folder: &Path, cache: &Path, rails: &[BenchRailFile]) -> anyhow::Result<()> {
    fs::create_dir_all(folder.join("rails/simulated"))?;
    for (path, text) in rail_files::SIMULATED {
        fs::write(folder.join("rails").join(path), text)?;
    }
    for rail in rails {
        fs::write(folder.join(format!("rails/{}.toml", rail.name)), &rail.text)?;
    }
    let calls: u32 = rails.iter().map(|rail| rail.calls).sum();
    let cache = toml::Value::from(cache.display().to_string());
    let text = format!(
        "[adapters]\ncache = {cache}\ncalls_max = {}\n\n[relayer]\nlisten = \"127.0.0.1:0\"\n",
        calls.max(CALLS_MIN)
    );
    Ok(fs::write(folder.join("host.toml"), text)?)
}

/// Keeps all that it says, for somebody has to read on or it would be stopped by a full pipe; and tells when it is ready.
fn listen(errors: ChildStderr, mut log: File) -> oneshot::Receiver<(String, Instant)> {
    let (tell, heard) = oneshot::channel();
    let mut tell = Some(tell);
    std::thread::spawn(move || {
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            let is_ready = line.starts_with("Host ") && line.contains(" serves ");
            if is_ready && let Some(tell) = tell.take() {
                tell.send((line.clone(), Instant::now())).ok();
            }
            writeln!(log, "{line}").ok();
        }
    });
    heard
}

/// The address in what a host says when it is ready.
fn pages(said: &str) -> Option<SocketAddr> {
    let (_, rest) = said.split_once("pages on http://")?;
    let end = rest.find(|char: char| !char.is_ascii_digit() && !".:".contains(char)).unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
}

fn verdicts(text: &str) -> BTreeMap<String, u64> {
    let mut by_rail = BTreeMap::new();
    for line in text.lines() {
        let Some((labels, count)) =
            line.strip_prefix("attempts_total{").and_then(|rest| rest.rsplit_once("} "))
        else {
            continue;
        };
        let label = |name: &str| {
            labels
                .split(',')
                .find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
        };
        let is_verdict = matches!(label("state"), Some("DISPATCHED" | "FAILED"));
        if let (Some(rail), true, Ok(count)) = (label("rail"), is_verdict, count.trim().parse::<u64>()) {
            *by_rail.entry(rail.to_owned()).or_default() += count;
        }
    }
    by_rail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_verdicts_are_counted_rail_by_rail() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# TYPE attempts_total counter\n\
            attempts_total{rail=\"a\",state=\"DISPATCHED\"} 7\nattempts_total{rail=\"a\",state=\"FAILED\"} 2\n\
            attempts_total{rail=\"a\",state=\"RETRYABLE\"} 5\nattempts_total{rail=\"b\",state=\"DISPATCHED\"} 0\n\
            claim_batches_total 3\n";
        assert_eq!(verdicts(text), BTreeMap::from([("a".to_owned(), 9), ("b".to_owned(), 0)]));
    }

    #[test]
    fn the_address_ends_where_the_sentence_goes_on() {
        let said =
            "Host h serves mock; ready after 12 ms; pages on http://127.0.0.1:4567. SIGTERM or Ctrl-C drains";
        assert_eq!(pages(said), Some(SocketAddr::from(([127, 0, 0, 1], 4567))));
        assert_eq!(pages("Host h serves mock; ready after 12 ms. SIGTERM"), None);
    }
}
