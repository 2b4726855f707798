//! The running server: one process that we started, and the children it started.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::binaries::Binaries;
use super::place::{ClusterFolder, open_ours};
use super::{Error, account, process};

const DEFAULT_PORT: u16 = 5432;

/// A fast shutdown writes a checkpoint.
const FAST_LIMIT: Duration = Duration::from_secs(15);
/// PostgreSQL itself kills what does not quit within 5 s.
const QUIT_LIMIT: Duration = Duration::from_secs(8);
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// A log grown beyond this starts anew with the server.
const LOG_BYTES: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct Postmaster {
    child: Child,
    data: PathBuf,
}

/// How a server is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostmasterEnd {
    /// Sessions are cut, all is written: the next start has nothing to recover.
    Fast,
    /// Nothing is written, but shared memory is given back.
    Immediate,
    /// As when the power goes.
    Kill,
}

/// What a server listens on.
#[derive(Debug, Clone)]
pub(super) struct Listening {
    pub(super) socket_folder: PathBuf,
    pub(super) tcp_port: Option<u16>,
}

impl Listening {
    pub(super) fn port(&self) -> u16 {
        self.tcp_port.unwrap_or(DEFAULT_PORT)
    }
}

impl Postmaster {
    pub(super) fn spawn(
        place: &ClusterFolder,
        binaries: &Binaries,
        listening: &Listening,
        settings: &[(String, String)],
    ) -> Result<Self, Error> {
        let path = place.log();
        let log = open_ours(&path, OpenOptions::new().append(true).create(true))?;
        if log.metadata().is_ok_and(|log| log.len() > LOG_BYTES) {
            log.set_len(0).map_err(Error::io("shorten", &path))?;
        }
        let errors = log.try_clone().map_err(Error::io("open", &path))?;
        let postgres = binaries.bin.join("postgres");
        let child = account::command(&postgres, place.account)
            .arg("-D")
            .arg(place.data())
            .args(arguments(listening, settings))
            .current_dir(&place.folder)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // Ctrl-C goes to the whole group in the foreground; when to stop is for the owner to say.
            .process_group(0)
            .spawn()
            .map_err(Error::io("start", &postgres))?;
        Ok(Self { child, data: place.data() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the server, by harder means if it does not go, and waits until it is gone.
    pub(super) fn end(mut self, how: PostmasterEnd) {
        let signals: &[(Signal, Duration)] = match how {
            PostmasterEnd::Fast => &[(Signal::INT, FAST_LIMIT), (Signal::QUIT, QUIT_LIMIT)],
            PostmasterEnd::Immediate => &[(Signal::QUIT, QUIT_LIMIT)],
            PostmasterEnd::Kill => &[],
        };
        if how != PostmasterEnd::Kill {
            self.thaw();
        }
        for (signal, limit) in signals {
            process::signal(self.pid(), *signal);
            if process::wait_until(*limit, || self.has_ended()) {
                return;
            }
        }
        self.kill();
    }

    /// Stops every process of the server in its tracks: it answers nothing, and its connections stay open.
    pub(super) fn freeze(&self) {
        // The postmaster first, so that no child is born behind our back.
        process::signal(self.pid(), Signal::STOP);
        process::postgres_in(&self.data).iter().for_each(|pid| process::signal(*pid, Signal::STOP));
    }

    pub(super) fn thaw(&self) {
        process::postgres_in(&self.data).iter().for_each(|pid| process::signal(*pid, Signal::CONT));
        process::signal(self.pid(), Signal::CONT);
    }

    /// The children too: orphaned they would go by themselves, but too late for a start right after.
    fn kill(mut self) {
        let mut all = process::postgres_in(&self.data);
        self.child.kill().and_then(|()| self.child.wait()).ok();
        all.extend(process::postgres_in(&self.data));
        all.retain(|pid| *pid != self.child.id());
        all.iter().for_each(|pid| process::signal(*pid, Signal::KILL));
        process::wait_gone(&all, KILL_LIMIT);
    }
}

/// The end of the server's log.
pub(super) fn log_tail(place: &ClusterFolder) -> String {
    const BYTES: u64 = 4096;
    let read = |path: &Path| -> Result<Vec<u8>, std::io::Error> {
        let mut file = std::fs::File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read(&place.log()).map_or_else(
        |error| format!("(unreadable: {error})"),
        |bytes| process::tail(&String::from_utf8_lossy(&bytes)),
    )
}

fn arguments(listening: &Listening, settings: &[(String, String)]) -> Vec<String> {
    let addresses = if listening.tcp_port.is_some() { "127.0.0.1" } else { "" };
    let ours = [
        ("listen_addresses", addresses.to_owned()),
        ("port", listening.port().to_string()),
        ("unix_socket_directories", listening.socket_folder.display().to_string()),
        ("unix_socket_permissions", "0700".to_owned()),
        // The promises that leases rest on, said aloud: a commit that returned survives a crash.
        ("fsync", "on".to_owned()),
        ("full_page_writes", "on".to_owned()),
        ("synchronous_commit", "on".to_owned()),
        ("shared_buffers", "128MB".to_owned()),
        ("max_connections", "200".to_owned()),
    ];
    let ours = ours.into_iter().map(|(name, value)| format!("{name}={value}"));
    let theirs = settings.iter().map(|(name, value)| format!("{name}={value}"));
    ours.chain(theirs).flat_map(|setting| ["-c".to_owned(), setting]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_caller_come_last_and_so_win() {
        let listening = Listening { socket_folder: "/x".into(), tcp_port: None };
        let arguments = arguments(&listening, &[("max_connections".into(), "7".into())]);
        assert_eq!(arguments.last().map(String::as_str), Some("max_connections=7"));
        assert!(arguments.contains(&"listen_addresses=".to_owned()));
    }
}
