//! What a host tells machines about itself: alerts and dashboard that fit its metrics, spans for a collector.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use harness::host::{Host, Process, RAIL, enqueue, pay, until_all_have_a_verdict};
use harness::tool::tool;
use harness::{Db, PATIENCE, Pg};
use relayer::RelayerOptions;
use rustix::process::Signal;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

fn config(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config").join(name)
}

fn promtool(arguments: &[&str]) {
    let done = tool("promtool", &["prometheus"])
        .args(arguments)
        .current_dir(config("prometheus"))
        .output()
        .expect("promtool runs");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}{}", said(&done.stdout), said(&done.stderr));
}

#[test]
fn the_alert_rules_are_sound_and_fire_when_they_should_and_only_then() {
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
}

/// The names of metrics in an expression: words that are no function, label or range.
fn names(expression: &str) -> BTreeSet<String> {
    let (mut names, mut word, mut hidden) = (BTreeSet::new(), String::new(), 0);
    // Labels stand in brackets of some kind: those of `by (…)` as well.
    let labelled = expression.split("by (").enumerate().map(|(n, part)| match (n, part.split_once(')')) {
        (1.., Some((_, rest))) => rest,
        _ => part,
    });
    for char in labelled.collect::<String>().chars().chain([' ']) {
        match char {
            'a'..='z' | '0'..='9' | '_' | '$' => word.push(char),
            _ => {
                if hidden == 0 && char != '(' && word.contains('_') {
                    names.insert(word.clone());
                }
                word.clear();
                hidden += i32::from(matches!(char, '{' | '[')) - i32::from(matches!(char, '}' | ']'));
            }
        }
    }
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_that_alerts_and_dashboard_name_exists() {
    let db = Db::fresh(Pg::V18).await;
    let host = Host::start(&db, RelayerOptions::default()).await;
    enqueue(&db, &[pay("1.00")]).await;
    until_all_have_a_verdict(&db).await;
    // Of rails that have some.
    host.metrics.rails.certificate("mock", "client", 0);
    host.metrics.rails.float("mock", "ZMW", 1_000, false);
    let text = host.metrics.text().expect("metrics");
    host.drain().await;
    // A process knows besides which build it is.
    let process = Process::serving(&db, RAIL);
    process.until_page("/metrics", |text| !text.is_empty()).await;
    let text = text + &process.page("/metrics").await.1;
    let known: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(['{', ' ']).next().unwrap_or_default())
        .collect();

    let alerts = fs::read_to_string(config("prometheus/alerts.yml")).expect("rules");
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for expression in alerts.split("expr:").skip(1) {
        wanted.extend(names(
            expression.split("for:").next().and_then(|text| text.split("labels:").next()).unwrap_or_default(),
        ));
    }
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(config("grafana/railhost.json")).expect("a dashboard"))
            .expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets")) {
        wanted.extend(names(target["expr"].as_str().expect("an expression")));
    }
    assert!(wanted.len() > 20, "{wanted:?}");
    let strangers: Vec<_> = wanted.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(strangers.is_empty(), "{strangers:?} are not among {known:?}");
}

/// How a host begins to send spans.
const POSTED: &[u8; 16] = b"POST /v1/traces ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_go_to_a_collector_where_one_is_named_and_its_absence_harms_nothing() {
    let db = Db::fresh(Pg::V18).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let host = Process::with(&db, RAIL, "", &[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]);
    enqueue(&db, &[pay("1.00"), pay("1.17")]).await;
    until_all_have_a_verdict(&db).await;
    let comes = tokio::time::timeout(PATIENCE, listener.accept()).await.expect("in time");
    let (mut stream, _) = comes.expect("the host comes");
    let mut line = [0; 16];
    stream.read_exact(&mut line).await.expect("it speaks");
    drop(stream);
    assert_eq!(&line, POSTED);
    assert_eq!(host.end(Signal::TERM), Some(0), "though the collector hung up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_go_over_tls_to_the_collector_that_was_meant_and_to_no_other() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = parameters.self_signed(&key).expect("signed");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .expect("a server");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let folder = tempfile::tempdir().expect("a folder");
    let trusted = folder.path().join("collector.pem");
    fs::write(&trusted, certificate.pem()).expect("written");

    for is_trusted in [true, false] {
        let db = Db::fresh(Pg::V18).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("https://localhost:{}", listener.local_addr().expect("an address").port());
        let mut environment = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str())];
        let path = trusted.display().to_string();
        if is_trusted {
            environment.push(("OTEL_EXPORTER_OTLP_CERTIFICATE", &path));
        }
        let host = Process::with(&db, RAIL, "", &environment);
        enqueue(&db, &[pay("1.00")]).await;
        let comes = tokio::time::timeout(PATIENCE, listener.accept()).await.expect("in time");
        let (stream, _) = comes.expect("the host comes");
        let mut line = [0; 16];
        let spoken = match acceptor.accept(stream).await {
            Ok(mut stream) => stream.read_exact(&mut line).await.is_ok(),
            Err(_) => false,
        };
        assert_eq!(spoken && &line == POSTED, is_trusted, "trusted: {is_trusted}");
        until_all_have_a_verdict(&db).await;
        assert_eq!(host.end(Signal::TERM), Some(0), "payments go on without a collector");
    }
}
