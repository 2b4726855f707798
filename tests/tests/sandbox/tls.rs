//! TLS to the rail: by a CA of ours or not at all, with a client certificate where the rail wants one.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use form::Meaning;
use harness::adapter_rig::{AdapterRig, PATIENT, guest};
use rail::CallReport;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use verdict::answer::CallResult;
use verdict::witness::Sent;

struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, for a server or a client.
struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("a CA"))
    }

    fn identity(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        Identity { certificate: parameters.signed_by(&key, &self.0).expect("signed"), key }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("a root");
        roots
    }
}

/// A rail that pays over TLS, on a free port.
async fn serve(authority: &Authority, name: &str, wants_client: bool) -> SocketAddr {
    let identity = authority.identity(name);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions");
    let builder = match wants_client {
        true => {
            let roots = Arc::new(authority.roots());
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots, provider).build().expect("a verifier");
            builder.with_client_cert_verifier(verifier)
        }
        false => builder.with_no_client_auth(),
    };
    let chain: Vec<CertificateDer<'static>> = vec![identity.certificate.der().clone()];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.key.serialize_der()));
    let config = builder.with_single_cert(chain, key).expect("a server");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut buffer = [0; 4096];
            if stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npaid").await.ok();
                stream.shutdown().await.ok();
            }
        }
    });
    address
}

async fn pay(rig: &AdapterRig, address: SocketAddr, network: &str) -> CallReport {
    let base = format!("https://localhost:{}", address.port());
    let file = rig
        .file(&guest("pays_and_tells"), PATIENT)
        .replace(&rig.rail.base(), &base)
        .replace("reach = \"loopback\"", &format!("reach = \"loopback\"\n{network}"));
    let loaded = rig.load_file(&file).await.unwrap_or_else(|error| panic!("{error}"));
    rig.disburse(&loaded).await
}

fn is_paid(attempt: &CallReport) -> bool {
    matches!(&attempt.heard, CallResult::Reading(reading) if reading.meaning == Some(Meaning::Success))
}

#[tokio::test]
async fn a_rail_is_trusted_by_the_configured_authority_and_by_its_name() {
    let (ours, strange) = (Authority::new(), Authority::new());
    let rig = AdapterRig::new().await;
    fs::write(rig.path("ca.pem"), ours.0.pem()).expect("written");
    let ca = "ca = \"ca.pem\"";

    let attempt = pay(&rig, serve(&ours, "localhost", false).await, ca).await;
    assert!(is_paid(&attempt), "{attempt:?}");
    for (what, address, network) in [
        ("another name", serve(&ours, "other.example", false).await, ca),
        ("another authority", serve(&strange, "localhost", false).await, ca),
        ("the system's roots", serve(&ours, "localhost", false).await, ""),
    ] {
        let attempt = pay(&rig, address, network).await;
        let CallResult::Unanswered(reason) = &attempt.heard else { panic!("{what}: {attempt:?}") };
        assert!(reason.contains("certificate"), "{what}: {reason}");
        assert_eq!(attempt.witness.money_left(), Sent::Nothing, "{what}");
    }
}

#[tokio::test]
async fn a_rail_that_wants_a_client_certificate_gets_it() {
    let ours = Authority::new();
    let rig = AdapterRig::new().await;
    let client = ours.identity("railhost");
    fs::write(rig.path("ca.pem"), ours.0.pem()).expect("written");
    fs::write(rig.path("client.pem"), client.certificate.pem()).expect("written");
    fs::write(rig.path("client.key"), client.key.serialize_pem()).expect("written");
    let address = serve(&ours, "localhost", true).await;
    let with = "ca = \"ca.pem\"\nclient = { certificate = \"client.pem\", key = { file = \"client.key\" } }";
    let attempt = pay(&rig, address, with).await;
    assert!(is_paid(&attempt), "{attempt:?}");
    assert!(!is_paid(&pay(&rig, address, "ca = \"ca.pem\"").await), "without it there is nothing");
}

#[tokio::test]
async fn it_is_known_when_certificates_end() {
    let ours = Authority::new();
    let rig = AdapterRig::new().await;
    let key = KeyPair::generate().expect("a key");
    let mut parameters = CertificateParams::new(vec!["railhost".to_owned()]).expect("parameters");
    parameters.not_after = rcgen::date_time_ymd(2031, 1, 1);
    let client = parameters.signed_by(&key, &ours.0).expect("signed");
    fs::write(rig.path("ca.pem"), ours.0.pem()).expect("written");
    fs::write(rig.path("client.pem"), client.pem()).expect("written");
    fs::write(rig.path("client.key"), key.serialize_pem()).expect("written");
    let network =
        "ca = \"ca.pem\"\nclient = { certificate = \"client.pem\", key = { file = \"client.key\" } }";
    let file = rig
        .file(&guest("pays_and_tells"), "")
        .replace("http://", "https://")
        .replace("reach = \"loopback\"", &format!("reach = \"loopback\"\n{network}"));
    let loaded = rig.load_file(&file).await.expect("it loads");
    let ends: Vec<_> = loaded.certificates().iter().map(|(what, end)| (what.as_str(), *end)).collect();
    assert_eq!(ends.iter().map(|(what, _)| *what).collect::<Vec<_>>(), ["ca", "client"]);
    assert_eq!(ends[1].1, 1_924_992_000, "the first second of 2031");
}
