//! The data folder: made whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use uuid::Uuid;

use super::binaries::{self, Binaries};
use super::place::{ClusterFolder, open_ours, unless_absent};
use super::{Error, Lifetime, account, process};

/// The superuser of every cluster of ours.
pub(super) const SUPERUSER: &str = "postgres";

const INITDB_LIMIT: Duration = Duration::from_secs(120);

/// Finds binaries that fit the cluster in the folder, making one if there is none, and returns them with the password.
pub(super) fn prepare(
    place: &ClusterFolder,
    wanted: Option<u32>,
    lifetime: Lifetime,
) -> Result<(Binaries, String), Error> {
    if let Some(found) = major_of(&place.data()) {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            return Err(Error::WrongMajor { folder: place.folder.clone(), found, wanted });
        }
        return Ok((binaries::find(Some(found))?, read_password(place)?));
    }
    let binaries = binaries::find(wanted)?;
    let password = write_password(place)?;
    create(place, &binaries, lifetime)?;
    Ok((binaries, password))
}

pub(super) fn read_password(place: &ClusterFolder) -> Result<String, Error> {
    let path = place.password();
    fs::read_to_string(&path).map(|text| text.trim_end().to_owned()).map_err(Error::io("read", &path))
}

/// The version of the cluster, if there is one.
fn major_of(data: &Path) -> Option<u32> {
    fs::read_to_string(data.join("PG_VERSION")).ok()?.trim().parse().ok()
}

/// A new one for a new cluster: one that is there already belongs to an initdb that did not get to its end.
fn write_password(place: &ClusterFolder) -> Result<String, Error> {
    let path = place.password();
    unless_absent(fs::remove_file(&path)).map_err(Error::io("remove", &path))?;
    let password = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let mut file = open_ours(&path, OpenOptions::new().write(true).create_new(true))?;
    writeln!(file, "{password}").and_then(|()| file.sync_all()).map_err(Error::io("write", &path))?;
    account::give(&path, place.account)?;
    Ok(password)
}

fn create(place: &ClusterFolder, binaries: &Binaries, lifetime: Lifetime) -> Result<(), Error> {
    place.remove_new_data();
    // Not every system has the better locale, and only trying tells.
    let mut output = String::new();
    for locale in ["C.UTF-8", "C"] {
        let new = place.new_data();
        match initdb(place, &new, binaries, lifetime, locale)? {
            Ok(()) => return fs::rename(&new, place.data()).map_err(Error::io("make", place.data())),
            Err(said) => output = said,
        }
    }
    Err(Error::Initdb { folder: place.folder.clone(), output })
}

fn initdb(
    place: &ClusterFolder,
    data: &Path,
    binaries: &Binaries,
    lifetime: Lifetime,
    locale: &str,
) -> Result<Result<(), String>, Error> {
    let mut command = account::command(binaries.bin.join("initdb"), place.account);
    command
        .arg("--pgdata")
        .arg(data)
        .arg("--pwfile")
        .arg(place.password())
        .args(["--username", SUPERUSER, "--auth=scram-sha-256", "--encoding=UTF8", "--data-checksums"])
        .arg(format!("--locale={locale}"))
        .current_dir(&place.folder);
    if lifetime == Lifetime::Throwaway {
        // Only initdb's own sync: what the server writes later it does sync.
        command.arg("--no-sync");
    }
    let (status, output) =
        process::run(command, INITDB_LIMIT).map_err(Error::io("run initdb in", &place.folder))?;
    Ok(if status.success() { Ok(()) } else { Err(process::tail(&output)) })
}
