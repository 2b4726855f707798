//! Functions and views beside the tables: applied when they differ, guarded against hands, in a schema of any name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Output;
use std::{fs, thread};

use harness::host::{Process, RAIL, enqueue_as, pay, until_all_have_a_verdict};
use harness::sql::{column, run, scalar, try_run};
use harness::{Db, DbUser, on_each_postgres, railhost, snapshot};
use outbox::enqueue::{Ingest, NewPayment};
use outbox::lease::{ClaimLimit, Executor};
use outbox::read::Reader;
use outbox::wake::{NotificationListener, Wakeup};
use outbox::{Changed, SchemaName, migrate};
use serde_json::json;
use sha2::{Digest, Sha256};
use verdict::error_code::ErrorCode;
use verdict::pace::ATTEMPTS_MAX;

fn migrations() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations"))
}

/// As somebody with the owner's password might: the body says the same in other words.
async fn change_by_hand(db: &Db) {
    run(
        &mut db.connect(DbUser::Superuser).await,
        "create or replace function symphony.stream_lock(p_participant_id text) returns bigint
           language sql immutable parallel safe as $$ select hashtextextended(p_participant_id, 7002) + 0 $$",
    )
    .await;
}

async fn refused(db: &Db) -> String {
    Reader::new(&db.database())
        .verify_schema()
        .await
        .expect_err("it is not as this build left it")
        .to_string()
}

fn migrate_as_a_process(db: &Db, folder: &Path) -> Output {
    railhost()
        .current_dir(folder)
        .env("DATABASE_URL", db.url())
        .arg("migrate")
        .output()
        .expect("railhost runs")
}

fn named(name: &str) -> SchemaName {
    name.parse().expect("a name")
}

