//! A rival's driver: a process that says single lines of JSON and waits for a line before it begins.
//!
//! | command | what it does |
//! |---|---|
//! | `prepare` | brings the schema and says `prepared` with the version |
//! | `enqueue COUNT` | `ready`, a line, `done` when all are committed |
//! | `work COUNT` | `ready`, a line, `done` when all are durably finished |
//! | `call URL CONCURRENCY` | `ready`, then posts every job to the URL until its input ends |
//! | `produce RATE SECONDS` | `ready`, a line, `committed` with `from`, `count` and `at` in unix microseconds each time, `done` |

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::bed::{BenchServer, Db};
use super::rival::Rival;
use super::{flow, process};

const END_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// It is killed with all its children when this is dropped.
#[derive(Debug)]
pub(super) struct Driver {
    child: Child,
    input: Option<ChildStdin>,
    events: UnboundedReceiver<DriverEvent>,
    /// Who was told to do what.
    name: String,
    /// What it says to people; kept where it failed.
    log: PathBuf,
}

/// What it says; most of it belongs to one event only.
#[derive(Debug, Deserialize)]
pub(super) struct DriverEvent {
    pub event: String,
    pub version: Option<String>,
    pub from: Option<u64>,
    pub count: Option<u64>,
    pub at: Option<i64>,
}

impl Driver {
    pub(super) fn start(
        bed: &BenchServer,
        db: &Db,
        rival: &Rival,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let (program, first) = rival.command.split_first().context("a rival without a command")?;
        // A program of its own is named from its folder; others are looked for as usual.
        let program = if program.contains('/') { rival.folder.join(program) } else { program.into() };
        let verb = arguments.first().copied().unwrap_or_default();
        let log = bed.folder("logs")?.join(format!("{}-{}-{verb}.log", db.name, rival.name));
        let mut child = Command::new(program)
            .args(first)
            .args(arguments)
            .current_dir(&rival.folder)
            .env("DATABASE_URL", &db.url)
            .env("BENCH_PAYLOAD", flow::payload().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            // Some are started by a script or a package manager, which would be all that a kill reached.
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} does not run", rival.name))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().context("nobody hears it")?);
        Ok(Self { child, input, events: listen(output), name: format!("{} {verb}", rival.name), log })
    }

    /// The next event, which has to be this one.
    pub(super) async fn hear(&mut self, wanted: &str) -> anyhow::Result<DriverEvent> {
        let event = self.next_event().await?;
        ensure!(event.event == wanted, "{} said {} instead of {wanted}", self.name, event.event);
        Ok(event)
    }

    pub(super) async fn next_event(&mut self) -> anyhow::Result<DriverEvent> {
        match self.events.recv().await {
            Some(event) => Ok(event),
            None => bail!("{} ended early: {}", self.name, self.last_words()),
        }
    }

    pub(super) fn go(&mut self) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("it was closed before")?;
        input.write_all(b"go\n").and_then(|()| input.flush()).with_context(|| self.name.clone())
    }

    pub(super) fn cpu_us(&self) -> f64 {
        process::cpu_us(self.child.id())
    }

    pub(super) fn resident_kib(&self) -> f64 {
        process::resident_kib(self.child.id())
    }

    /// Tells it that nothing more comes, and waits for it to end well.
    pub(super) async fn close(mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(began.elapsed() < END_WITHIN, "{} did not end: {}", self.name, self.last_words());
            tokio::time::sleep(LOOK_EVERY).await;
        };
        ensure!(status.success(), "{} ended with {status}: {}", self.name, self.last_words());
        fs::remove_file(&self.log).ok();
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        format!("{last} ({})", self.log.display())
    }
}

/// Has a rival bring its schema; the answer is its version.
pub(super) async fn prepare(rival: &Rival, bed: &BenchServer, db: &Db) -> anyhow::Result<String> {
    let mut driver = Driver::start(bed, db, rival, &["prepare"])?;
    let version = driver.hear("prepared").await?.version.context("it did not tell its version")?;
    driver.close().await?;
    Ok(version)
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Once waited for, its number may be another's.
        if let Ok(None) = self.child.try_wait() {
            kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
            self.child.wait().ok();
        }
    }
}

/// Lines that are no event are a library's chatter.
fn listen(output: ChildStdout) -> UnboundedReceiver<DriverEvent> {
    let (tell, events) = unbounded_channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Ok(event) = serde_json::from_str(&line)
                && tell.send(event).is_err()
            {
                break;
            }
        }
    });
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_with_what_belongs_to_them() {
        let event: DriverEvent =
            serde_json::from_str(r#"{"event":"committed","from":10,"count":5,"at":1760000000000001}"#)
                .expect("it is sound");
        assert_eq!((event.from, event.count, event.at), (Some(10), Some(5), Some(1_760_000_000_000_001)));
        let event: DriverEvent = serde_json::from_str(r#"{"event":"ready"}"#).expect("it is sound");
        assert_eq!((event.event.as_str(), event.version), ("ready", None));
    }
}
