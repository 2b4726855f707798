//! The process that ends a server whose owner died, even by `kill -9`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use super::place::ClusterFolder;
use super::process::wait_until;
use super::{Error, Lifetime, account};

/// Longer than the guardian's own limits: it tries up to three signals, 10 s each.
const LIMIT: Duration = Duration::from_secs(40);

#[derive(Debug)]
pub(super) struct Guardian {
    child: Child,
    /// The last word is said by closing it.
    pipe: Option<ChildStdin>,
    /// Removed when the guardian is done, where its user lacks the right to.
    remove: Option<PathBuf>,
}

/// What the guardian has to end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Watched {
    /// A server that is about to be started.
    Soon,
    Pid(u32),
    Nothing,
}

impl Guardian {
    /// Starts it with a copy of the lock, so that nobody takes the folder before it is done.
    pub(super) fn start(
        place: &ClusterFolder,
        socket_folder: &Path,
        lifetime: Lifetime,
        lock: &File,
    ) -> Result<Self, Error> {
        let (signals, word) = match lifetime {
            Lifetime::Kept => ("INT QUIT KILL", "kept"),
            Lifetime::Throwaway => ("QUIT KILL", "throwaway"),
        };
        let lock = lock.try_clone().map_err(Error::io("share the lock of", &place.folder))?;
        let mut child = account::command("/bin/sh", place.account)
            .args(["-c", include_str!("guard.sh"), "railhost-guardian", signals, word])
            .args([place.folder.as_path(), socket_folder])
            // It needs `rm` and `sleep`, whatever the owner's PATH is.
            .env("PATH", "/usr/bin:/bin:/run/current-system/sw/bin")
            .current_dir(&place.folder)
            .stdin(Stdio::piped())
            .stdout(lock)
            .stderr(Stdio::null())
            // Ctrl-C goes to the whole group in the foreground, and must not reach this one.
            .process_group(0)
            .spawn()
            .map_err(Error::io("start a guardian in", &place.folder))?;
        let pipe = child.stdin.take();
        let remove = (lifetime == Lifetime::Throwaway).then(|| place.folder.clone());
        Ok(Self { child, pipe, remove })
    }

    /// An error means that the guardian is no more.
    pub(super) fn watch(&mut self, watched: Watched) -> io::Result<()> {
        let line = match watched {
            Watched::Soon => "soon\n".to_owned(),
            Watched::Pid(pid) => format!("{pid}\n"),
            Watched::Nothing => "none\n".to_owned(),
        };
        self.pipe.as_mut().map_or(Ok(()), |pipe| pipe.write_all(line.as_bytes()))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.pipe = None;
        if !wait_until(LIMIT, || !matches!(self.child.try_wait(), Ok(None))) {
            self.child.kill().and_then(|()| self.child.wait()).ok();
        }
        if let Some(folder) = &self.remove {
            fs::remove_dir(folder).ok();
        }
    }
}
