//! Programs of others that some tests need: found on the machine, or unpacked from Debian's packages into `target/tools`,
//! which installs nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs};

use crate::railhost_binary::profile_folder;

/// A program, ready to be given its arguments, from one of these packages (its libraries among them).
pub fn tool(name: &str, packages: &[&str]) -> Command {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if let Some(found) = on_path(name) {
        return Command::new(found);
    }
    let _fetching = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = scratch().join(name);
    let program = ["usr/bin", "usr/sbin"].map(|bin| folder.join(bin).join(name));
    if !program.iter().any(|program| program.exists()) {
        unpack(packages, &folder).unwrap_or_else(|problem| {
            panic!("{name} is neither on this machine nor to be had from Debian's packages {packages:?}: {problem}")
        });
    }
    let program = program.into_iter().find(|program| program.exists()).expect("the package has the program");
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder.join("usr/lib").join(format!("{}-linux-gnu", env::consts::ARCH)));
    command
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let places = env::split_paths(&path).chain(["/usr/sbin".into()]);
    places.map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn scratch() -> PathBuf {
    profile_folder().with_file_name("tools").join("debian")
}

/// Into a folder beside it first: a fetch that is cut off leaves nothing that looks whole.
fn unpack(packages: &[&str], folder: &Path) -> Result<(), String> {
    let parent = folder.parent().ok_or("no folder")?;
    fs::create_dir_all(parent).map_err(|error| error.to_string())?;
    let fetching = tempfile::tempdir_in(parent).map_err(|error| error.to_string())?;
    let whole = fetching.path().join("whole");
    let download =
        || run(Command::new("apt-get").arg("download").args(packages).current_dir(fetching.path()));
    if download().is_err() {
        run(Command::new("apt-get").arg("update"))?;
        download()?;
    }
    for entry in fs::read_dir(fetching.path()).map_err(|error| error.to_string())?.flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(entry.path()).arg(&whole))?;
        }
    }
    fs::rename(&whole, folder).or_else(|error| if folder.exists() { Ok(()) } else { Err(error.to_string()) })
}

fn run(command: &mut Command) -> Result<(), String> {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr))),
    }
}
