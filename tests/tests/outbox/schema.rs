//! The schema itself: guarded against drift, explained, and brought up from every state a run may have left behind.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use dev::embedded::{Server, ServerOptions};
use harness::sql::{column, count, run};
use harness::{Db, DbUser, Pg, on_each_postgres, snapshot};
use outbox::read::Reader;
use outbox::{Database, migrate};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqlSafeStr};

/// Set it to write the snapshot anew instead of comparing with it.
const UPDATE: &str = "RAILHOST_UPDATE_SNAPSHOT";

on_each_postgres! {
    async fn the_schema_is_the_one_that_was_reviewed(db: Db) {
        let found = snapshot::schema(&mut db.connect(DbUser::Superuser).await).await;
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("snapshots/schema.txt");
        if env::var(UPDATE).is_ok_and(|value| value == "1") {
            fs::write(&file, &found).expect("the snapshot can be written");
            return;
        }
        let committed = fs::read_to_string(&file).expect("the snapshot is committed");
        let difference = snapshot::difference(&committed, &found);
        assert!(
            difference.is_empty(),
            "the schema differs from tests/snapshots/schema.txt (if that is meant, run this test with {UPDATE}=1):\n{difference}"
        );
    }

    async fn what_people_meet_is_explained(db: Db) {
        let unexplained: Vec<String> = column(
            &mut db.connect(DbUser::Superuser).await,
            "select c.oid::regclass::text from pg_class c
              where c.relnamespace = 'symphony'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
                and c.relname <> 'schema_migrations' and obj_description(c.oid, 'pg_class') is null
             union all
             select p.oid::regprocedure::text from pg_proc p
              where p.pronamespace = 'symphony'::regnamespace and obj_description(p.oid, 'pg_proc') is null
                and exists (select 1 from aclexplode(p.proacl) a where a.grantee <> p.proowner)
             union all
             select 'the index payment_outbox_attempts_one_terminal_per_outbox'
              where obj_description('symphony.payment_outbox_attempts_one_terminal_per_outbox'::regclass, 'pg_class') is null",
        )
        .await;
        assert_eq!(unexplained, Vec::<String>::new());
    }

    async fn no_predicate_of_an_index_depends_on_the_time(db: Db) {
        let timed: Vec<String> = column(
            &mut db.connect(DbUser::Superuser).await,
            "select pg_get_indexdef(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indrelid
              where c.relnamespace = 'symphony'::regnamespace
                and pg_get_expr(i.indpred, i.indrelid) ~ 'now|clock|current_'",
        )
        .await;
        assert_eq!(timed, Vec::<String>::new());
    }

    async fn ids_are_of_version_7_and_carry_the_time(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        let wrong: i64 = harness::sql::scalar(
            &mut owner,
            "select count(*) from (
               select id, lag(id) over (order by n) as earlier, at from (
                 select n, symphony.uuidv7() as id, symphony.clock() as at from generate_series(1, 5000) as g(n)) made) i
              where substr(id::text, 15, 1) <> '7' or substr(id::text, 20, 1) not in ('8', '9', 'a', 'b')
                 or abs(extract(epoch from symphony.uuidv7_time(id) - at)) > 0.1
                 or id < symphony.uuidv7_floor(symphony.uuidv7_time(id))
                 or symphony.uuidv7_time(id) < symphony.uuidv7_time(earlier)",
        )
        .await;
        assert_eq!(wrong, 0);
        let floor: bool = harness::sql::scalar(
            &mut owner,
            "select symphony.uuidv7_time(symphony.uuidv7_floor(timestamptz '2026-05-01 00:00:00.0019+00'))
                    = timestamptz '2026-05-01 00:00:00.001+00'",
        )
        .await;
        assert!(floor, "the smallest id of a millisecond is not of the next one");
    }

    async fn migrations_run_twice_change_nothing(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        let before = snapshot::schema(&mut owner).await;
        let again = migrate::run(&db.database()).await.expect("they apply");
        assert_eq!(again.newly_applied, 0);
        assert_eq!(snapshot::schema(&mut owner).await, before);
        Reader::new(&db.database()).verify_schema().await.expect("all is there");
    }

    async fn migrations_go_on_from_wherever_a_run_stopped(db: Db) {
        let whole = snapshot::schema(&mut db.connect(DbUser::Superuser).await).await;
        let all = all_migrations();
        for applied in 0..all.len() {
            let half = Db::empty(db.pg).await;
            let mut owner = half.connect(DbUser::Superuser).await;
            // The next one fails at its end, as if its last line were wrong.
            let mut some = all[..=applied].to_vec();
            let broken = some.pop().expect("there is one");
            let sql = AssertSqlSafe(format!("{}\nselect 1 / 0;", broken.sql.as_str())).into_sql_str();
            some.push(Migration::new(broken.version, broken.description, MigrationType::Simple, sql, false));
            let mut broken_run = half.connect(DbUser::Superuser).await;
            migrator(some).run(&mut broken_run).await.expect_err("the last one is broken");
            broken_run.close().await.expect("with it goes the lock that keeps two runs apart");
            assert_eq!(count(&mut owner, "schema_migrations").await, applied as i64);

            let done = migrate::run(&half.database()).await.expect("they apply");
            assert_eq!((done.already_applied, done.newly_applied), (applied, all.len() - applied));
            let difference = snapshot::difference(&whole, &snapshot::schema(&mut owner).await);
            assert!(difference.is_empty(), "after {applied}:\n{difference}");
        }
    }

    async fn an_applied_migration_that_was_edited_is_refused(db: Db) {
        run(
            &mut db.connect(DbUser::Superuser).await,
            "update symphony.schema_migrations set checksum = sha256('edited') where version = 3",
        )
        .await;
        let told = migrate::run(&db.database()).await.expect_err("the files are not those that were applied").to_string();
        let wanted = "migration 3 (tables) was applied from another file than this build carries";
        assert!(told.contains(wanted), "{told}");
        let told = Reader::new(&db.database()).verify_schema().await.expect_err("and the start sees it").to_string();
        assert!(told.contains(wanted), "{told}");
    }

    async fn a_schema_of_a_newer_railhost_is_left_alone(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        run(
            &mut owner,
            "insert into symphony.schema_migrations (version, description, success, checksum, execution_time)
             values (9999, 'later', true, sha256(''), 0)",
        )
        .await;
        let before = snapshot::schema(&mut owner).await;
        let told = migrate::run(&db.database()).await.expect_err("it is newer").to_string();
        assert!(told.contains("migration 9999, which this build does not know; use a newer railhost"), "{told}");
        assert_eq!(snapshot::schema(&mut owner).await, before);
        Reader::new(&db.database()).verify_schema().await.expect("hosts of the release before go on");
    }

    async fn a_run_that_fails_at_its_end_leaves_nothing_half_done(db: Db) {
        let half = Db::empty(db.pg).await;
        let mut first = half.connect(DbUser::Superuser).await;
        migrator(all_migrations()[..1].to_vec()).run(&mut first).await.expect("the first file applies");
        first.close().await.expect("with it goes the lock that keeps two runs apart");
        let mut owner = half.connect(DbUser::Superuser).await;
        // A view cannot take the place of a table.
        run(&mut owner, "create table symphony.sequence_gaps (n int)").await;
        let before = snapshot::schema(&mut owner).await;
        let told = migrate::run(&half.database()).await.expect_err("one of the views fails").to_string();
        assert!(told.contains("migrations/functions/read/sequence_gaps.sql cannot be applied"), "{told}");
        assert_eq!(count(&mut owner, "schema_migrations").await, 1);
        assert_eq!(snapshot::schema(&mut owner).await, before);
    }

    async fn several_databases_and_several_runs_are_migrated_at_the_same_time(db: Db) {
        let (one, two, three) = tokio::join!(Db::empty(db.pg), Db::empty(db.pg), Db::empty(db.pg));
        let (one, two, three) = (one.database(), two.database(), three.database());
        let runs = tokio::join!(
            migrate::run(&one), migrate::run(&two), migrate::run(&three), migrate::run(&one), migrate::run(&two)
        );
        let total = all_migrations().len();
        let mut newly = Vec::new();
        for run in [runs.0, runs.1, runs.2, runs.3, runs.4] {
            newly.push(run.expect("they apply").newly_applied);
        }
        assert_eq!(newly[0].max(newly[3]) + newly[1].max(newly[4]) + newly[2], 3 * total, "{newly:?}");
        for database in [&one, &two, &three] {
            Reader::new(database).verify_schema().await.expect("all is there");
        }
    }

    async fn a_run_that_waited_in_vain_for_another_one_says_so_and_changes_nothing(db: Db) {
        let other = Db::empty(db.pg).await;
        let mut at_work = other.connect(DbUser::Superuser).await;
        run(&mut at_work, "select pg_advisory_lock(hashtextextended('railhost migrate', 0))").await;
        let told = migrate::run_within(&other.database(), Duration::ZERO).await.expect_err("one at a time").to_string();
        assert!(told.contains("another railhost migrate is at work in this database: nothing was changed"), "{told}");
        let schemas: Vec<String> =
            column(&mut at_work, "select nspname::text from pg_namespace where nspname = 'symphony'").await;
        assert_eq!(schemas, Vec::<String>::new());
        at_work.close().await.expect("it ends");
        migrate::run(&other.database()).await.expect("now it is the only one");
    }

    async fn columns_of_queue_and_history_have_the_defaults_of_an_outbox(db: Db) {
        let defaults: Vec<String> = column(
            &mut db.connect(DbUser::Superuser).await,
            "select format('%s.%s %s', a.attrelid::regclass, a.attname, pg_get_expr(d.adbin, d.adrelid))
               from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
              where a.attrelid in ('symphony.payment_outbox_pending'::regclass, 'symphony.payment_outbox_attempts'::regclass)
                and pg_get_expr(d.adbin, d.adrelid) like 'symphony.%' order by 1",
        )
        .await;
        assert_eq!(
            defaults,
            [
                "symphony.payment_outbox_attempts.attempt_id symphony.uuidv7()",
                "symphony.payment_outbox_attempts.claimed_at symphony.clock()",
                "symphony.payment_outbox_attempts.completed_at symphony.clock()",
                "symphony.payment_outbox_attempts.created_at symphony.clock()",
                "symphony.payment_outbox_pending.created_at symphony.clock()",
                "symphony.payment_outbox_pending.next_attempt_at symphony.clock()",
                "symphony.payment_outbox_pending.outbox_id symphony.uuidv7()",
            ]
        );
    }

    async fn a_login_that_is_no_superuser_migrates_two_databases_of_a_new_cluster(db: Db) {
        let server = new_cluster(db.pg).await;
        let mut postgres = PgConnection::connect_with(&server.connect_options()).await.expect("it accepts connections");
        run(&mut postgres, "create role deployer login createrole password 'only-for-tests'").await;
        run(&mut postgres, "create role stranger login password 'only-for-tests'").await;
        for (name, owner) in [("early", "stranger"), ("one", "deployer"), ("two", "deployer"), ("three", "stranger")] {
            run(&mut postgres, &format!("create database {name} owner {owner}")).await;
        }
        let login = |name: &str, database: &str| {
            server.connect_options().database(database).username(name).password("only-for-tests")
        };
        let told = migrate::run(&Database::new(login("stranger", "early"))).await.expect_err("it may make no roles");
        assert!(told.to_string().contains(r#""alter role stranger createrole""#), "{told}");
        for database in ["one", "two"] {
            let options = login("deployer", database);
            let done = migrate::run(&Database::new(options.clone())).await.unwrap_or_else(|error| panic!("{database}: {error}"));
            assert_eq!(done.newly_applied, all_migrations().len());
            let mut deployer = PgConnection::connect_with(&options).await.expect("it accepts connections");
            run(&mut deployer, "set role symphony_control").await;
            run(&mut deployer, "select symphony.configure_rail('mock', true, false, null, null, null, 'deployer', 'a test')").await;
        }
        let told = migrate::run(&Database::new(login("stranger", "three"))).await.expect_err("it is no member of the owner");
        assert!(told.to_string().contains(r#""grant symphony_control to stranger"#), "{told}");
        run(&mut postgres, "grant symphony_control to stranger").await;
        migrate::run(&Database::new(login("stranger", "three"))).await.expect("the grant was all that it needed");
    }

    async fn several_databases_of_a_new_cluster_make_the_roles_at_the_same_time(db: Db) {
        let server = new_cluster(db.pg).await;
        let mut postgres = PgConnection::connect_with(&server.connect_options()).await.expect("it accepts connections");
        let mut neighbours = Vec::new();
        for name in ["one", "two", "three", "four"] {
            run(&mut postgres, &format!("create database {name}")).await;
            neighbours.push(Database::new(server.connect_options().database(name)));
        }
        let runs = tokio::join!(
            migrate::run(&neighbours[0]),
            migrate::run(&neighbours[1]),
            migrate::run(&neighbours[2]),
            migrate::run(&neighbours[3])
        );
        for run in [runs.0, runs.1, runs.2, runs.3] {
            assert_eq!(run.expect("it applies").already_applied, 0);
        }
        let roles: Vec<String> =
            column(&mut postgres, "select rolname::text from pg_roles where rolname like 'symphony\\_%'").await;
        assert_eq!(roles.len(), 6, "{roles:?}");
    }
}

fn all_migrations() -> Vec<Migration> {
    sqlx::migrate!("../migrations").iter().cloned().collect()
}

/// The migrator of the host, with other files.
fn migrator(migrations: Vec<Migration>) -> Migrator {
    let mut migrator = Migrator::with_migrations(migrations);
    migrator.create_schema("symphony");
    migrator.dangerous_set_table_name(Cow::Borrowed("symphony.schema_migrations"));
    migrator
}

/// A server of its own: roles belong to the whole cluster, and the shared one has them already.
async fn new_cluster(pg: Pg) -> Server {
    let options = ServerOptions {
        major: Some(pg.major()),
        ..ServerOptions::throwaway(harness::scratch_folder("roles"))
    };
    Server::start(options).await.unwrap_or_else(|error| panic!("{error}"))
}
