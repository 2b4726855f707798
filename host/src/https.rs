//! One request over a connection of its own: for what is asked seldom, of servers that are not rails.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderValue};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Sends a request whose URI is absolute, and reads its reply up to a limit.
pub(crate) async fn send(
    mut request: Request<Bytes>,
    tls: Arc<ClientConfig>,
    reply_bytes_max: usize,
) -> anyhow::Result<Response<Bytes>> {
    let uri = request.uri().clone();
    let is_encrypted = uri.scheme_str() == Some("https");
    let authority = uri.authority().ok_or_else(|| anyhow!("{uri} names no server"))?;
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let port = authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    let tcp = TcpStream::connect((host.as_str(), port)).await?;
    let length = HeaderValue::from(request.body().len());
    request.headers_mut().insert(CONTENT_LENGTH, length);
    let named = authority.as_str().rsplit('@').next().unwrap_or_default();
    request.headers_mut().insert(HOST, HeaderValue::from_str(named)?);
    *request.uri_mut() =
        uri.path_and_query().map_or_else(|| Ok(Uri::from_static("/")), |path| path.as_str().parse())?;
    let request = request.map(Full::new);
    let reply = if is_encrypted {
        let name = ServerName::try_from(host)?;
        exchange(TokioIo::new(TlsConnector::from(tls).connect(name, tcp).await?), request).await?
    } else {
        exchange(TokioIo::new(tcp), request).await?
    };
    let (head, body) = reply.into_parts();
    let body =
        Limited::new(body, reply_bytes_max).collect().await.map_err(|error| anyhow!("its reply: {error}"))?;
    Ok(Response::from_parts(head, body.to_bytes()))
}

async fn exchange(
    connection: impl Read + Write + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<hyper::body::Incoming>, hyper::Error> {
    let (mut sender, connection) = http1::handshake(connection).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// By which a server knows us: a certificate and its key, in PEM.
#[derive(Debug)]
pub(crate) struct ClientIdentity<'p> {
    pub certificate: &'p [u8],
    pub key: &'p [u8],
}

/// Trusts the system's roots, or the one that is given.
pub(crate) fn tls(
    root: Option<&[u8]>,
    identity: Option<ClientIdentity<'_>>,
) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    match root {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.context("the certificate to trust is not PEM")?)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(Arc::new(match identity {
        None => config.with_no_client_auth(),
        Some(ClientIdentity { certificate, key }) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>();
            let key = PrivateKeyDer::from_pem_slice(key).context("the client's key is not PEM")?;
            config.with_client_auth_cert(chain.context("the client's certificate is not PEM")?, key)?
        }
    }))
}
