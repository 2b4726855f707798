//! `check` and `serve` look at every way into the database, and say all that is wrong at once.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::process::Output;

use dev::embedded::{Server, ServerOptions};
use harness::host::{count, until_all_have_a_verdict};
use harness::sql::run;
use harness::{Db, DbUser, Pg, scratch_folder};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::ConnectOptions;
use verdict::digest::Digest;

use crate::{ConfigFolder, MOCK, PAYLOAD, UNREACHABLE, text};

fn url(db: &Db, role: DbUser) -> String {
    db.options(role).to_url_lossy().to_string()
}

/// A configuration that says this of the database.
fn configure(place: &ConfigFolder, database: &str) {
    let rest = fs::read_to_string(place.folder.path().join("config/development.toml")).expect("read");
    place.write("config/logins.toml", &format!("{rest}{database}"));
}

/// A configuration with a login for each role; `database.url` where it is given.
fn logins(place: &ConfigFolder, owner: Option<&str>, urls: [(&str, String); 4]) {
    let owner = owner.map(|owner| format!("[database]\nurl = {owner:?}\n")).unwrap_or_default();
    let urls = urls.map(|(name, url)| format!("{name} = {url:?}\n")).concat();
    configure(place, &format!("{owner}[database.logins]\n{urls}"));
}

fn urls(db: &Db) -> [(&'static str, String); 4] {
    [
        ("ingest", url(db, DbUser::Ingest)),
        ("executor", url(db, DbUser::Executor)),
        ("operator", url(db, DbUser::Operator)),
        ("readonly", url(db, DbUser::Readonly)),
    ]
}

/// What stands at the end where nothing at all is to be told.
const SOUND: &str = "The database answers, all logins reach it, and its schema matches this build.";

fn with_logins(place: &ConfigFolder, command: &str) -> Output {
    let mut command = place.command(&["--config", "config/logins.toml", command]);
    command.env_remove("DATABASE_URL").output().expect("railhost runs")
}

fn check(place: &ConfigFolder) -> (Option<i32>, String) {
    let output = with_logins(place, "check");
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(told.contains(SOUND), said.is_empty(), "{told}{said}");
    (output.status.code(), said)
}

/// Makes a login with these roles; its URL.
async fn login(db: &Db, name: &str, options: &str, roles: &str) -> String {
    // Roles belong to the whole server.
    let name = format!("{name}_{}", std::process::id());
    let mut owner = db.connect(DbUser::Superuser).await;
    run(&mut owner, &format!("create role {name} login {options} password 'only-for-tests'")).await;
    run(&mut owner, &format!("grant {roles} to {name}")).await;
    db.options(DbUser::Superuser).username(&name).password("only-for-tests").to_url_lossy().to_string()
}

#[tokio::test]
async fn check_finds_wrong_passwords_another_database_and_a_missing_month_at_once() {
    let (db, other) = (Db::fresh(Pg::V18).await, Db::fresh(Pg::V18).await);
    let place = ConfigFolder::new(&db.url());
    logins(&place, Some(&db.url()), urls(&db));
    assert_eq!(check(&place), (Some(0), String::new()), "nothing is wrong yet");

    let guessed = |role| db.options(role).password("guessed").to_url_lossy().to_string();
    let wrong = [
        ("ingest", guessed(DbUser::Ingest)),
        ("executor", url(&other, DbUser::Executor)),
        ("operator", guessed(DbUser::Operator)),
        ("readonly", url(&db, DbUser::Readonly)),
    ];
    logins(&place, Some(&db.url()), wrong);
    db.move_clock("2 years").await;
    place.write("config/rails/broken.toml", &MOCK.replace("builtin:mock", "builtin:none"));
    let (code, said) = check(&place);
    assert_eq!(code, Some(69), "{said}");
    for sentence in [
        "password authentication failed for user \"symphony_ingest\"",
        "password authentication failed for user \"symphony_operator\"",
        "database.logins.executor",
        "points to a different database than",
        "the history has no month for new payments",
        "rail broken: ",
    ] {
        assert!(said.contains(sentence), "{sentence} is missing from\n{said}");
    }
    assert!(!said.contains("guessed") && !said.contains("only-for-tests"), "{said}");
}

#[tokio::test]
async fn check_does_not_call_a_newer_schema_or_no_rails_sound() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    logins(&place, Some(&db.url()), urls(&db));
    let mut owner = db.connect(DbUser::Superuser).await;
    run(
        &mut owner,
        "insert into symphony.schema_migrations (version, description, success, checksum, execution_time)
         values (9999, 'of tomorrow', true, '', 0)",
    )
    .await;
    let (code, said) = check(&place);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("migration 9999, which this build does not know"), "{said}");
    run(&mut owner, "delete from symphony.schema_migrations where version = 9999").await;
    std::fs::remove_file(place.folder.path().join("config/rails/mock.toml")).expect("removed");
    let (code, said) = check(&place);
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("has no rails"), "{said}");
}

