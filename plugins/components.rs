//! For build scripts: builds packages of this workspace as components, with the target added first if need be.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const TARGET: &str = "wasm32-wasip2";

/// Builds with the given arguments of cargo and answers with the folder that holds the components. `plugins` is the path of
/// this folder from the one of the build script.
pub(crate) fn build(plugins: &str, arguments: &[&str]) -> Result<PathBuf, Box<dyn Error>> {
    let out: PathBuf = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?.into();
    // target/<profile>/build/<crate>/out: one folder for all profiles, so that components are built once.
    let target = out.ancestors().nth(4).ok_or("OUT_DIR is not inside a target folder")?.join("plugins");
    ensure_target()?;
    let mut command = Command::new(env::var_os("CARGO").ok_or("CARGO is not set")?);
    command.current_dir(plugins).args(["build", "--release", "--locked", "--target", TARGET]);
    command.args(arguments).arg("--target-dir").arg(&target);
    // What the outer cargo was told is not meant for guests.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_TARGET_DIR",
    ] {
        command.env_remove(name);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("components do not build:\n{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(target.join(TARGET).join("release"))
}

fn ensure_target() -> Result<(), Box<dyn Error>> {
    let printed = Command::new(env::var_os("RUSTC").ok_or("RUSTC is not set")?)
        .args(["--print", "sysroot"])
        .output()?;
    let sysroot = String::from_utf8(printed.stdout)?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(());
    }
    println!("cargo::warning=adding the target {TARGET} with rustup, once");
    match Command::new("rustup").args(["target", "add", TARGET]).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("adapters need the target {TARGET}: rustup target add {TARGET}").into()),
    }
}
