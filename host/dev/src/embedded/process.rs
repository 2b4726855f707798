//! Processes as `/proc` shows them, and signals to them.
//!
//! Where there is no `/proc` (macOS) the lists are empty, and what they would have added is left to PostgreSQL itself.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

const POLL: Duration = Duration::from_millis(20);

/// Sends a signal; a process that is gone already is no error, for gone is what most signals are after.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

/// The processes of a PostgreSQL, wherever they come from. A shell that stands in the data folder is not one of them.
pub(super) fn postgres_in(data: &Path) -> Vec<u32> {
    let mut others: Vec<(u32, Stat)> =
        every().into_iter().filter(|(_, stat)| stat.name == "postgres").collect();
    let mut found: Vec<u32> = others.iter().map(|(pid, _)| *pid).filter(|pid| serves(*pid, data)).collect();
    // Children of those found, for a root without the right to look into other users' processes (a container's).
    let mut seen = 0;
    while seen < found.len() {
        let parent = found[seen];
        others.retain(|(pid, _)| !found.contains(pid));
        found.extend(others.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid));
        seen += 1;
    }
    found
}

fn serves(pid: u32, data: &Path) -> bool {
    let stands_there = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data);
    stands_there || fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| names_data(&line, data))
}

/// Whether a command line, its arguments ended by zero bytes, holds `-D` and this folder.
fn names_data(line: &[u8], data: &Path) -> bool {
    let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    arguments.windows(2).any(|pair| pair[0] == b"-D" && pair[1] == data.as_os_str().as_encoded_bytes())
}

/// Waits until none of the processes runs any more and says whether that came true in time.
pub(super) fn wait_gone(pids: &[u32], limit: Duration) -> bool {
    wait_until(limit, || !pids.iter().any(|pid| stat(*pid).is_some()))
}

pub(super) fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL);
    }
}

/// Runs a command to its end or to the limit, and returns all that it printed.
pub(super) fn run(mut command: Command, limit: Duration) -> io::Result<(ExitStatus, String)> {
    let (mut reader, writer) = io::pipe()?;
    let mut child =
        command.stdin(std::process::Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the pipe's writing ends too; reading would not end before it is dropped.
    drop(command);
    let output = thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map(|_| String::from_utf8_lossy(&bytes).into_owned())
    });
    let mut ended = None;
    let in_time = wait_until(limit, || match child.try_wait() {
        Ok(None) => false,
        result => {
            ended = Some(result);
            true
        }
    });
    match (in_time, ended) {
        (true, Some(Ok(Some(status)))) => {
            let output = output.join().map_err(|_| io::Error::other("the reader of its output failed"))??;
            Ok((status, output))
        }
        (true, Some(Err(error))) => Err(error),
        _ => {
            child.kill()?;
            child.wait()?;
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("not done within {} s", limit.as_secs())))
        }
    }
}

/// The last lines of a text, in one.
pub(super) fn tail(text: &str) -> String {
    const LINES: usize = 8;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join(" | ")
}

struct Stat {
    name: String,
    parent: u32,
}

fn every() -> Vec<(u32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// None for one that is dead and only waits for its parent to notice.
fn parse_stat(text: &str) -> Option<Stat> {
    // The name may hold spaces and brackets of its own, so its end is the last one.
    let (head, rest) = text.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then(|| Stat { name: name.to_owned(), parent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_hold_spaces_and_brackets() {
        let stat = parse_stat("42 (a) b (c)) S 7 42 42 0").expect("a running process");
        assert_eq!((stat.name.as_str(), stat.parent), ("a) b (c)", 7));
    }

    #[test]
    fn a_dead_process_that_waits_for_its_parent_is_gone() {
        assert!(parse_stat("42 (postgres) Z 7 42 42 0").is_none());
    }

    #[test]
    fn a_postmaster_is_known_by_its_data_folder() {
        let line = b"/usr/bin/postgres\0-D\0/x/data\0-c\0fsync=on\0";
        assert!(names_data(line, Path::new("/x/data")));
        assert!(!names_data(line, Path::new("/x")));
    }

    #[test]
    fn the_tail_is_one_line() {
        assert_eq!(tail("a\n\n b \nc\n"), "a | b | c");
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let error = run(command, Duration::from_millis(50)).expect_err("it sleeps longer");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
