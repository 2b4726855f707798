//! The operator's page, followed literally: its commands and files are taken out of it and tried, on servers where only the first
//! two statements are a superuser's.

use std::env;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dev::embedded::{Server, ServerOptions};
use harness::sql::{column, run, scalar};
use harness::{PATIENCE, Pg, railhost_path, scratch_folder};
use rustix::process::{Pid, Signal, kill_process_group};
use sqlx::{Connection, PgConnection};

const SUPERUSER: &str = "postgres";
const PASSWORD: &str = "only-for-tests";
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn config(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands under a heading of a page, up to the next one of its kind.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).expect("the page has the section");
    rest.split("\n## ").next().expect("a text")
}

/// The blocks of one language, in their order.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let ends = |block: &str| block.split_once("\n```").map(|(inside, _)| format!("{inside}\n"));
    text.split(&fence).skip(1).map(|block| ends(block).expect("a block ends")).collect()
}

/// A server with nothing on it, and somebody at a shell who can reach it.
struct EmptyServer {
    server: Server,
    folder: PathBuf,
}

impl EmptyServer {
    async fn new(pg: Pg) -> Self {
        let options = ServerOptions {
            major: Some(pg.major()),
            ..ServerOptions::throwaway(scratch_folder("page-server"))
        };
        let server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
        let folder = scratch_folder("page");
        fs::create_dir_all(folder.join("home")).expect("made");
        let ground = Self { server, folder };
        let mut first = PgConnection::connect_with(&ground.server.connect_options())
            .await
            .expect("it accepts connections");
        run(&mut first, &format!("alter role {SUPERUSER} password '{PASSWORD}'")).await;
        ground.write("home/.pgpass", &format!("*:*:*:{SUPERUSER}:{PASSWORD}\n"));
        ground
    }

    async fn superuser(&self, database: &str) -> PgConnection {
        let options = self.server.connect_options().username(SUPERUSER).password(PASSWORD).database(database);
        PgConnection::connect_with(&options).await.expect("it accepts connections")
    }

    /// A file that nobody else may read.
    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
    }

    /// With what the page asks for in the environment, and nothing that was not asked for.
    fn command(&self, program: &str) -> Command {
        let path = env::var("PATH").unwrap_or_default();
        let own = railhost_path().parent().expect("a folder").display();
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", format!("{own}:{}:{path}", clients().display()))
            .env("HOME", self.folder.join("home"))
            .env("PGHOST", self.server.socket_folder())
            .env("PGPORT", self.server.connect_options().get_port().to_string());
        command
    }

    /// Runs commands as one types them, until the first that fails. Whatever they left running is ended.
    fn type_in(&self, commands: &str) -> (ExitStatus, String) {
        self.write("typed", commands);
        let said = self.folder.join("said");
        let heard = File::create(&said).expect("a file");
        let mut shell = self
            .command("bash")
            .args(["-e", "-v", "typed"])
            .stdout(heard.try_clone().expect("a file"))
            .stderr(heard)
            .process_group(0)
            .spawn()
            .expect("bash starts");
        let began = Instant::now();
        let ended = loop {
            match shell.try_wait().expect("waited") {
                None if began.elapsed() < PATIENCE => sleep(LOOK_EVERY),
                ended => break ended,
            }
        };
        // Gone already where all ended by itself.
        kill_process_group(Pid::from_child(&shell), Signal::KILL).ok();
        let status = ended.unwrap_or_else(|| shell.wait().expect("waited"));
        let mut text = String::from_utf8_lossy(&fs::read(&said).expect("read")).into_owned();
        text += &fs::read_to_string(self.folder.join("railhost/serve.log")).unwrap_or_default();
        (status, text)
    }
}

impl Drop for EmptyServer {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Where `psql` and `createdb` are, which not every PostgreSQL brings with it.
fn clients() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let distribution = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    env::split_paths(&path)
        .chain(distribution.map(|entry| entry.path().join("bin")))
        .find(|folder| ["psql", "createdb"].iter().all(|name| folder.join(name).is_file()))
        .expect("psql and createdb are on this machine; install PostgreSQL's client programs")
}

async fn the_page_leads_to_a_served_payment(pg: Pg) {
    let ground = EmptyServer::new(pg).await;
    let commands =
        blocks(section(&config("README.md"), "From an empty server to a served payment"), "sh").concat();
    let (status, said) = ground.type_in(&commands);
    assert!(status.success(), "{status} after:\n{said}");

    let mut superuser = ground.superuser("symphony").await;
    let paid =
        "select count(*) from symphony.payments where instruction_id = 'inv-1' and state = 'DISPATCHED'";
    assert_eq!(scalar::<i64>(&mut superuser, paid).await, 1, "{said}");
    let almighty = "select rolname::text from pg_roles where rolsuper and (rolname like 'symphony%' or rolname = 'railhost_owner')";
    assert_eq!(column::<String>(&mut superuser, almighty).await, Vec::<String>::new());
    let acts = "select format('%s %s', act, login) from symphony.operator_acts order by 1";
    assert_eq!(
        column::<String>(&mut superuser, acts).await,
        [
            "configure_rail railhost_owner",
            "load_rail symphony_executor",
            "pause_rail symphony_operator",
            "resume_rail symphony_operator",
        ]
    );
}

