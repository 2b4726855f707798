//! TLS to PostgreSQL: verified or not at all, with a client certificate where the server wants one.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use dev::embedded::{Server, ServerOptions};
use harness::port::Port;
use harness::sql::run;
use harness::{Db, DbUser, Pg, scratch_folder};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::{ConfigFolder, text};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("a CA"))
    }

    fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("ca.pem");
        fs::write(&path, self.0.pem()).expect("written");
        path
    }

    /// A certificate for a server's address and a user's name, and its key.
    fn identity(&self, folder: &Path, name: &str, common_name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        parameters.distinguished_name.push(DnType::CommonName, common_name);
        let certificate = parameters.signed_by(&key, &self.0).expect("signed");
        let paths = (folder.join(format!("{common_name}.pem")), folder.join(format!("{common_name}.key")));
        fs::write(&paths.0, certificate.pem()).expect("written");
        fs::write(&paths.1, key.serialize_pem()).expect("written");
        fs::set_permissions(&paths.1, fs::Permissions::from_mode(0o600)).expect("private");
        paths
    }
}

/// A server that speaks TLS on a port, and a folder with its CA.
async fn server(authority: &Authority) -> (Server, Db, PathBuf, Port) {
    let port = Port::reserve();
    let options = ServerOptions {
        major: Some(18),
        tcp_port: Some(port.number),
        ..ServerOptions::throwaway(scratch_folder("tls"))
    };
    let server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
    let folder = server.folder().join("data");
    let owner = fs::metadata(&folder).expect("a folder").uid();
    let ca = authority.write(&folder);
    let (certificate, key) = authority.identity(&folder, "127.0.0.1", "server");
    for path in [&ca, &certificate, &key] {
        chown(path, Some(owner), None).expect("given away");
    }
    let db = Db::on(Pg::V18, server.connect_options()).await;
    let mut owner = db.connect(DbUser::Superuser).await;
    for (name, value) in [
        ("ssl_ca_file", "ca.pem"),
        ("ssl_cert_file", "server.pem"),
        ("ssl_key_file", "server.key"),
        ("ssl", "on"),
    ] {
        run(&mut owner, &format!("alter system set {name} = '{value}'")).await;
    }
    run(&mut owner, "select pg_reload_conf()").await;
    harness::host::until_number(
        &db,
        "select count(*) from pg_settings where name = 'ssl' and setting = 'on'",
        |on| on == 1,
    )
    .await;
    (server, db, folder, port)
}

fn status(place: &ConfigFolder, url: &str) -> (Option<i32>, String) {
    let output = place.command(&["status"]).env("DATABASE_URL", url).output().expect("railhost runs");
    (output.status.code(), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_spoken_to_over_tls_only_where_it_is_the_one_that_was_meant() {
    let authority = Authority::new("ours");
    let (_server, db, folder, port) = server(&authority).await;
    let place = ConfigFolder::new(&db.url());
    let password = db.url();
    let password =
        password.split(':').nth(2).and_then(|rest| rest.split('@').next()).unwrap_or_default().to_owned();
    let url = |host: &str, mode: &str, ca: &Path| {
        format!(
            "postgres://postgres:{password}@{host}:{}/postgres?sslmode={mode}&sslrootcert={}",
            port.number,
            ca.display()
        )
    };
    let ca = folder.join("ca.pem");
    assert_eq!(status(&place, &url("127.0.0.1", "verify-full", &ca)).0, Some(0));
    let (code, said) = status(&place, &url("localhost", "verify-full", &ca));
    assert_eq!(code, Some(69), "another name: {said}");
    let stranger = tempfile::tempdir().expect("a folder");
    let (code, said) =
        status(&place, &url("127.0.0.1", "verify-full", &Authority::new("theirs").write(stranger.path())));
    assert_eq!(code, Some(69), "another CA: {said}");

    // Who logs in with a certificate needs no password, and nobody else gets in.
    let hba = folder.join("pg_hba.conf");
    let rules = fs::read_to_string(&hba).expect("read");
    fs::write(&hba, format!("hostssl all symphony_readonly 127.0.0.1/32 cert\n{rules}")).expect("written");
    run(&mut db.connect(DbUser::Superuser).await, "select pg_reload_conf()").await;
    let (certificate, key) = authority.identity(stranger.path(), "reader", "symphony_readonly");
    let reader = format!(
        "postgres://symphony_readonly@127.0.0.1:{}/postgres?sslmode=verify-full&sslrootcert={}",
        port.number,
        ca.display()
    );
    let with_certificate = format!("{reader}&sslcert={}&sslkey={}", certificate.display(), key.display());
    for (url, expected) in [(&with_certificate, Some(0)), (&reader, Some(69))] {
        place.write(
            "config/reader.toml",
            &format!("[database]\nurl = {:?}\n[database.logins]\nreadonly = {url:?}\n", db.url()),
        );
        let mut command = place.command(&["--config", "config/reader.toml", "status"]);
        let output = command.env_remove("DATABASE_URL").output().expect("railhost runs");
        assert_eq!(output.status.code(), expected, "{}", text(&output.stderr));
    }
}

#[test]
fn production_takes_no_connection_that_is_not_verified() {
    let place = ConfigFolder::new("unused");
    let production = "production = true\nrails = \"none\"\n";
    fs::create_dir_all(place.folder.path().join("config/none")).expect("a folder");
    for (url, refused) in [
        ("postgres://host/db", true),
        ("postgres://host/db?sslmode=require", true),
        ("postgres://host/db?sslmode=verify-ca", true),
        ("postgres://user@%2Fvar%2Frun%2Fpostgresql/db", false),
    ] {
        place.write("config/production.toml", &format!("{production}[database]\nurl = {url:?}\n"));
        let mut command = place.command(&["--config", "config/production.toml", "check"]);
        let output = command.env_remove("DATABASE_URL").output().expect("railhost runs");
        let said = text(&output.stderr);
        assert_eq!(said.contains("expected sslmode=verify-full"), refused, "{url}: {said}");
    }
}
