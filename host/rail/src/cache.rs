//! Compiled code on disk, by digest and engine, so that a start with a warm cache compiles nothing.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use wasmtime::Engine;
use wasmtime::component::Component;

use super::artifact::one_line;
use super::compile::Compiler;
use super::engine::engine_name;
use super::error::LoadError;
use verdict::digest::Digest;

/// No compilation takes as long.
const DRAFT_AGE_MAX: Duration = Duration::from_secs(3600);

/// A folder that nobody but this host's user may write to.
#[derive(Debug, Clone)]
pub(super) struct Cache(PathBuf);

/// Whether code came from the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeOrigin {
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
            return Err(failed(
                "must be a folder owned by this user that nobody else can write to".to_owned(),
            ));
        }
        remove_drafts(folder).map_err(|error| failed(error.to_string()))?;
        Ok(Self(folder.to_owned()))
    }

    pub(super) async fn component(
        &self,
        engine: &Engine,
        compiler: &Compiler,
        digest: &Digest,
        bytes: Vec<u8>,
    ) -> Result<(Component, CodeOrigin), LoadError> {
        let path = self.0.join(format!("{digest}-{}.cwasm", engine_name(engine)));
        if path.exists() {
            // A file that does not fit, or is cut short, is compiled again.
            match load(engine, &path).await? {
                Ok(component) => return Ok((component, CodeOrigin::Warm)),
                Err(error) => tracing::warn!(path = %path.display(), %error, "compiled code cannot be used"),
            }
        }
        let failed = |error: std::io::Error| LoadError::Cache(format!("{}: {error}", path.display()));
        let draft = Draft::new(&self.0).map_err(failed)?;
        compiler.compile(&bytes, draft.file.try_clone().map_err(failed)?).await?;
        draft.keep_as(&path).await.map_err(failed)?;
        let component = load(engine, &path)
            .await?
            .map_err(|error| LoadError::Compile(one_line(&format!("{error:#}"))))?;
        Ok((component, CodeOrigin::Compiled))
    }
}

/// Code on its way into the cache: whole or not at all, whoever else is writing the same file.
struct Draft {
    path: PathBuf,
    file: fs::File,
}

impl Draft {
    fn new(folder: &Path) -> std::io::Result<Self> {
        let path = folder.join(format!(".{}", uuid::Uuid::new_v4()));
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { path, file })
    }

    async fn keep_as(self, path: &Path) -> std::io::Result<()> {
        let path = path.to_owned();
        tokio::task::spawn_blocking(move || {
            if self.file.metadata()?.len() == 0 {
                return Err(std::io::Error::other("the compiler wrote nothing"));
            }
            self.file.sync_all()?;
            fs::rename(&self.path, path)
        })
        .await?
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone already where the code was kept.
        fs::remove_file(&self.path).ok();
    }
}

/// Removes what hosts left behind that were killed while they compiled.
fn remove_drafts(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_draft = entry.file_name().as_encoded_bytes().starts_with(b".");
        let age = entry.metadata().and_then(|facts| facts.modified()).map(|since| since.elapsed());
        if is_draft && matches!(age, Ok(Ok(age)) if age > DRAFT_AGE_MAX) {
            // Another host may have been faster.
            fs::remove_file(entry.path()).ok();
        }
    }
    Ok(())
}

async fn load(engine: &Engine, path: &Path) -> Result<wasmtime::Result<Component>, LoadError> {
    let (engine, path) = (engine.clone(), path.to_owned());
    tokio::task::spawn_blocking(move || read(&engine, &path))
        .await
        .map_err(|error| LoadError::Compile(error.to_string()))
}

#[expect(
    unsafe_code,
    reason = "compiled code is native code: there is no way to load it that the compiler could check"
)]
fn read(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the file was written by a compiler of this host's own build for this engine, and stands in a folder that
    // `Cache::open` found to be writable by this user alone. A third party's compiled code never gets here; wasmtime itself
    // refuses files of another version or configuration.
    unsafe { Component::deserialize_file(engine, path) }
}
