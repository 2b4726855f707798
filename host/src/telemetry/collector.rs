//! The collector that the environment names, by OpenTelemetry's variables: spans go there over HTTP.

use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use anyhow::Context as _;
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use rustls::ClientConfig;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::https::{self, ClientIdentity};
use terminal::BadArgument;

/// Any of them turns the export on.
const COLLECTOR: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
/// Trusted in place of the system's roots.
const ROOT: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
/// By which the collector knows us.
const CLIENT_CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
const CLIENT_KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
const REPLY_BYTES_MAX: usize = 64 * 1024;
/// OpenTelemetry's default.
const WITHIN: Duration = Duration::from_secs(10);

fn collector() -> Option<String> {
    COLLECTOR.iter().rev().find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
}

/// What payments are about does not travel in the clear where money is real.
pub(crate) fn check(production: bool) -> Result<(), BadArgument> {
    judge(production, collector().as_deref())
}

fn judge(production: bool, collector: Option<&str>) -> Result<(), BadArgument> {
    match collector {
        Some(plain) if production && !plain.starts_with("https:") => {
            Err(BadArgument::new(format!("the collector is {plain}, expected https: production is true")))
        }
        _ => Ok(()),
    }
}

pub(super) fn exporter() -> anyhow::Result<Option<SdkTracerProvider>> {
    if collector().is_none() {
        return Ok(None);
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(CollectorClient { runtime: Handle::current(), tls: tls()? })
        .build()
        .with_context(|| format!("{} names no collector that can be used", COLLECTOR.join(" or ")))?;
    let resource = Resource::builder().with_service_name("railhost").build();
    Ok(Some(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build()))
}

fn tls() -> anyhow::Result<Arc<ClientConfig>> {
    let file = |name: &str| -> anyhow::Result<Option<Vec<u8>>> {
        let Ok(path) = env::var(name) else { return Ok(None) };
        fs::read(&path).map(Some).with_context(|| format!("{name} is {path}, which cannot be read"))
    };
    let (root, certificate, key) = (file(ROOT)?, file(CLIENT_CERTIFICATE)?, file(CLIENT_KEY)?);
    https::tls(root.as_deref(), identity(certificate.as_deref(), key.as_deref())?)
}

/// Half of it would be left out silently, and the collector would turn us away without saying why.
fn identity<'p>(
    certificate: Option<&'p [u8]>,
    key: Option<&'p [u8]>,
) -> Result<Option<ClientIdentity<'p>>, BadArgument> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(ClientIdentity { certificate, key })),
        (None, None) => Ok(None),
        _ => Err(BadArgument::new(format!(
            "only one of {CLIENT_CERTIFICATE} and {CLIENT_KEY} is set, expected both or none"
        ))),
    }
}

/// Spans are sent by a thread of the exporter's own, which has no runtime: ours carries the request.
#[derive(Debug)]
struct CollectorClient {
    runtime: Handle,
    tls: Arc<ClientConfig>,
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let tls = self.tls.clone();
        let sent = async move { timeout(WITHIN, https::send(request, tls, REPLY_BYTES_MAX)).await };
        match self.runtime.spawn(sent).await? {
            Ok(answered) => Ok(answered?),
            Err(_) => Err(format!("the collector gave no answer within {} s", WITHIN.as_secs()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_takes_no_collector_in_the_clear() {
        for plain in ["http://collector:4317", "collector:4317", "HTTP://collector"] {
            let refused = judge(true, Some(plain)).expect_err("it is not encrypted").to_string();
            assert!(refused.contains(plain) && refused.contains("expected https"), "{refused}");
            judge(false, Some(plain)).expect("a host for development takes it");
        }
        judge(true, Some("https://collector:4317")).expect("it is encrypted");
        judge(true, None).expect("nothing travels");
    }

    #[test]
    fn a_client_certificate_without_its_key_is_refused_by_both_names() {
        let pem = || Some(b"pem".as_slice());
        for (certificate, key) in [(pem(), None), (None, pem())] {
            let refused = identity(certificate, key).expect_err("half of it").to_string();
            assert!(refused.contains(CLIENT_CERTIFICATE) && refused.contains(CLIENT_KEY), "{refused}");
        }
        assert!(identity(pem(), pem()).is_ok_and(|both| both.is_some()));
        assert!(identity(None, None).is_ok_and(|none| none.is_none()));
    }
}
