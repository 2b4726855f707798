use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use terminal::BadArgument;

/// Somebody else's queue, by a driver that speaks our protocol. Its runtime and its packages are no part of this project.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rival {
    pub name: String,
    pub language: String,
    /// The driver, to be started in the rival's folder.
    pub command: Vec<String>,
    /// Its best published settings, in words.
    pub settings: String,
    /// What it does not do.
    #[serde(default)]
    pub lacks: Vec<String>,
    #[serde(skip)]
    pub folder: PathBuf,
    /// As its driver tells it.
    #[serde(skip)]
    pub version: String,
}

/// Those in a folder, by name; none without one.
pub(super) fn find(folder: Option<&Path>) -> anyhow::Result<Vec<Rival>> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let folder = std::path::absolute(folder)?;
    let entries = fs::read_dir(&folder)
        .map_err(|error| BadArgument(format!("--rivals is {}: {error}", folder.display())))?;
    let mut rivals = Vec::new();
    for entry in entries {
        let file = entry?.path().join("rival.toml");
        if file.exists() {
            rivals.push(read(&file)?);
        }
    }
    rivals.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(rivals)
}

fn read(file: &Path) -> Result<Rival, BadArgument> {
    let wrong = |problem: &str| BadArgument(format!("{}: {problem}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    let rival: Rival = toml::from_str(&text).map_err(|error| wrong(error.message()))?;
    if rival.command.is_empty() {
        return Err(wrong("command is empty, expected a program and its arguments"));
    }
    Ok(Rival { folder: file.parent().unwrap_or(Path::new("")).to_owned(), ..rival })
}
