//! What an earlier owner left behind because it and its guardian were killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::place::{ClusterFolder, unless_absent};
use super::{Error, process};

/// PostgreSQL itself kills what does not quit within 5 s.
const QUIT_LIMIT: Duration = Duration::from_secs(8);
const KILL_LIMIT: Duration = Duration::from_secs(8);

/// Ends every process of an earlier server in this folder and removes its traces. Only the folder's owner may call it.
pub(super) fn clean(place: &ClusterFolder, socket_folder: &Path) -> Result<(), Error> {
    let data = place.data();
    let left = process::postgres_in(&data);
    if !left.is_empty() {
        tracing::warn!(count = left.len(), "ending {} processes left in {}", left.len(), data.display());
        left.iter().for_each(|pid| process::signal(*pid, Signal::CONT));
        // It is the postmaster that tidies up, and the pid file says which one that is.
        let postmaster = PidFile::read(&data).map(|file| file.pid).filter(|pid| left.contains(pid));
        if let Some(pid) = postmaster {
            process::signal(pid, Signal::QUIT);
            process::wait_gone(&left, QUIT_LIMIT);
        }
        process::postgres_in(&data).iter().for_each(|pid| process::signal(*pid, Signal::KILL));
        process::wait_gone(&left, KILL_LIMIT);
    }
    // A stale pid that by now belongs to someone else would make PostgreSQL refuse to start. Without /proc we could not
    // see a living server, so there the files stay and PostgreSQL judges them.
    if Path::new("/proc/self/cwd").exists() {
        remove_file(&data.join("postmaster.pid"))?;
        remove_sockets(socket_folder)?;
    }
    Ok(())
}

/// What a running server says of itself in its data folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PidFile {
    pub(super) pid: u32,
    pub(super) port: u16,
    pub(super) socket_folder: PathBuf,
}

impl PidFile {
    /// None while there is no server, or one that has not got so far yet.
    pub(super) fn read(data: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(data.join("postmaster.pid")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok()?;
        let port = lines.nth(2)?.trim().parse().ok()?;
        let socket_folder = lines.next().filter(|line| !line.is_empty())?.into();
        Some(Self { pid, port, socket_folder })
    }
}

fn remove_sockets(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        if entry.file_name().to_string_lossy().starts_with(".s.PGSQL.") {
            remove_file(&entry.path())?;
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), Error> {
    unless_absent(fs::remove_file(path)).map_err(Error::io("remove", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_names_the_port_and_the_socket_folder() {
        let text = "4711\n/x/data\n1763262000\n5432\n/x/socket\n\n  1234567         0\nready   \n";
        let expected = PidFile { pid: 4711, port: 5432, socket_folder: "/x/socket".into() };
        assert_eq!(PidFile::parse(text), Some(expected));
    }

    #[test]
    fn a_pid_file_that_is_still_being_written_says_nothing() {
        assert_eq!(PidFile::parse("4711\n/x/data\n1763262000\n5432\n"), None);
        assert_eq!(PidFile::parse(""), None);
    }
}
