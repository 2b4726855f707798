//! As whom the server runs.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::Error;

/// The unprivileged user that stands in for root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// None when we are not root: the server then runs as we do.
    pub(super) fn needed() -> Result<Option<Self>, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let found = named(&passwd, "postgres").or_else(|| named(&passwd, "nobody"));
        found.map(Some).ok_or(Error::NoAccount)
    }

    pub(super) fn owns(&self, file: &Metadata) -> bool {
        file.uid() == self.uid
    }

    /// Whether the account can reach what lies below `path`, as far as it exists already.
    pub(super) fn passes(&self, path: &Path) -> bool {
        path.ancestors().filter_map(|folder| fs::metadata(folder).ok()).all(|folder| {
            let bit = match () {
                () if folder.uid() == self.uid => 0o100,
                () if folder.gid() == self.gid => 0o010,
                () => 0o001,
            };
            folder.mode() & bit != 0
        })
    }
}

/// A command run as the account, with no variable of ours that could lead PostgreSQL astray (`PGDATA`, `PGPORT`, ...).
pub(super) fn command(program: impl AsRef<Path>, account: Option<Account>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env_clear().env("LC_ALL", "C");
    for kept in ["PATH", "LD_LIBRARY_PATH", "TZ"] {
        command.envs(std::env::var_os(kept).map(|value| (kept, value)));
    }
    if let Some(Account { uid, gid }) = account {
        command.uid(uid).gid(gid);
    }
    command
}

/// Gives a file to the account; when there is none, it is ours already.
pub(super) fn give(path: &Path, account: Option<Account>) -> Result<(), Error> {
    let Some(Account { uid, gid }) = account else { return Ok(()) };
    chown(path, Some(uid), Some(gid)).map_err(Error::io("change the owner of", path))
}

fn named(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let account = fields.next().filter(|field| *field == name)?;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        // An account with root's number is root, whatever its name.
        (!account.is_empty() && uid != 0).then_some(Account { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\n\
                          postgres2:x:7:7::/:\npostgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\n";

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        assert_eq!(named(PASSWD, "postgres"), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(named(PASSWD, "nobody"), Some(Account { uid: 65534, gid: 65533 }));
        assert_eq!(named(PASSWD, "post"), None);
    }

    #[test]
    fn root_under_another_name_is_not_taken() {
        assert_eq!(named("postgres:x:0:0::/:/bin/sh\n", "postgres"), None);
    }
}
