//! The migrations are compiled in: the numbered files by sqlx, the functions by the list that is written here.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

const FUNCTIONS: &str = "../../migrations/functions";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=../../migrations");
    let mut list = String::from("&[\n");
    for folder in sorted(Path::new(FUNCTIONS))? {
        for file in sorted(&folder)? {
            let (folder, name) = (folder.file_name().ok_or("a folder")?, file.file_stem().ok_or("a file")?);
            let name = format!("{}/{}", folder.display(), name.display());
            let path = format!("/{FUNCTIONS}/{name}.sql");
            writeln!(
                list,
                "    FunctionFile {{ name: {name:?}, sql: include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?})) }},"
            )?;
        }
    }
    list.push(']');
    let out: PathBuf = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?.into();
    Ok(fs::write(out.join("functions.rs"), list)?)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.sort();
    Ok(paths)
}
