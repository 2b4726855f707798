//! Compiled code on disk, by digest and engine, so that a start with a warm cache compiles nothing.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::artifact::Digest;
use super::error::LoadError;

/// A folder that nobody but this host's user may write to.
#[derive(Debug, Clone)]
pub(super) struct Cache(PathBuf);

/// Whether code came from the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Warm,
    Compiled,
}

impl Cache {
    pub(super) fn open(folder: &Path) -> Result<Self, LoadError> {
        let failed = |problem: String| LoadError::Cache(format!("{}: {problem}", folder.display()));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed(error.to_string()))?;
        let facts = fs::symlink_metadata(folder).map_err(|error| failed(error.to_string()))?;
        if !facts.is_dir() || facts.uid() != rustix::process::geteuid().as_raw() || facts.mode() & 0o022 != 0
        {
            return Err(failed("must be a folder of this user's that nobody else may write to".to_owned()));
        }
        Ok(Self(folder.to_owned()))
    }

    pub(super) fn component(
        &self,
        engine: &Engine,
        digest: &Digest,
        bytes: &[u8],
    ) -> Result<(Component, Found), LoadError> {
        let path = self.0.join(format!("{digest}-{}.cwasm", engine_name(engine)));
        if path.exists() {
            // A file that does not fit, or is cut short, is compiled again.
            match read(engine, &path) {
                Ok(component) => return Ok((component, Found::Warm)),
                Err(error) => tracing::warn!(path = %path.display(), %error, "compiled code cannot be used"),
            }
        }
        let code =
            engine.precompile_component(bytes).map_err(|error| LoadError::Compile(format!("{error:#}")))?;
        self.write(&path, &code).map_err(|error| LoadError::Cache(format!("{}: {error}", path.display())))?;
        let component = read(engine, &path).map_err(|error| LoadError::Compile(format!("{error:#}")))?;
        Ok((component, Found::Compiled))
    }

    /// Whole or not at all, whoever else is writing the same file.
    fn write(&self, path: &Path, code: &[u8]) -> std::io::Result<()> {
        let draft = self.0.join(format!(".{}", uuid::Uuid::new_v4()));
        let mut file = fs::File::create_new(&draft)?;
        file.write_all(code)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    }
}

#[expect(
    unsafe_code,
    reason = "compiled code is native code: there is no way to load it that the compiler could check"
)]
fn read(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the file was written by `Cache::write` from this engine's own output, and stands in a folder that `Cache::open`
    // found to be writable by this user alone. A third party's compiled code never gets here; wasmtime itself refuses files
    // of another version or configuration.
    unsafe { Component::deserialize_file(engine, path) }
}

fn engine_name(engine: &Engine) -> String {
    struct Collect(Sha256);
    impl Hasher for Collect {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut collect = Collect(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut collect);
    hex::encode(&collect.0.finalize()[..8])
}
