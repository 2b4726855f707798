//! The attempt to become the owner of a folder.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::Error;
use super::place::ClusterFolder;

pub(super) struct FolderLock {
    wanted: PathBuf,
    place: Option<ClusterFolder>,
}

impl FolderLock {
    pub(super) fn new(wanted: PathBuf) -> Self {
        Self { wanted, place: None }
    }

    /// The folder and its lock, or nothing while another process has it.
    pub(super) async fn attempt(&mut self) -> Result<Option<(ClusterFolder, File)>, Error> {
        let (wanted, known) = (self.wanted.clone(), self.place.take());
        let attempt = blocking(move || {
            let place = known.map_or_else(|| ClusterFolder::prepare(&wanted), Ok)?;
            let lock = place.try_own()?;
            Ok((place, lock))
        });
        match attempt.await {
            Ok((place, Some(lock))) => Ok(Some((place, lock))),
            Ok((place, None)) => {
                self.place = Some(place);
                Ok(None)
            }
            // The guardian of a throwaway server removed the folder meanwhile; the next attempt makes it again.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The folder that the last attempt did not get.
    pub(super) fn place(&self) -> Option<&ClusterFolder> {
        self.place.as_ref()
    }
}

/// Keeps work that waits without yielding off the threads that drive futures.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
