//! Connections to a rail: by checked addresses only, with a count of what was written on each.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use form::RequestTarget;
use hyper::body::{Body, Frame, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Reach, refusal};
use super::failure::NoWholeReply;
use verdict::witness::{Denial, GateRule};

/// How names become addresses; tests bring their own.
pub trait Resolve: Send + Sync + std::fmt::Debug {
    fn resolve(&self, host: &str, port: u16)
    -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy)]
pub struct Resolver;

impl Resolve for Resolver {
    fn resolve(
        &self,
        host: &str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        let host = (host.to_owned(), port);
        Box::pin(
            async move { Ok(tokio::net::lookup_host(host).await?.map(|address| address.ip()).collect()) },
        )
    }
}

/// The head of a reply has to fit in; it starts smaller.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;

#[derive(Debug)]
pub(crate) struct Dialer {
    pub reach: Reach,
    pub timeout: Duration,
    /// None where no endpoint asks for it.
    pub tls: Option<Arc<ClientConfig>>,
    pub resolver: Arc<dyn Resolve>,
}

/// HTTP/1.1, one request at a time, so that what was written on it belongs to that request.
#[derive(Debug)]
pub(super) struct Connection {
    pub sender: SendRequest<WholeBody>,
    pub written: Arc<AtomicU64>,
    pub since: Instant,
    /// It has carried a request before, so the other side may have closed it meanwhile.
    pub used: bool,
}

impl Dialer {
    pub(super) async fn dial(&self, target: &RequestTarget) -> Result<Connection, NoWholeReply> {
        match timeout(self.timeout, self.connect(target)).await {
            Ok(connected) => connected,
            Err(_) => {
                let ms = self.timeout.as_millis();
                Err(NoWholeReply::Unreachable(format!("no connection to {} within {ms} ms", target.host)))
            }
        }
    }

    /// The name is resolved once, and what was checked is what is dialled.
    async fn connect(&self, target: &RequestTarget) -> Result<Connection, NoWholeReply> {
        let unreachable = |error: io::Error| NoWholeReply::Unreachable(format!("{}: {error}", target.host));
        let literal = target.host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let found = match literal {
            Ok(address) => vec![address],
            Err(_) => self.resolver.resolve(&target.host, target.port).await.map_err(unreachable)?,
        };
        // One address that may not be dialled makes the whole name suspect.
        if let Some((address, why)) =
            found.iter().find_map(|ip| refusal(*ip, self.reach).map(|why| (ip, why)))
        {
            return Err(denied(format!("{} resolves to {address}, {why}", target.host)));
        }
        let addresses: Vec<SocketAddr> =
            found.into_iter().map(|ip| SocketAddr::new(ip, target.port)).collect();
        let tcp = TcpStream::connect(&addresses[..]).await.map_err(unreachable)?;
        tcp.set_nodelay(true).map_err(unreachable)?;
        let written = Arc::new(AtomicU64::new(0));
        match (target.scheme.as_str(), &self.tls) {
            ("https", Some(tls)) => {
                let name = ServerName::try_from(target.host.clone())
                    .map_err(|error| denied(format!("{}: {error}", target.host)))?;
                let tls = TlsConnector::from(tls.clone()).connect(name, tcp).await.map_err(unreachable)?;
                start(tls, written).await
            }
            ("http", _) => start(tcp, written).await,
            (other, _) => return Err(denied(format!("the scheme {other} is not supported"))),
        }
        .map_err(|error| NoWholeReply::Unreachable(format!("{}: {error}", target.host)))
    }
}

fn denied(why: String) -> NoWholeReply {
    NoWholeReply::Denied(Denial::new(GateRule::Address, why))
}

async fn start<S>(stream: S, written: Arc<AtomicU64>) -> hyper::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let counted = Counted { stream, written: written.clone() };
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(BUFFER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .handshake(TokioIo::new(counted))
        .await?;
    tokio::spawn(async move {
        // Its failure is the failure of the request that it carries.
        connection.await.ok();
    });
    Ok(Connection { sender, written, since: Instant::now(), used: false })
}

/// A stream that counts what was handed to it. Under TLS a counted byte may still wait in a buffer: the count errs towards
/// "it left".
struct Counted<S> {
    stream: S,
    written: Arc<AtomicU64>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // Before it is known: a write that fails may have sent a part of it.
        self.written.fetch_add(bytes.len() as u64, Ordering::AcqRel);
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_pending() {
            self.written.fetch_sub(bytes.len() as u64, Ordering::AcqRel);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A body that is there as a whole, and remembers that it was asked for.
#[derive(Debug)]
pub(super) struct WholeBody {
    pub data: Option<Bytes>,
    pub polled: Arc<AtomicBool>,
}

impl Body for WholeBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.polled.store(true, Ordering::Release);
        Poll::Ready(self.data.take().filter(|data| !data.is_empty()).map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}
