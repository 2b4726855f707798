//! TLS as a rail file asks for it: system roots or one CA, and a client certificate where the rail wants one.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret;

use super::super::definition::Definition;
use super::super::error::LoadError;
use super::super::file;

/// How a rail is spoken to.
#[derive(Debug, Default)]
pub(crate) struct TlsClient {
    pub config: Option<Arc<ClientConfig>>,
    /// `ca` and `client`, where the rail file gives them, and when the first certificate in each ends, in Unix seconds.
    pub certificates: Vec<(String, i64)>,
}

/// Empty where no endpoint asks for it: reading the system's roots takes longer than all the rest.
pub(crate) fn client(definition: &Definition) -> Result<TlsClient, LoadError> {
    if definition.form.steps().filter_map(|step| step.request.as_ref()).all(|r| r.target.scheme != "https") {
        return Ok(TlsClient::default());
    }
    let mut ends = Vec::new();
    let network = &definition.file.network;
    let failed = |key: &str, problem: String| LoadError::Network(format!("network.{key}: {problem}"));
    let mut roots = RootCertStore::empty();
    match &network.ca {
        Some(path) => {
            let path = definition.path(path);
            let found = certificates(&path).map_err(|problem| failed("ca", problem))?;
            ends.extend(first_end(&found).map(|end| ("ca".to_owned(), end)));
            for certificate in found {
                roots.add(certificate).map_err(|error| failed("ca", error.to_string()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| LoadError::Network(error.to_string()))?
        .with_root_certificates(roots);
    let mut config = match &network.client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let chain = certificates(&definition.path(&client.certificate))
                .map_err(|problem| failed("client.certificate", problem))?;
            ends.extend(first_end(&chain).map(|end| ("client".to_owned(), end)));
            let pem = definition.read("network.client.key", &client.key)?;
            let key = PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
                .map_err(|_| failed("client.key", "expected a private key in PEM".to_owned()))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| failed("client", error.to_string()))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsClient { config: Some(Arc::new(config)), certificates: ends })
}

fn first_end(certificates: &[CertificateDer<'_>]) -> Option<i64> {
    let end = |der: &CertificateDer<'_>| {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        Some(certificate.validity().not_after.timestamp())
    };
    certificates.iter().filter_map(end).min()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = file::read(path, file::SMALL_BYTES_MAX)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("{}: expected certificates in PEM", path.display())),
    }
}