on_each_postgres! {
    async fn a_function_that_was_changed_by_hand_is_told_and_put_back(db: Db) {
        change_by_hand(&db).await;
        let told = refused(&db).await;
        assert!(told.contains("order/stream_lock") && told.contains("run railhost migrate"), "{told}");
        let done = migrate::run(&db.database()).await.expect("it applies");
        let put_back = vec!["order/stream_lock".to_owned()];
        assert_eq!(done.functions, Changed { put_back, ..Changed::default() });
        Reader::new(&db.database()).verify_schema().await.expect("it is put back");
    }

    async fn a_host_that_runs_goes_on_with_a_function_mended_by_hand_and_is_not_ready_without_one(db: Db) {
        let host = Process::serving(&db, RAIL);
        host.until_page("/readyz", |text| text == "ready\n").await;
        change_by_hand(&db).await;
        assert_eq!(host.page("/readyz").await, (200, "ready\n".to_owned()));
        run(&mut db.connect(DbUser::Superuser).await, "drop function symphony.hint_payment").await;
        host.until_page("/readyz", |text| text.contains("not in the database: callback/hint_payment")).await;
        assert!(migrate_as_a_process(&db, tempfile::tempdir().expect("a folder").path()).status.success());
        host.until_page("/readyz", |text| text == "ready\n").await;
        assert_eq!(host.end(rustix::process::Signal::TERM), Some(0));
    }

    async fn a_function_that_was_dropped_by_hand_is_told_and_put_back(db: Db) {
        run(&mut db.connect(DbUser::Superuser).await, "drop function symphony.hint_payment").await;
        assert!(refused(&db).await.contains("callback/hint_payment"));
        let before = snapshot::schema(&mut Db::fresh(db.pg).await.connect(DbUser::Superuser).await).await;
        migrate::run(&db.database()).await.expect("it applies");
        let after = snapshot::schema(&mut db.connect(DbUser::Superuser).await).await;
        assert_eq!(snapshot::difference(&before, &after), "", "its grants are back too");
    }

    async fn what_a_file_grants_is_all_that_is_granted_once_it_is_applied(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        run(&mut owner, "grant execute on function symphony.notify_hosts() to pg_monitor").await;
        Reader::new(&db.database()).verify_schema().await.expect("a grant to somebody else's role");
        run(&mut owner, "revoke execute on function symphony.notify_hosts() from pg_monitor").await;
        run(&mut owner, "grant execute on function symphony.notify_hosts() to public, symphony_ingest").await;
        let told = refused(&db).await;
        assert!(told.contains("somebody changed wake/notify_hosts in the database by hand"), "{told}");
        let done = migrate::run(&db.database()).await.expect("it applies");
        assert_eq!(done.functions.put_back, ["wake/notify_hosts"]);
        let granted: i64 = scalar(
            &mut owner,
            "select count(*) from pg_proc p, aclexplode(p.proacl) a
              where p.oid = 'symphony.notify_hosts()'::regprocedure and a.grantee <> p.proowner",
        )
        .await;
        assert_eq!(granted, 0);
    }

    async fn an_overload_that_hosts_of_the_release_before_call_keeps_its_grants(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        for sql in [
            "create function symphony.retire_host(p_worker_id text, p_of_old int) returns void language sql as $$ select $$",
            "grant execute on function symphony.retire_host(text, int) to symphony_executor",
            "update symphony.schema_functions set checksum = sha256('older')",
        ] {
            run(&mut owner, sql).await;
        }
        migrate::run(&db.database()).await.expect("it applies");
        let mut executor = db.connect(DbUser::Executor).await;
        run(&mut executor, "select symphony.retire_host('one', 1), symphony.retire_host('one')").await;
    }

    async fn functions_of_another_build_are_refused_by_name_and_those_of_a_newer_one_are_served(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        run(&mut owner, "update symphony.schema_functions set checksum = sha256('other') where name = 'wake/notify_hosts'").await;
        let told = refused(&db).await;
        assert!(told.contains("applied by another build") && told.contains("wake/notify_hosts; run railhost migrate of version"), "{told}");
        run(&mut owner, "update symphony.schema_functions set release = '99.0.0'").await;
        Reader::new(&db.database()).verify_schema().await.expect("a newer release keeps what this one calls");
        let told = migrate::run(&db.database()).await.expect_err("an older build changes nothing").to_string();
        assert!(told.contains("railhost 99.0.0 migrated this schema"), "{told}");
        let changed: i64 =
            scalar(&mut owner, "select count(*) from symphony.schema_functions where release <> '99.0.0'").await;
        assert_eq!(changed, 0);
    }

    async fn a_function_that_no_file_holds_any_more_is_forgotten(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        run(
            &mut owner,
            "insert into symphony.schema_functions (name, checksum, held, release)
             values ('old/gone', sha256(''), sha256(''), '0.0.1')",
        )
        .await;
        let done = migrate::run(&db.database()).await.expect("it applies");
        let no_longer_carried = vec!["old/gone".to_owned()];
        assert_eq!(done.functions, Changed { no_longer_carried, ..Changed::default() }, "and nobody's hands were in it");
        Reader::new(&db.database()).verify_schema().await.expect("all is there");
    }

    async fn one_function_that_cannot_be_applied_keeps_all_as_they_were(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        // A view cannot take the place of a table.
        run(&mut owner, "alter view symphony.sequence_gaps rename to hidden").await;
        run(&mut owner, "create table symphony.sequence_gaps (n int)").await;
        run(&mut owner, "update symphony.schema_functions set checksum = sha256('older')").await;
        let told = migrate::run(&db.database()).await.expect_err("one of them fails").to_string();
        assert!(told.contains("migrations/functions/read/sequence_gaps.sql cannot be applied"), "{told}");
        let older: bool =
            scalar(&mut owner, "select bool_and(checksum = sha256('older')) from symphony.schema_functions").await;
        assert!(older, "none was recorded");
    }

    async fn a_schema_that_somebody_else_uses_is_left_alone(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        for sql in ["create schema reports", "create table reports.schema_migrations (version text)"] {
            run(&mut owner, sql).await;
        }
        let told = migrate::run(&db.database().in_schema(named("reports"))).await.expect_err("it is taken").to_string();
        assert!(told.contains("\"reports\" exists and holds what railhost did not make (schema_migrations, for one)"), "{told}");
        let tables: Vec<String> =
            column(&mut owner, "select relname::text from pg_class where relnamespace = 'reports'::regnamespace").await;
        assert_eq!(tables, ["schema_migrations"]);
        run(&mut owner, "create schema empty").await;
        migrate::run(&db.database().in_schema(named("empty"))).await.expect("nobody uses it");
    }

    async fn two_outboxes_stand_side_by_side_in_one_database(db: Db) {
        let other = db.database().in_schema(named("shard_7"));
        let made = migrate::run(&other).await.expect("it applies");
        assert_eq!((made.schema.as_str(), made.already_applied), ("shard_7", 0));
        let mut owner = db.connect(DbUser::Superuser).await;
        let ours = snapshot::schema(&mut owner).await;
        let theirs = snapshot::of(&mut owner, &named("shard_7")).await;
        assert_eq!(snapshot::difference(&named("shard_7").rewrite(&ours), &theirs), "");
        Reader::new(&other).verify_schema().await.expect("all is there");

        let bodies: Vec<String> = column(
            &mut owner,
            "select proname::text from pg_proc where pronamespace = 'shard_7'::regnamespace
                and (prosrc ~ '\\msymphony\\M(?!.will_prepare)' or proconfig::text ~ '\\msymphony\\M')",
        )
        .await;
        assert_eq!(bodies, Vec::<String>::new(), "none of its functions speaks of the other schema");
    }

    async fn payments_and_bells_of_two_outboxes_do_not_meet(db: Db) {
        let other = db.database().in_schema(named("shard_7"));
        migrate::run(&other).await.expect("it applies");
        let payment = || NewPayment {
            instruction_id: "i".to_owned(),
            participant_id: "acme".to_owned(),
            idempotency_key: "k".to_owned(),
            rail_type: "mock".to_owned(),
            payload: json!({}).into(),
        };
        let mut listener = NotificationListener::listen(&other).await.expect("it listens");
        for database in [&db.database(), &other] {
            Executor::new(database, "sleeper", 1).report(&["mock".to_owned()], true, &BTreeMap::new()).await.expect("told");
        }
        for database in [db.database(), other.clone()] {
            let accepted = Ingest::new(&database, 1).enqueue_batch(&[payment()]).await.expect("enqueued");
            let accepted = accepted[0].as_ref().expect("accepted");
            assert_eq!((accepted.sequence_id, accepted.replayed), (1, false), "each has its own numbers and keys");
        }
        assert_eq!(listener.wait().await, Wakeup::Notified);
        let limit = ClaimLimit { rail_type: "mock".to_owned(), rows_max: 10, lease_seconds: 45.0, after: None, only: None };
        let leases = Executor::new(&other, "one", 1).claim(10, &[limit], 0).await.expect("claimed");
        assert_eq!(leases.len(), 1);
        let leased: i64 = scalar(
            &mut db.connect(DbUser::Superuser).await,
            "select count(*) from symphony.payment_outbox_pending where lease_token is not null",
        )
        .await;
        assert_eq!(leased, 0, "the payment of the other schema is not touched");
    }

    async fn a_schema_that_is_a_key_word_is_refused_and_nothing_is_made(db: Db) {
        let told = migrate::run(&db.database().in_schema(named("user"))).await.expect_err("a key word").to_string();
        assert!(told.contains("\"user\" is a key word of SQL"), "{told}");
        try_run(&mut db.connect(DbUser::Superuser).await, "create schema \"user\"").await.expect("nothing is there");
    }

    async fn the_ceiling_is_the_same_in_functions_tables_and_hosts(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        let of_functions: i32 = scalar(&mut owner, "select symphony.attempts_max()").await;
        assert_eq!(of_functions, ATTEMPTS_MAX);
        let of_tables: Vec<String> = column(
            &mut owner,
            "select (regexp_match(pg_get_constraintdef(c.oid), 'attempt_(?:no|count) <= (\\d+)'))[1]
               from pg_constraint c
              where c.conrelid in ('symphony.payment_outbox_pending'::regclass, 'symphony.payment_outbox_attempts'::regclass)
                and pg_get_constraintdef(c.oid) ~ 'attempt_(no|count) <='",
        )
        .await;
        assert_eq!(of_tables, [ATTEMPTS_MAX.to_string(), ATTEMPTS_MAX.to_string()]);
    }

    async fn hosts_go_on_while_functions_are_applied_again_and_again(db: Db) {
        let folder = tempfile::tempdir().expect("a folder");
        let hosts = [Process::serving(&db, RAIL), Process::serving(&db, RAIL)];
        for host in &hosts {
            host.until_page("/readyz", |text| text == "ready\n").await;
        }
        let payments: Vec<_> = (0..400).map(|_| pay("1.00")).collect();
        let mut owner = db.connect(DbUser::Superuser).await;
        for round in 0..5 {
            enqueue_as(&db, &format!("round{round}"), "mock", &payments).await;
            // Whatever was applied before is another build's now: all of them are replaced under the hosts.
            run(&mut owner, "update symphony.schema_functions set checksum = sha256('older')").await;
            let (url, place) = (db.clone(), folder.path().to_owned());
            let done = thread::spawn(move || migrate_as_a_process(&url, &place)).join().expect("it ran");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            assert!(said.contains("claim/claim_outbox_batch") && said.contains("complete/complete_outbox_batch"), "{said}");
        }
        until_all_have_a_verdict(&db).await;
        let paid: i64 =
            scalar(&mut owner, "select count(*) from symphony.payment_outbox_attempts where state = 'DISPATCHED'").await;
        let attempts: i64 = scalar(&mut owner, "select count(*) from symphony.payment_outbox_attempts").await;
        assert_eq!((paid, attempts), (2000, 2000), "each at its first attempt: no host met an error");
        for host in hosts {
            assert_eq!(host.end(rustix::process::Signal::TERM), Some(0));
        }
    }
}

