//! The folder a server lives in, and the lock that says who owns it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Error;
use super::account::{self, Account};

/// A socket's path ends at 107 bytes, and `/.s.PGSQL.65535` needs 15 of them.
const SOCKET_FOLDER_BYTES: usize = 90;

const NEW_DATA: &str = "data.new-";

#[derive(Debug, Clone)]
pub(super) struct ClusterFolder {
    pub(super) folder: PathBuf,
    pub(super) account: Option<Account>,
}

impl ClusterFolder {
    /// Makes the folder, private to the user the server runs as.
    pub(super) fn prepare(wanted: &Path) -> Result<Self, Error> {
        let account = Account::needed()?;
        let wanted = std::path::absolute(wanted).map_err(Error::io("find", wanted))?;
        let folder = reachable(wanted, account)?;
        let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
            return Err(Error::Foreign { path: folder });
        };
        // With all links resolved, because /proc shows it so.
        let folder = parent.canonicalize().map_err(Error::io("find", parent))?.join(name);
        make(&folder, account)?;
        let place = Self { folder, account };
        // Before its mode and owner change: a mistaken path must not cost anyone their home.
        place.check_ours()?;
        close(&place.folder, account)?;
        Ok(place)
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Where an initdb works until its folder becomes `data` by one rename. Never the same twice, because the initdb
    /// of an owner that was killed may still be writing to its own.
    pub(super) fn new_data(&self) -> PathBuf {
        self.folder.join(format!("{NEW_DATA}{}", Uuid::new_v4().simple()))
    }

    /// Removes what initdbs before us did not finish.
    pub(super) fn remove_new_data(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(NEW_DATA)) {
            // One that is still being written to goes next time.
            fs::remove_dir_all(entry.path()).ok();
        }
    }

    pub(super) fn password(&self) -> PathBuf {
        self.folder.join("password")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// Makes the folder for the socket; a short one elsewhere when ours would make its path too long.
    pub(super) fn socket_folder(&self) -> Result<PathBuf, Error> {
        let mut folder = self.folder.join("socket");
        // PostgreSQL takes a list of folders, in which a comma or a quote has its own meaning.
        if folder.as_os_str().len() > SOCKET_FOLDER_BYTES || folder.to_string_lossy().contains([',', '"']) {
            folder = Path::new("/tmp").join(short_name(&self.folder));
        }
        make(&folder, self.account)?;
        close(&folder, self.account)?;
        Ok(folder)
    }

    /// Takes the folder for us, or says that another process has it.
    ///
    /// The lock is held by the open file: by us and by the guardian, which gets a copy, until both are gone.
    pub(super) fn try_own(&self) -> Result<Option<File>, Error> {
        let path = self.lock();
        let file = open_ours(&path, OpenOptions::new().read(true).write(true).create(true))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(Error::io("lock", &path)(errno.into())),
        }
        // The guardian of a throwaway server removes the file last of all; a lock on a removed file protects nothing.
        let locked = file.metadata().map_err(Error::io("look at", &path))?;
        let still_there =
            fs::metadata(&path).is_ok_and(|now| (now.dev(), now.ino()) == (locked.dev(), locked.ino()));
        Ok(still_there.then_some(file))
    }

    /// A folder with other people's files in it is not made ours, least of all a throwaway.
    fn check_ours(&self) -> Result<(), Error> {
        let mut entries = fs::read_dir(&self.folder).map_err(Error::io("read", &self.folder))?;
        let ours = entries.next().is_none() || self.lock().exists();
        if ours { Ok(()) } else { Err(Error::Foreign { path: self.folder.clone() }) }
    }
}

/// Opens a file in a folder that belongs to a less trusted user: never through a link.
pub(super) fn open_ours(path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    options.mode(0o600).custom_flags(no_follow).open(path).map_err(Error::io("open", path))
}

/// For removals: what is not there need not be removed.
pub(super) fn unless_absent(removal: io::Result<()>) -> io::Result<()> {
    removal.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Makes a folder unless it is there already; one that someone else made or links to is refused.
fn make(folder: &Path, account: Option<Account>) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("make", folder)(error));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(folder).map_err(Error::io("look at", folder))?;
    let us = rustix::process::geteuid().as_raw();
    match found.is_dir() && (found.uid() == us || account.is_some_and(|account| account.owns(&found))) {
        true => Ok(()),
        false => Err(Error::Foreign { path: folder.to_owned() }),
    }
}

/// Leaves a folder to the user that the server runs as, and to nobody else.
fn close(folder: &Path, account: Option<Account>) -> Result<(), Error> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))
        .map_err(Error::io("set the mode of", folder))?;
    account::give(folder, account)
}

/// The wanted folder with its parents made, or another one: root's projects often lie where only root can go.
fn reachable(wanted: PathBuf, account: Option<Account>) -> Result<PathBuf, Error> {
    let parent = wanted.parent().unwrap_or(&wanted);
    let passes = || account.is_none_or(|account| account.passes(parent));
    if passes() {
        DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(Error::io("make", parent))?;
        // Once more, for those just made: the mode that they got is subject to the umask.
        if passes() {
            return Ok(wanted);
        }
    }
    let folder = Path::new("/var/tmp").join(short_name(&wanted));
    tracing::warn!(
        wanted = %wanted.display(),
        folder = %folder.display(),
        "PostgreSQL does not run as root and its user cannot reach {}, so it lives in {}",
        wanted.display(),
        folder.display()
    );
    Ok(folder)
}

/// The same name for the same path, so that the next start finds the same cluster.
fn short_name(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    digest.iter().take(6).fold("railhost-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}
