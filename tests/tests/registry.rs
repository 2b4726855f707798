//! Components in a registry of container images: `docker-registry` keeps them, `skopeo` reads what was pushed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::port::Port;
use harness::tool::tool;
use harness::{PATIENCE, railhost};
use serde_json::Value;
use tempfile::TempDir;

/// Ended with the test.
struct Registry {
    process: Child,
    port: Port,
    _folder: TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Registry {
    fn start() -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), Port::reserve());
        let config = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{}\n",
            folder.path().display(),
            port.number
        );
        let file = folder.path().join("registry.yml");
        fs::write(&file, config).expect("written");
        let process = tool("docker-registry", &["docker-registry"])
            .arg("serve")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the registry runs");
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port.number)).is_err() {
            assert!(began.elapsed() < PATIENCE, "the registry does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { process, port, _folder: folder }
    }
}

fn said(command: &mut Command) -> (bool, String) {
    let done = command.output().expect("it runs");
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    (done.status.success(), said)
}

/// Debian's tool for such registries.
fn skopeo() -> Command {
    tool(
        "skopeo",
        &[
            "skopeo",
            "libgpgme11",
            "libdevmapper1.02.1",
            "libassuan0",
            "libgpg-error0",
            "libsubid4",
            "libostree-1-1",
        ],
    )
}

#[test]
fn what_was_pushed_is_pulled_by_its_digest_and_read_by_others() {
    let (registry, folder) = (Registry::start(), tempfile::tempdir().expect("a folder"));
    let at = |name: &str| folder.path().join(name);
    let (done, told) = said(railhost().args(["plugin", "extract", "mtn", "--out"]).arg(at("mtn.wasm")));
    assert!(done, "{told}");
    let rail = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/rails/mtn.toml");
    let place = format!("127.0.0.1:{}/rails/mtn", registry.port.number);
    let push = || {
        let mut push = railhost();
        push.args(["plugin", "push"])
            .arg(at("mtn.wasm"))
            .arg("--rail")
            .arg(&rail)
            .args(["--to", &format!("{place}:1.0")]);
        push
    };
    let (done, pinned) = said(&mut push());
    assert!(done, "{pinned}");
    assert!(pinned.starts_with(&format!("{place}@sha256:")), "{pinned}");
    assert_eq!(said(&mut push()).1, pinned, "the same again has the same digest");

    let pull = |reference: &str, out: &str| {
        said(railhost().args(["plugin", "pull", reference, "--out"]).arg(at(out)))
    };
    let (done, told) = pull(pinned.trim(), "pulled");
    assert!(done, "{told}");
    assert_eq!(fs::read(at("pulled/component.wasm")).expect("read"), fs::read(at("mtn.wasm")).expect("read"));
    assert_eq!(fs::read(at("pulled/rail.toml")).expect("read"), fs::read(&rail).expect("read"));

    let (done, told) = pull(pinned.trim(), "pulled");
    assert!(!done && told.contains("already exists; nothing was written"), "{told}");
    let (done, told) = pull(&format!("{place}:1.0"), "other");
    assert!(
        !done && told.contains("expected REGISTRY/NAME@sha256:DIGEST") && !at("other").exists(),
        "{told}"
    );
    let (done, told) = pull(&format!("{place}@sha256:{}", "0".repeat(64)), "other");
    assert!(
        !done && told.contains("refuses to give the manifest: HTTP 404") && !at("other").exists(),
        "{told}"
    );

    // Read by a program that knows nothing of us.
    let mut skopeo = skopeo();
    let (done, manifest) =
        said(skopeo.args(["inspect", "--tls-verify=false", "--raw", &format!("docker://{place}:1.0")]));
    assert!(done, "{manifest}");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(manifest["layers"][0]["size"], fs::metadata(at("mtn.wasm")).expect("a file").len());
}

#[test]
fn a_registry_that_is_not_there_is_named() {
    let port = Port::reserve();
    let folder = tempfile::tempdir().expect("a folder");
    let reference = format!("127.0.0.1:{}/x@sha256:{}", port.number, "0".repeat(64));
    let (done, told) =
        said(railhost().args(["plugin", "pull", &reference, "--out"]).arg(folder.path().join("x")));
    assert!(!done && told.contains("at the registry 127.0.0.1"), "{told}");
}
