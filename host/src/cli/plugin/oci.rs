//! Components in a registry of container images: pushed by a name, pulled by a digest. A host never fetches anything by itself.
//!
//! An artifact is the component (`application/wasm`, as the layout for Wasm in OCI has it), and where they are given the rail file
//! and the signature over both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use rail::artifact::{self, Outline};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::oci_client::{Reference, RegistryClient};
use terminal::BadArgument;
use terminal::print::{out, out_json};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const COMPONENT: &str = "application/wasm";
const RAIL_FILE: &str = "application/vnd.symphony.rail.file.v1+toml";
const SIGNATURE: &str = "application/vnd.symphony.rail.signature.v1";
const COMPONENT_FILE: &str = "component.wasm";
/// The usual name of a layer's file.
const TITLE: &str = "org.opencontainers.image.title";
/// No manifest of ours comes near it.
const MANIFEST_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Args)]
pub(crate) struct Push {
    /// The component.
    component: PathBuf,
    /// Target: REGISTRY/NAME:TAG.
    #[arg(long, value_name = "REFERENCE")]
    to: String,
    /// The rail file that it runs with.
    #[arg(long, value_name = "FILE")]
    rail: Option<PathBuf>,
    /// The signature over both, from plugin sign.
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// Speak HTTP without TLS; on loopback that is usual.
    #[arg(long)]
    plain_http: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pull {
    /// Component to fetch: REGISTRY/NAME@sha256:DIGEST.
    reference: String,
    /// Where its files go; nothing that is there is overwritten.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Speak HTTP without TLS; on loopback that is usual.
    #[arg(long)]
    plain_http: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    media_type: String,
    config: Blob,
    layers: Vec<Blob>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Blob {
    media_type: String,
    digest: String,
    size: usize,
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    annotations: std::collections::BTreeMap<String, String>,
}

impl Blob {
    fn of(media_type: &str, bytes: &[u8], title: Option<&Path>) -> Self {
        let title = title
            .and_then(Path::file_name)
            .map(|name| (TITLE.to_owned(), name.to_string_lossy().into_owned()));
        Self {
            media_type: media_type.to_owned(),
            digest: digest(bytes),
            size: bytes.len(),
            annotations: title.into_iter().collect(),
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

impl Push {
    pub(super) async fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let to = Reference::parse(&self.to).map_err(BadArgument::new)?;
        if to.is_digest() {
            return Err(BadArgument::new(format!("--to is {:?}, expected REGISTRY/NAME:TAG", self.to)).into());
        }
        let component = artifact::read(&self.component)?;
        let outline = Outline::read(&component)?;
        let mut layers = vec![(Blob::of(COMPONENT, &component, Some(&self.component)), component)];
        for (media_type, path) in [(RAIL_FILE, &self.rail), (SIGNATURE, &self.signature)] {
            if let Some(path) = path {
                let bytes = fs::read(path).with_context(|| path.display().to_string())?;
                layers.push((Blob::of(media_type, &bytes, Some(path)), bytes));
            }
        }
        let config = serde_json::to_vec(&json!({
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": layers.iter().map(|(blob, _)| &blob.digest).collect::<Vec<_>>(),
            "component": { "exports": outline.exports, "imports": outline.imports },
        }))?;
        let client = RegistryClient::new(&to, self.plain_http)?;
        let config_blob = Blob::of(CONFIG, &config, None);
        client.put_blob(&config_blob.digest, config).await?;
        let mut blobs = Vec::new();
        for (blob, bytes) in layers {
            client.put_blob(&blob.digest, bytes).await?;
            blobs.push(blob);
        }
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST.to_owned(),
            config: config_blob,
            layers: blobs,
        };
        let manifest = serde_json::to_vec(&manifest)?;
        let pinned = to.with_digest(&digest(&manifest));
        client.put_manifest(&to.tag, MANIFEST, manifest).await?;
        match json {
            true => out_json(&json!({ "reference": pinned }))?,
            false => out(&format!("{pinned}\n"))?,
        };
        Ok(ExitCode::SUCCESS)
    }
}

/// A file of an artifact.
struct BlobPart {
    name: &'static str,
    bytes: Bytes,
}

impl Pull {
    pub(super) async fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let from = self.pinned()?;
        let client = RegistryClient::new(&from, self.plain_http)?;
        let manifest = fetch_manifest(&client, &from).await?;
        let parts = fetch_parts(&client, &manifest).await?;
        self.check_free(&parts)?;
        let written = self.write(&parts)?;
        tell(&written, json)?;
        Ok(ExitCode::SUCCESS)
    }

    fn pinned(&self) -> anyhow::Result<Reference> {
        let from = Reference::parse(&self.reference).map_err(BadArgument::new)?;
        if !from.is_digest() {
            let problem = format!(
                "{:?} is a tag, and a tag may be moved; expected REGISTRY/NAME@sha256:DIGEST, which plugin push prints",
                self.reference
            );
            return Err(BadArgument::new(problem).into());
        }
        Ok(from)
    }

    /// None of its files is there already.
    fn check_free(&self, parts: &[BlobPart]) -> anyhow::Result<()> {
        let there = parts.iter().map(|part| self.out.join(part.name)).find(|path| path.exists());
        match there {
            Some(there) => {
                let problem = format!("{} already exists; nothing was written", there.display());
                Err(BadArgument::new(problem).into())
            }
            None => Ok(()),
        }
    }

    /// Each path with the digest of its file.
    fn write(&self, parts: &[BlobPart]) -> anyhow::Result<Vec<(PathBuf, String)>> {
        fs::create_dir_all(&self.out).with_context(|| format!("{} cannot be made", self.out.display()))?;
        let mut written = Vec::new();
        for BlobPart { name, bytes } in parts {
            let path = self.out.join(name);
            fs::write(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))?;
            written.push((path, hex::encode(Sha256::digest(bytes))));
        }
        Ok(written)
    }
}

async fn fetch_manifest(client: &RegistryClient, from: &Reference) -> anyhow::Result<Manifest> {
    let manifest = client.manifest(&from.tag, MANIFEST, MANIFEST_BYTES_MAX).await?;
    if digest(&manifest) != from.tag {
        bail!("the registry returned a manifest other than {}", from.tag);
    }
    serde_json::from_slice(&manifest).context("its manifest")
}

/// The files of its layers, one of a kind, the component among them.
async fn fetch_parts(client: &RegistryClient, manifest: &Manifest) -> anyhow::Result<Vec<BlobPart>> {
    let mut parts: Vec<BlobPart> = Vec::new();
    for layer in &manifest.layers {
        let name = file_name(&layer.media_type)?;
        if parts.iter().any(|known| known.name == name) {
            bail!("it has two layers {:?}, expected one", layer.media_type);
        }
        parts.push(BlobPart { name, bytes: fetch_blob(client, layer, name).await? });
    }
    if !parts.iter().any(|part| part.name == COMPONENT_FILE) {
        bail!("it has no layer {COMPONENT:?}: it is not a component");
    }
    Ok(parts)
}

fn file_name(media_type: &str) -> anyhow::Result<&'static str> {
    Ok(match media_type {
        COMPONENT => COMPONENT_FILE,
        RAIL_FILE => "rail.toml",
        SIGNATURE => "component.wasm.sig",
        other => bail!("it has a layer {other:?}, expected a component, a rail file or a signature"),
    })
}

async fn fetch_blob(client: &RegistryClient, layer: &Blob, name: &str) -> anyhow::Result<Bytes> {
    let bytes_max = usize::try_from(artifact::BYTES_MAX).unwrap_or(usize::MAX);
    if layer.size > bytes_max {
        bail!("{name} has {} bytes; at most {bytes_max} are allowed", layer.size);
    }
    let bytes = client.blob(&layer.digest, layer.size).await?;
    if digest(&bytes) != layer.digest {
        bail!("the registry answers with another {name} than {}", layer.digest);
    }
    Ok(bytes)
}

fn tell(written: &[(PathBuf, String)], json: bool) -> anyhow::Result<()> {
    if json {
        let file = |(path, sha256): &(PathBuf, String)| json!({ "path": path, "sha256": sha256 });
        out_json(&json!({ "files": written.iter().map(file).collect::<Vec<_>>() }))?;
    } else {
        for (path, sha256) in written {
            out(&format!("{sha256}  {}\n", path.display()))?;
        }
    }
    Ok(())
}
