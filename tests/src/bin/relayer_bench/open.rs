//! Calls that are open: what the whole host takes for each, in plain and over TLS, and how many of them it holds. The rail is a
//! simulator in this process that keeps everybody waiting.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::rail_run::{rail_file, rails_folder, set};
use rail_simulators::{Name, Simulator, SimulatorOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;

use crate::bed::{Bed, enqueue, enqueue_amount, until};
use crate::row;

/// The first payment shows that the rail works; all others wait for longer than this takes.
const SCRIPT: &str = "amount 1.00: pay accept\notherwise: pay slow 600000";

pub(crate) async fn run(bed: &Bed) -> Result<()> {
    for (calls, secure) in
        [(bed.scale(2_000, 100), false), (bed.scale(2_000, 100), true), (bed.scale(15_000, 200), false)]
    {
        measure(bed, calls, secure).await?;
    }
    Ok(())
}

async fn measure(bed: &Bed, calls: usize, secure: bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tls = if secure { Some(Arc::new(tls(&folder)?)) } else { None };
    let simulator =
        Simulator::start(SimulatorOptions { tls, ..SimulatorOptions::new(Name::Mtn).script(SCRIPT) }).await?;
    let file = rail_file(Name::Mtn, &simulator.base(), |file| {
        file.remove("rate");
        file.remove("sla_seconds");
        set(file, "pace", "concurrency", calls as i64);
        set(file, "pace", "lease_seconds", 330);
        set(file, "timeouts", "call_ms", 300_000);
        set(file, "timeouts", "first_byte_ms", 300_000);
        if secure {
            set(file, "network", "ca", folder.path().join("ca.pem").display().to_string());
        }
    });
    let secrets = format!("{}/", rails_folder().join("simulated").display());
    let db = bed.fresh().await?;
    let host = bed.host(&db, &[("mtn", file.replace("simulated/", &secrets))], None)?;
    enqueue_amount(&db, "mtn", "first", 1, "1.00").await?;
    until(&db, "select count(*) from symphony.payment_outbox_pending", |rows| rows == 0.0).await?;
    let idle = host.resident()?;
    enqueue(&db, "mtn", "open", calls).await?;
    let waiting = "select count(*) from symphony.payment_outbox_pending where lease_token is not null";
    until(&db, waiting, |rows| rows >= calls as f64).await?;
    while (simulator.counts().requests as usize) < calls {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let open = host.resident()?;
    let how = if secure { "over TLS" } else { "in plain" };
    row(
        &format!("memory of a host with {calls} calls open {how}, above {idle:.0} MiB before"),
        &format!("{open:.0} MiB"),
        "–",
        &format!("{:.1} KiB a call", (open - idle) * 1024.0 / calls as f64),
        if secure { "reported" } else { "≤ 40 KiB a call, 15,000 within 1 GiB" },
    );
    Ok(())
}

fn tls(folder: &TempDir) -> Result<ServerConfig> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(["127.0.0.1".to_owned()])?.signed_by(&key, &authority)?;
    std::fs::write(folder.path().join("ca.pem"), authority.pem())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).ok().context("a key")?;
    Ok(ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)?)
}
