mod own;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use conformance::Case;
use rail::definition::Definition;
use rail_simulators::{Name, Padding, Simulator, SimulatorOptions};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::signal::unix::{SignalKind, signal};

pub use own::OwnRail;
use terminal::BadArgument;
use terminal::print::{out, say};

/// Of a rail that none of ours is.
const OWN_PORT: u16 = 7104;

/// Under its help.
pub const EXAMPLES: &str = "Examples:
  railhost simulate mtn
  railhost simulate --rail rail.toml --exchanges exchanges";

#[derive(Debug, Args)]
pub struct Simulate {
    /// mtn, airtel or bank.
    #[arg(required_unless_present = "file")]
    rail: Option<Name>,
    /// Or your own rail, given by its rail file. It answers with the recorded exchanges.
    #[arg(long = "rail", value_name = "FILE", conflicts_with = "rail", requires = "exchanges")]
    file: Option<PathBuf>,
    /// The recorded exchanges of your own rail: a folder of JSON files, or a file with one a line.
    #[arg(long, value_name = "PATH")]
    exchanges: Option<PathBuf>,
    /// Where it listens; each rail has a port of its own, which the rail files in config/ name.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// What happens to which payment: a file of rules. It can be changed over HTTP at any time.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Decides what `either` in the script picks.
    #[arg(long, default_value = "1")]
    seed: String,
    /// Do not deduplicate: pay again when a key is sent again.
    #[arg(long)]
    forgetful: bool,
    /// How Airtel wants its PIN padded.
    #[arg(long, value_enum, default_value = "pkcs1")]
    padding: PaddingName,
    /// Let Airtel accept unsigned requests too.
    #[arg(long)]
    unsigned: bool,
    /// Certificate chain in PEM, leaf first. Turns TLS on.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PaddingName {
    Pkcs1,
    OaepSha1,
    OaepSha256,
    OaepSha256Mgf1Sha1,
}

impl Simulate {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let port = self.rail.map_or(OWN_PORT, Name::port);
        let listen = self.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], port)));
        if !listen.ip().is_loopback() {
            return Err(BadArgument(format!("--listen is {listen}, expected an address of loopback")).into());
        }
        let script = match &self.script {
            None => String::new(),
            Some(file) => fs::read_to_string(file)
                .map_err(|error| BadArgument(format!("{}: {error}", file.display())))?,
        };
        let options = SimulatorOptions {
            listen,
            script,
            seed: self.seed.clone(),
            forgetful: self.forgetful,
            padding: match self.padding {
                PaddingName::Pkcs1 => Padding::Pkcs1,
                PaddingName::OaepSha1 => Padding::OaepSha1,
                PaddingName::OaepSha256 => Padding::OaepSha256,
                PaddingName::OaepSha256Mgf1Sha1 => Padding::OaepSha256Mgf1Sha1,
            },
            unsigned: self.unsigned,
            tls: self.tls()?,
            ..SimulatorOptions::new(self.rail.unwrap_or(Name::Mtn))
        };
        let (name, started) = match (&self.file, &self.exchanges) {
            (Some(file), Some(place)) => {
                let definition = Definition::load(file)?;
                let cases = Case::load_all(place).map_err(BadArgument)?;
                (
                    definition.name.clone(),
                    Simulator::play(Box::new(OwnRail::new(&definition, cases)), options).await,
                )
            }
            _ => (options.rail.to_string(), Simulator::start(options).await),
        };
        let simulator = started.map_err(|error| BadArgument(format!("{name} on {listen}: {error}")))?;
        let base = simulator.base();
        say(&format!(
            "{name} is simulated on {base}; {base}/_sim/counts, /_sim/ledger and /_sim/ledger/KEY tell what happened, PUT {base}/_sim/script changes what will. Ctrl-C ends it."
        ));
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        out(&(serde_json::to_string_pretty(&simulator.counts())? + "\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    fn tls(&self) -> anyhow::Result<Option<Arc<ServerConfig>>> {
        let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) else { return Ok(None) };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .with_context(|| certificate.display().to_string())?;
        let key = PrivateKeyDer::from_pem_file(key).with_context(|| key.display().to_string())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Some(Arc::new(config)))
    }
}
