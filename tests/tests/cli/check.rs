//! `check` and `serve` look at every way into the database, and say all that is wrong at once.

use harness::host::{count, until_all_have_a_verdict};
use harness::sql::run;
use harness::{Db, Pg, Role};
use railhost::rail::artifact::Digest;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::ConnectOptions;

use crate::{MOCK, PAYLOAD, Place, text};

fn url(db: &Db, role: Role) -> String {
    db.options(role).to_url_lossy().to_string()
}

/// A configuration with a login for each role; `database.url` where it is given.
fn logins(place: &Place, owner: Option<&str>, urls: [(&str, String); 4]) {
    let mut text =
        std::fs::read_to_string(place.folder.path().join("config/development.toml")).expect("read");
    if let Some(owner) = owner {
        text += &format!("[database]\nurl = {owner:?}\n");
    }
    text += "[database.logins]\n";
    for (name, url) in urls {
        text += &format!("{name} = {url:?}\n");
    }
    place.write("config/logins.toml", &text);
}

fn urls(db: &Db) -> [(&'static str, String); 4] {
    [
        ("ingest", url(db, Role::Ingest)),
        ("executor", url(db, Role::Executor)),
        ("operator", url(db, Role::Operator)),
        ("readonly", url(db, Role::Readonly)),
    ]
}

fn check(place: &Place) -> (Option<i32>, String) {
    let mut command = place.command(&["--config", "config/logins.toml", "check"]);
    let output = command.env_remove("DATABASE_URL").output().expect("railhost runs");
    (output.status.code(), text(&output.stderr))
}

#[tokio::test]
async fn check_finds_wrong_passwords_another_database_and_a_missing_month_at_once() {
    let (db, other) = (Db::fresh(Pg::V18).await, Db::fresh(Pg::V18).await);
    let place = Place::new(&db.url());
    logins(&place, Some(&db.url()), urls(&db));
    assert_eq!(check(&place), (Some(0), String::new()), "nothing is wrong yet");

    let guessed = |role| db.options(role).password("guessed").to_url_lossy().to_string();
    let wrong = [
        ("ingest", guessed(Role::Ingest)),
        ("executor", url(&other, Role::Executor)),
        ("operator", guessed(Role::Operator)),
        ("readonly", url(&db, Role::Readonly)),
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
        "leads to another database than",
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
    let place = Place::new(&db.url());
    logins(&place, Some(&db.url()), urls(&db));
    let mut owner = db.connect(Role::Superuser).await;
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
    let place = Place::new(&db.url());
    let mut astray = urls(&db);
    astray[1].1 = url(&other, Role::Executor);
    logins(&place, None, astray);
    let mut command = place.command(&["--config", "config/logins.toml", "serve"]);
    let output = command.env_remove("DATABASE_URL").output().expect("railhost runs");
    assert_eq!(output.status.code(), Some(69));
    assert!(text(&output.stderr).contains("leads to another database than"), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_serves_without_the_owners_login() {
    let db = Db::fresh(Pg::V18).await;
    let place = Place::new(&db.url());
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
    let place = Place::new(&db.url());
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
    let place = Place::new(&db.url());
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
    let place = Place::new(&db.url());
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