/// A live rail as the page says that it differs from the simulated one. It is only loaded, never called.
fn live_mtn(ground: &EmptyServer) {
    let extract = ["plugin", "extract", "mtn", "--out", "rails/mtn.wasm"];
    let pinned = ground.command("railhost").args(extract).output().expect("railhost runs");
    assert!(pinned.status.success(), "{pinned:?}");
    let made = ground
        .command("railhost")
        .args(["--json", "plugin", "key", "--out", "key.pem"])
        .output()
        .expect("railhost runs");
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let signature =
        format!("signature = {{ file = \"mtn.wasm.sig\", trusted = [{}] }}\n", made["public_key"]);
    let pinned = format!("{}{signature}", String::from_utf8_lossy(&pinned.stdout));
    let mut file = config("rails/mtn.toml");
    for (simulated, live) in [
        (
            "component = \"builtin:mtn\"
",
            pinned.as_str(),
        ),
        ("http://127.0.0.1:7101", "https://proxy.momoapi.mtn.com"),
        ("[network]\nreach = \"loopback\"\n", ""),
        ("simulated/", "secret-"),
    ] {
        assert!(file.contains(simulated), "{simulated}");
        file = file.replace(simulated, live);
    }
    ground.write("rails/mtn.toml", &file);
    let sign = ["plugin", "sign", "rails/mtn.wasm", "--rail", "rails/mtn.toml", "--key", "key.pem"];
    let signed = ground.command("railhost").args(sign).output().expect("railhost runs");
    assert!(signed.status.success(), "{signed:?}");
    for secret in ["mtn_api_user", "mtn_api_key", "mtn_subscription_key", "callback_key"] {
        ground.write(&format!("rails/secret-{secret}"), "known-to-nobody-else");
    }
}

async fn the_example_for_production_needs_one_login_at_a_time(pg: Pg) {
    let ground = EmptyServer::new(pg).await;
    let mut superuser = ground.superuser("postgres").await;
    run(&mut superuser, &format!("create role railhost_owner login createrole password '{PASSWORD}'")).await;
    run(&mut superuser, "create database symphony owner railhost_owner").await;
    fs::create_dir(ground.folder.join("rails")).expect("made");
    live_mtn(&ground);
    let here = ground.folder.display().to_string();
    let file = config("production.toml").replace("/etc/railhost", &here).replace("/var/lib/railhost", &here);
    ground.write("production.toml", &file);

    let railhost = |command: &str, owner: Option<&str>| {
        let mut railhost = ground.command("railhost");
        railhost.args(["--config", "production.toml", command]).envs(owner.map(|url| ("DATABASE_URL", url)));
        let done = railhost.output().expect("railhost runs");
        (done.status.code(), format!("{done:?}"))
    };
    ground.write("home/.pgpass", &format!("*:*:*:railhost_owner:{PASSWORD}\n"));
    let owner = "postgres:///symphony?user=railhost_owner";
    let (code, said) = railhost("migrate", Some(owner));
    assert_eq!(code, Some(0), "the roles that it makes cannot log in yet: {said}");

    let (code, said) = railhost("check", None);
    assert_eq!(code, Some(69), "{said}");
    for role in ["ingest", "executor", "operator", "readonly"] {
        assert!(said.contains(&format!("database.logins.{role}")), "all at once: {said}");
        run(&mut superuser, &format!("alter role symphony_{role} password '{PASSWORD}'")).await;
    }
    ground.write("home/.pgpass", &format!("*:*:symphony:*:{PASSWORD}\n"));
    let (code, said) = railhost("check", None);
    assert_eq!(code, Some(0), "{said}");
}

mod postgres_15 {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_page_leads_from_an_empty_server_to_a_served_payment() {
        the_page_leads_to_a_served_payment(Pg::V15).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_example_for_production_migrates_as_the_owner_and_works_without_it() {
        the_example_for_production_needs_one_login_at_a_time(Pg::V15).await;
    }
}

mod postgres_18 {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_page_leads_from_an_empty_server_to_a_served_payment() {
        the_page_leads_to_a_served_payment(Pg::V18).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_example_for_production_migrates_as_the_owner_and_works_without_it() {
        the_example_for_production_needs_one_login_at_a_time(Pg::V18).await;
    }
}

#[test]
fn every_file_of_payments_on_the_page_passes_a_dry_run() {
    let folder = scratch_folder("page-files");
    fs::create_dir_all(&folder).expect("made");
    let rails = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/rails");
    let file = folder.join("railhost.toml");
    fs::write(&file, format!("rails = {rails:?}\n[adapters]\ncache = {:?}\n", folder.join("compiled")))
        .expect("written");
    let page = config("README.md");
    let payments = blocks(section(&page, "Payments in"), "csv");
    for rail in ["airtel", "bank", "mock", "mtn"] {
        let payments = payments.iter().find(|file| file.contains(&format!(",{rail},")));
        fs::write(folder.join("payments.csv"), payments.expect("the page has a file of each rail"))
            .expect("written");
        let done = harness::railhost()
            .env("RAILHOST_CONFIG", &file)
            // Nobody is there: a dry run asks nobody.
            .env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nowhere")
            .args(["enqueue", "--dry-run", "--file", "payments.csv"])
            .current_dir(&folder)
            .output()
            .expect("railhost runs");
        assert!(done.status.success(), "{rail}: {done:?}");
    }
    fs::remove_dir_all(&folder).expect("removed");
}
