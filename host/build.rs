//! What is compiled in: the migrations, and the adapters of `plugins/`, built here as components.

#[path = "../plugins/components.rs"]
mod components;

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

/// Name of the adapter, file that its crate becomes.
const ADAPTERS: [(&str, &str); 1] = [("mock", "rail_mock.wasm")];

fn main() -> Result<(), Box<dyn Error>> {
    for path in
        ["migrations", "wit", "plugins/Cargo.toml", "plugins/Cargo.lock", "plugins/sdk", "plugins/mock"]
    {
        println!("cargo::rerun-if-changed=../{path}");
    }
    let out: PathBuf = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?.into();
    let built = components::build("../plugins", &[])?;
    for (name, file) in ADAPTERS {
        fs::copy(built.join(file), out.join(format!("{name}.wasm")))?;
    }
    Ok(())
}