#[test]
fn each_error_code_that_sql_writes_is_known_to_hosts() {
    let mut unknown = BTreeSet::new();
    for folder in fs::read_dir(migrations().join("functions")).expect("the functions") {
        for file in fs::read_dir(folder.expect("a folder").path()).expect("a folder") {
            let text = fs::read_to_string(file.expect("a file").path()).expect("a text");
            for quoted in text.split('\'').skip(1).step_by(2) {
                let is_word = quoted.len() > 3 && quoted.chars().all(|c| c.is_ascii_uppercase() || c == '_');
                let is_code = is_word && !OTHER_WORDS.contains(&quoted);
                if is_code && ErrorCode::read(quoted) == ErrorCode::OfAnotherRelease {
                    unknown.insert(quoted.to_owned());
                }
            }
        }
    }
    assert_eq!(
        unknown,
        BTreeSet::new(),
        "words in capitals that are neither an error code nor among OTHER_WORDS"
    );
}

/// States, events and reasons for a review: what SQL writes in capitals and is no error code.
const OTHER_WORDS: [&str; 28] = [
    "ACCEPTED",
    "ACTIVE",
    "ASKED",
    "DISPATCHED",
    "ENABLED",
    "FAILED",
    "FINAL_NO_TO_LOOK_AT",
    "HELD",
    "LATE_ANSWER",
    "LATE_FAILURE",
    "LATE_SUCCESS",
    "LEASED",
    "LOADED",
    "PARKED",
    "PAUSED",
    "PENDING",
    "REFUSED",
    "REISSUED_AS",
    "REISSUE_OF",
    "RESOLVED",
    "RETRYABLE",
    "REVOKED",
    "SCHEDULED",
    "SLA_EXCEEDED",
    "SUSPENDED",
    "TRIED",
    "YYYYMM",
    "ZOMBIE_REQUEUE",
];

#[test]
fn numbered_files_that_were_released_are_as_they_were() {
    let released = fs::read_to_string(migrations().join("released.sha256")).expect("the list is committed");
    let mut known = BTreeSet::new();
    for line in released.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (checksum, name) = line.split_once("  ").expect("a checksum, two blanks, a name");
        let file =
            fs::read(migrations().join(name)).unwrap_or_else(|error| panic!("{name} was released: {error}"));
        let found: String = Sha256::digest(file).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, checksum, "{name} was released and is not edited any more: write a new file");
        known.insert(name.to_owned());
    }
    assert!(known.contains("0001_roles.sql"), "the first release is listed: {known:?}");
}

#[test]
fn names_that_cannot_be_schemas_are_refused_by_the_configuration() {
    for name in ["Upper", "two words", "semi;colon", "public", ""] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("config")).expect("a folder");
        let text = format!("[database]\nurl = \"postgres://nobody@127.0.0.1:1/none\"\nschema = {name:?}\n");
        fs::write(folder.path().join("config/development.toml"), text).expect("written");
        let output = railhost().current_dir(folder.path()).arg("migrate").output().expect("railhost runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains("database.schema") && said.contains(&format!("{name:?}")), "{said}");
    }
}
