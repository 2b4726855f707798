//! The adapters of `plugins/` are compiled in, built here as components.

#[path = "../../plugins/components.rs"]
mod components;

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const ADAPTERS: [&str; 5] = ["airtel", "bank", "mock", "mtn", "template"];

fn main() -> Result<(), Box<dyn Error>> {
    for path in ["wit", "plugins/Cargo.toml", "plugins/Cargo.lock", "plugins/sdk"] {
        println!("cargo::rerun-if-changed=../../{path}");
    }
    let out: PathBuf = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?.into();
    let built = components::build("../../plugins", &[])?;
    for name in ADAPTERS {
        println!("cargo::rerun-if-changed=../../plugins/{name}");
        fs::copy(built.join(format!("rail_{name}.wasm")), out.join(format!("{name}.wasm")))?;
    }
    Ok(())
}
