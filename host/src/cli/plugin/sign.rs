use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use rail::artifact::{self, Pair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use verdict::digest::Digest;

use terminal::print::{out, out_json};
use terminal::{BadArgument, exit};

#[derive(Debug, Args)]
pub(crate) struct NewKey {
    /// Where the private key goes; the public one is printed.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct SignArgs {
    /// The component.
    component: PathBuf,
    /// The rail file that it will run with, in its final form.
    #[arg(long, value_name = "FILE")]
    rail: PathBuf,
    /// The private key, as `plugin key` wrote it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Where to write the signature. Default: beside the component, with .sig added to its name.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The component.
    component: PathBuf,
    /// The rail file that it runs with.
    #[arg(long, value_name = "FILE")]
    rail: PathBuf,
    /// Its signature.
    #[arg(long, value_name = "FILE")]
    signature: PathBuf,
    /// A public key, 64 hexadecimal digits; may be given several times.
    #[arg(long, value_name = "KEY", required = true)]
    trusted: Vec<String>,
}

impl NewKey {
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let none = |_| anyhow!("no key could be made");
        let pair = Ed25519KeyPair::generate().map_err(none)?;
        let document = pair.to_pkcs8().map_err(none)?;
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.out)
            .with_context(|| format!("{} cannot be written", self.out.display()))?;
        file.write_all(pem(document.as_ref()).as_bytes())?;
        let public = hex::encode(pair.public_key().as_ref());
        match json {
            true => out_json(&json!({ "public_key": public, "private_key": self.out }))?,
            false => out(&format!(
                "private key  {} (keep it)
public key   {public}
In a rail file: signature = {{ file = \"adapter.wasm.sig\", trusted = [\"{public}\"] }}\n",
                self.out.display()
            ))?,
        };
        Ok(ExitCode::SUCCESS)
    }
}

fn pem(document: &[u8]) -> String {
    let text = STANDARD.encode(document);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

/// A component and a rail file, by their digests.
fn read_pair(component: &Path, rail: &Path) -> anyhow::Result<Pair> {
    let text = fs::read(rail).with_context(|| format!("{} cannot be read", rail.display()))?;
    let pair = Pair { component: Digest::of(&artifact::read(component)?), file: Digest::of(&text) };
    let file: toml::Table = toml::from_str(&String::from_utf8_lossy(&text))
        .map_err(|error| BadArgument(format!("{}: {}", rail.display(), error.message())))?;
    let pinned = file.get("sha256").and_then(toml::Value::as_str).unwrap_or("nothing");
    match pinned == pair.component.to_string() {
        true => Ok(pair),
        false => Err(BadArgument(format!(
            "{}: sha256 is {pinned}, expected that of the component: {}",
            rail.display(),
            pair.component
        ))
        .into()),
    }
}

impl SignArgs {
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let text = fs::read(&self.key).with_context(|| format!("{} cannot be read", self.key.display()))?;
        let unsound = || BadArgument(format!("{} is not an Ed25519 key in PEM (PKCS#8)", self.key.display()));
        let document = PrivatePkcs8KeyDer::from_pem_slice(&text).map_err(|_| unsound())?;
        let pair = Ed25519KeyPair::from_pkcs8(document.secret_pkcs8_der()).map_err(|_| unsound())?;
        let signed = read_pair(&self.component, &self.rail)?;
        let signature = hex::encode(pair.sign(&signed.signed_text()).as_ref());
        let path = self.out.unwrap_or_else(|| {
            let mut name = self.component.into_os_string();
            name.push(".sig");
            name.into()
        });
        fs::write(&path, format!("{signature}\n"))
            .with_context(|| format!("{} cannot be written", path.display()))?;
        match json {
            true => out_json(
                &json!({ "sha256": signed.component.to_string(), "file_sha256": signed.file.to_string(), "signature": path }),
            )?,
            false => out(&format!(
                "component  {}\nfile       {}\nsignature  {}\n",
                signed.component,
                signed.file,
                path.display()
            ))?,
        };
        Ok(ExitCode::SUCCESS)
    }
}

impl Verify {
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let pair = read_pair(&self.component, &self.rail)?;
        let text = fs::read_to_string(&self.signature)
            .with_context(|| format!("{} cannot be read", self.signature.display()))?;
        let mut keys = Vec::new();
        for key in &self.trusted {
            let bytes = hex::decode(key).ok().and_then(|bytes| bytes.try_into().ok());
            keys.push(bytes.ok_or_else(|| {
                BadArgument(format!("{key} is not a public key, expected 64 hexadecimal digits"))
            })?);
        }
        let good =
            hex::decode(text.trim()).is_ok_and(|signature| artifact::is_signed(&pair, &signature, &keys));
        match (json, good) {
            (true, _) => {
                let (component, file) = (pair.component.to_string(), pair.file.to_string());
                out_json(&json!({ "sha256": component, "file_sha256": file, "signed": good }))?
            }
            (false, true) => out("The component with this rail file is signed by a trusted key.\n")?,
            (false, false) => out("The component and this rail file are NOT signed by any of these keys.\n")?,
        };
        Ok(if good { ExitCode::SUCCESS } else { exit::refused_some() })
    }
}