#[tokio::test]
async fn a_login_that_leads_to_another_database_serves_nothing() {
    let (db, other) = (Db::fresh(Pg::V18).await, Db::fresh(Pg::V18).await);
    let place = ConfigFolder::new(&db.url());
    let mut astray = urls(&db);
    astray[1].1 = url(&other, DbUser::Executor);
    logins(&place, None, astray);
    let output = with_logins(&place, "serve");
    assert_eq!(output.status.code(), Some(69));
    assert!(text(&output.stderr).contains("points to a different database than"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn a_remark_alone_keeps_check_from_calling_the_schema_the_one_it_expects() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    assert!(text(&place.run(&["check"]).stdout).contains(SOUND));
    let days: i64 = harness::host::number(&db, "select symphony.history_days_left()::bigint").await;
    db.move_clock(&format!("{} days", days - 3)).await;
    let output = place.run(&["check"]);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(69), "{told}{said}");
    assert!(said.contains("note: the history has months for") && !said.contains("fault:"), "{said}");
    assert!(told.contains("mock: adapter") && !told.contains(SOUND), "{told}");
}

#[tokio::test]
async fn a_listener_in_another_database_is_found_before_anybody_waits_for_it() {
    let (db, other) = (Db::fresh(Pg::V18).await, Db::fresh(Pg::V18).await);
    let place = ConfigFolder::new(&db.url());
    let listens_at = |listener: &str| {
        let urls = urls(&db).map(|(name, url)| format!("{name} = {url:?}\n")).concat();
        let pooler = format!("[database]\npooler = true\nlistener = {listener:?}\n");
        configure(&place, &format!("{pooler}[database.logins]\n{urls}"));
    };
    listens_at(&url(&db, DbUser::Executor));
    assert_eq!(check(&place), (Some(0), String::new()), "it rings where the payments are");
    listens_at(&url(&other, DbUser::Executor));
    for command in ["check", "serve"] {
        let output = with_logins(&place, command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{command}: {said}");
        assert!(said.contains("database.listener (user symphony_executor on "), "{command}: {said}");
        assert!(said.contains("points to a different database than database.logins."), "{command}: {said}");
    }
}

#[tokio::test]
async fn check_tells_of_rail_files_keys_and_the_database_at_once() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    place.write("config/rails/typo.toml", &format!("{MOCK}kindness = 1\n"));
    place.write("config/rails/marks.toml", &MOCK.replace("idempotent = true", "idempotent = false"));
    place.write("config/rails/gone.toml", &MOCK.replace("builtin:mock", "builtin:none"));
    for rail in ["slow", "late"] {
        place.write(&format!("config/rails/{rail}.toml"), &format!("sla_seconds = 60\n{MOCK}"));
    }
    let path = place.folder.path().join("config/development.toml");
    let file = fs::read_to_string(&path).expect("read");
    fs::write(&path, format!("{file}[relayer]\npoll_ms = 1\ndrain_seconds = 0\n")).expect("written");
    let output = place.run(&["check"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    for sentence in [
        "relayer.poll_ms is 1, expected 250 to 1000",
        "relayer.drain_seconds is 0, expected 1 to 3600",
        "rails/typo.toml: line 5: unknown field `kindness`",
        "rails/marks.toml: hand_over_marks is false, expected true",
        "rail gone: ",
        "does not know rail slow as its file describes it",
        "does not know rail late as its file describes it",
    ] {
        assert!(said.contains(sentence), "{sentence} is missing from\n{said}");
    }
    assert!(text(&output.stdout).contains("mock: adapter"), "the sound one is looked at all the same");
    let other = place.run(&["status"]);
    assert_eq!(other.status.code(), Some(64), "every other command is refused at once");
    assert_eq!(text(&other.stderr).lines().count(), 1, "{}", text(&other.stderr));
}

#[test]
fn all_that_is_wrong_with_the_logins_themselves_is_told_and_no_database_is_guessed() {
    let place = ConfigFolder::new(UNREACHABLE);
    configure(
        &place,
        "[database.logins]\ningest = { file = \"/not/there\" }\nexecutor = { env = \"NOT_SET\" }\noperator = \"mysql://x\"\n",
    );
    let output = with_logins(&place, "check");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    for sentence in [
        "database.url is missing, expected it, or database.logins for ingest, executor, operator and readonly",
        "database.logins.ingest refers to /not/there",
        "database.logins.executor refers to the environment variable NOT_SET",
        "database.logins.operator is not a PostgreSQL URL",
        "the database was not checked, because its settings are wrong",
    ] {
        assert!(said.contains(sentence), "{sentence} is missing from\n{said}");
    }
    assert!(!said.contains("no database is configured"), "{said}");
    assert!(text(&output.stdout).contains("mock: adapter"), "the rails are looked at all the same");
}

#[tokio::test]
async fn a_login_that_is_a_member_of_its_role_and_may_not_use_it_is_found() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let mut wrong = urls(&db);
    wrong[0].1 = login(&db, "half", "noinherit", "symphony_ingest").await;
    logins(&place, None, wrong);
    let (code, said) = check(&place);
    assert_eq!(code, Some(69), "{said}");
    assert!(
        said.contains("does not have the rights of symphony_ingest; grant symphony_ingest to it"),
        "{said}"
    );
}

#[tokio::test]
async fn each_role_that_the_owners_login_cannot_take_on_is_found() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let part = login(&db, "part", "", "symphony_executor, symphony_readonly").await;
    configure(&place, &format!("[database]\nurl = {part:?}\n"));
    let (code, said) = check(&place);
    assert_eq!(code, Some(69), "{said}");
    for role in ["symphony_ingest", "symphony_operator"] {
        assert!(said.contains(&format!("permission denied to set role \"{role}\"")), "{role}: {said}");
    }
    assert!(!said.contains("symphony_executor") && !said.contains("symphony_readonly"), "{said}");
}

async fn own_server(name: &str) -> Server {
    let options = ServerOptions { major: Some(18), ..ServerOptions::throwaway(scratch_folder(name)) };
    Server::start(options).await.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_new_server_check_says_that_it_is_not_migrated() {
    let server = own_server("new-checked").await;
    let place = ConfigFolder::new(server.connect_options().to_url_lossy().as_str());
    let output = place.run(&["check"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    for sentence in [
        "there is no role symphony_ingest, symphony_executor, symphony_operator, symphony_readonly; run railhost migrate",
        "migration 1 (roles) is not applied; run railhost migrate",
    ] {
        assert!(said.contains(sentence), "{sentence} is missing from\n{said}");
    }
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_not_called_sound() {
    let mut server = own_server("standby-checked").await;
    let db = Db::on(Pg::V18, server.connect_options()).await;
    let place = ConfigFolder::new(&db.url());
    assert_eq!(place.run(&["check"]).status.code(), Some(0), "it can be written to");
    // A server with this file waits for somebody to follow, and may only be read meanwhile.
    server.stop().await.expect("it stops");
    let data = server.folder().join("data");
    let signal = data.join("standby.signal");
    fs::write(&signal, "").expect("written");
    chown(&signal, Some(fs::metadata(&data).expect("a folder").uid()), None).expect("given away");
    server.restart().await.expect("it is back");
    for command in ["check", "serve"] {
        let output = place.run(&[command]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{command}: {said}");
        assert_eq!(
            said.matches("leads to a standby, which cannot be written to").count(),
            1,
            "{command}: {said}"
        );
        assert!(!text(&output.stdout).contains(SOUND), "{}", text(&output.stdout));
    }
}

#[tokio::test]
async fn a_database_that_may_only_be_read_is_not_called_sound() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let name = db.options(DbUser::Superuser).get_database().expect("a name").to_owned();
    let mut owner = db.connect(DbUser::Superuser).await;
    run(&mut owner, &format!("alter database {name} set default_transaction_read_only = on")).await;
    logins(&place, None, urls(&db));
    let (code, said) = check(&place);
    assert_eq!(code, Some(69), "{said}");
    for role in ["ingest", "executor", "operator"] {
        assert!(said.contains(&format!("database.logins.{role} (user")), "{role}: {said}");
    }
    assert!(said.contains("may only read") && !said.contains("database.logins.readonly"), "{said}");
}

#[tokio::test]
async fn a_rail_whose_component_was_revoked_is_not_called_sound() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let sound = place.json(&["check"]);
    let digest = sound["rails"][0]["sha256"].as_str().unwrap_or_else(|| panic!("{sound}")).to_owned();
    assert!(place.run(&["plugin", "revoke", &digest, "--why", "a test"]).status.success());
    let output = place.run(&["check"]);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains(&format!("rail mock: its component {digest} was revoked")), "{said}");
    assert!(!told.contains(SOUND), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_serves_without_the_owners_login() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    logins(&place, None, urls(&db));
    let mut serve = place.command(&["--config", "config/logins.toml", "serve"]);
    let mut host = serve.env_remove("DATABASE_URL").spawn().expect("railhost runs");
    place.enqueue("paid", PAYLOAD);
    until_all_have_a_verdict(&db).await;
    let backends = "select count(*) from pg_stat_activity where datname = current_database() and usename = 'postgres' and application_name like 'railhost%'";
    assert_eq!(harness::host::number(&db, backends).await, 0, "nobody came as the owner");
    kill_process(Pid::from_child(&host), Signal::TERM).expect("sent");
    assert_eq!(host.wait().expect("reaped").code(), Some(0));
    assert_eq!(count(&db, "payment_outbox_attempts where state = 'DISPATCHED'").await, 1);
    let mut migrate = place.command(&["--config", "config/logins.toml", "migrate"]);
    let refused = migrate.env_remove("DATABASE_URL").output().expect("railhost runs");
    assert_eq!(refused.status.code(), Some(64));
    assert!(
        text(&refused.stderr).contains("this needs the owner's login: set DATABASE_URL or database.url"),
        "{}",
        text(&refused.stderr)
    );
}

#[tokio::test]
async fn who_acts_is_kept_with_the_login_that_did_it() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    logins(&place, None, urls(&db));
    let arguments = ["--config", "config/logins.toml", "pause", "mock", "--by", "ada", "--why", "a test"];
    let mut pause = place.command(&arguments);
    assert!(pause.env_remove("DATABASE_URL").output().expect("railhost runs").status.success());
    let both = "operator_acts where act = 'pause_rail' and by_whom = 'ada' and login = 'symphony_operator'";
    assert_eq!(count(&db, both).await, 1);
}

#[tokio::test]
async fn an_unreachable_server_is_named_with_the_key_that_leads_there() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let mut nowhere = urls(&db);
    nowhere[3].1 = "postgres://reader@127.0.0.1:1/none".to_owned();
    logins(&place, None, nowhere);
    let mut status = place.command(&["--config", "config/logins.toml", "status"]);
    let output = status.env_remove("DATABASE_URL").output().expect("railhost runs");
    assert_eq!(output.status.code(), Some(69));
    let said = text(&output.stderr);
    assert!(
        said.contains("database.logins.readonly (user reader on 127.0.0.1 port 1, database none)"),
        "{said}"
    );
}

#[tokio::test]
async fn check_tells_of_a_component_that_is_endless_to_compile_and_goes_on() {
    let db = Db::fresh(Pg::V18).await;
    let place = ConfigFolder::new(&db.url());
    let bomb = harness::forged::nested_loops();
    std::fs::write(place.folder.path().join("config/rails/bomb.wasm"), &bomb).expect("written");
    let pinned = format!("bomb.wasm\"\nsha256 = \"{}", Digest::of(&bomb));
    place.write("config/rails/bomb.toml", &MOCK.replace("builtin:mock", &pinned));
    let output = place.run(&["check"]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("rail bomb: compiling it took more than"),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stdout).contains("mock: adapter"), "the other rail is looked at all the same");
}
