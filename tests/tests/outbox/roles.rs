//! Who may do what. Every runtime role tries everything that it must not do.

use harness::sql::{Answer, Hands, column, refusal, run, scalar, try_run};
use harness::{DbUser, on_each_postgres};
use sqlx::PgConnection;

const CLOCK_AND_IDS: [&str; 7] = [
    "clock",
    "clock_offset",
    "function_digest",
    "key_digest",
    "statement_clock",
    "uuidv7_floor",
    "uuidv7_time",
];

/// The functions that a role may call; every other one of the schema is closed to it.
fn may_call(role: DbUser) -> Vec<&'static str> {
    let own: &[&str] = match role {
        DbUser::Ingest => return vec!["enqueue_payment_outbox", "enqueue_payment_outbox_batch"],
        DbUser::Executor => &[
            "claim_outbox_batch",
            "complete_outbox_attempt",
            "complete_outbox_batch",
            "create_attempt_partitions",
            "extend_outbox_leases",
            "hand_back_unknown_leases",
            "hint_payment",
            "called_payment",
            "callback_is_known",
            "payments_of_key",
            "history_days_left",
            "hold_outbox_leases",
            "keep_captured",
            "mark_handed_over",
            "next_due_at",
            "note_rail_load",
            "other_hosts",
            "reconcile_clock",
            "reconcile_parking",
            "record_late_answer",
            "release_outbox_leases",
            "repair_expired_leases",
            "report_host",
            "retire_host",
            "stop_rail",
            "stopped",
            "find_stray_leases",
        ],
        DbUser::Operator => &[
            "cancel_payment",
            "configure_rail",
            "pause_rail",
            "reconcile_parking",
            "reinstate_participant",
            "reissue_payment",
            "resolve_payment",
            "resume_rail",
            "revoke_adapter",
            "set_strict_order",
            "suspend_participant",
        ],
        DbUser::Readonly => &["count_queue", "history_days_left", "sequence_gaps_between"],
        DbUser::Auditor => &["sequence_gaps_between"],
        DbUser::Superuser => unreachable!("not a runtime role"),
    };
    [own, &CLOCK_AND_IDS].concat()
}

/// What readers may read, besides the partitions of the history. Nobody else reads more than what is applied.
const READABLE: [&str; 22] = [
    "blocked_streams",
    "operator_acts",
    "outbox_status",
    "participants",
    "payment_outbox_attempts",
    "payment_outbox_captures",
    "payment_outbox_holds",
    "payment_outbox_late_answers",
    "payment_outbox_partitions",
    "payment_outbox_pending",
    "payment_outbox_records",
    "payment_outbox_reissues",
    "payment_outbox_resolutions",
    "payment_outbox_verdicts",
    "payment_timeline",
    "payments",
    "payments_needing_review",
    "rail_fronts",
    "rails",
    "relay_hosts",
    "revoked_adapters",
    "sequence_gaps",
];

fn may_read(role: DbUser, relation: &str) -> bool {
    if relation == "schema_functions" {
        return role != DbUser::Ingest;
    }
    if relation == "schema_migrations" {
        return matches!(role, DbUser::Readonly | DbUser::Executor | DbUser::Operator);
    }
    matches!(role, DbUser::Readonly | DbUser::Auditor)
        && (READABLE.contains(&relation) || relation.starts_with("payment_outbox_attempts_2"))
}

on_each_postgres! {
    async fn a_role_calls_its_own_functions_and_no_other(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        let functions: Vec<(String, Vec<String>)> = sqlx::query_as(
            "select p.proname::text,
                    array(select t.oid::regtype::text from unnest(p.proargtypes) with ordinality as a(oid, n)
                            join pg_type t on t.oid = a.oid order by a.n)
               from pg_proc p where p.pronamespace = 'symphony'::regnamespace order by 1",
        )
        .fetch_all(&mut owner)
        .await
        .expect("the catalog can be read");
        assert!(functions.len() > 40);
        for role in DbUser::RUNTIME {
            let mut connection = db.connect(role).await;
            let mut called = Vec::new();
            for (name, types) in &functions {
                // Arguments that the planner cannot fold away: a strict function of constants is never called.
                let columns: Vec<_> = types.iter().enumerate().map(|(n, kind)| format!("null::{kind} as a{n}")).collect();
                let arguments: Vec<_> = (0..types.len()).map(|n| format!("t.a{n}")).collect();
                let sql = format!(
                    "select symphony.{name}({}) from (select {} offset 0) t",
                    arguments.join(", "),
                    if columns.is_empty() { "1".to_owned() } else { columns.join(", ") }
                );
                match try_run(&mut connection, &sql).await {
                    Err(error) if harness::sqlstate(&error) == "42501" => {}
                    _ => called.push(name.as_str()),
                }
            }
            let mut expected = may_call(role);
            expected.sort_unstable();
            called.dedup();
            assert_eq!(called, expected, "{role:?}");
        }
    }

    async fn no_role_writes_a_table(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        let tables: Vec<(String, String)> = sqlx::query_as(
            "select c.relname::text, (select a.attname::text from pg_attribute a
                                       where a.attrelid = c.oid and a.attnum > 0 order by a.attnum desc limit 1)
               from pg_class c where c.relnamespace = 'symphony'::regnamespace and c.relkind in ('r', 'p')",
        )
        .fetch_all(&mut owner)
        .await
        .expect("the catalog can be read");
        assert!(tables.len() > 15);
        for role in DbUser::RUNTIME {
            let mut connection = db.connect(role).await;
            for (table, column) in &tables {
                for sql in [
                    format!("insert into symphony.{table} default values"),
                    format!("update symphony.{table} set {column} = {column}"),
                    format!("delete from symphony.{table}"),
                    format!("truncate symphony.{table}"),
                    format!("do $$ begin lock table symphony.{table} in access exclusive mode; end $$"),
                    format!("alter table symphony.{table} disable trigger all"),
                    format!("drop table symphony.{table}"),
                ] {
                    assert_eq!(refusal(try_run(&mut connection, &sql).await), "42501", "{role:?}: {sql}");
                }
            }
        }
        let writable_views: i64 = scalar(
            &mut owner,
            "select count(*) from pg_class c, pg_roles r
              where c.relnamespace = 'symphony'::regnamespace and c.relkind = 'v' and r.rolname like 'symphony\\_%'
                and r.rolname <> 'symphony_control' and has_table_privilege(r.oid, c.oid, 'insert, update, delete, truncate')",
        )
        .await;
        assert_eq!(writable_views, 0);
    }

    async fn a_role_reads_what_it_may_and_nothing_else(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        let relations: Vec<String> = column(
            &mut hands.owner,
            "select relname::text from pg_class
              where relnamespace = 'symphony'::regnamespace and relkind in ('r', 'p', 'v', 'S') order by 1",
        )
        .await;
        assert!(relations.iter().any(|name| name == "participant_outbox_sequences"));
        for role in DbUser::RUNTIME {
            let mut connection = db.connect(role).await;
            for relation in &relations {
                let read = try_run(&mut connection, &format!("select * from symphony.{relation}")).await;
                if may_read(role, relation) {
                    read.unwrap_or_else(|error| panic!("{role:?} reads {relation}: {error}"));
                } else {
                    assert_eq!(refusal(read), "42501", "{role:?} reads {relation}");
                }
            }
        }
    }

    async fn no_role_changes_the_schema_or_becomes_its_owner(db: Db) {
        for role in DbUser::RUNTIME {
            let mut connection = db.connect(role).await;
            for sql in [
                "create table symphony.mine ()",
                "create view symphony.mine as select 1",
                "create or replace function symphony.clock_offset() returns interval language sql as $$ select interval '1 day' $$",
                "create function symphony.mine() returns int language sql as 'select 1'",
                "grant symphony_control to current_user",
                "set role symphony_control",
                "set role postgres",
                "alter schema symphony owner to current_user",
                "drop schema symphony cascade",
                "select nextval('symphony.operator_acts_act_id_seq')",
                "set session_replication_role = replica",
            ] {
                assert_eq!(refusal(try_run(&mut connection, sql).await), "42501", "{role:?}: {sql}");
            }
        }
    }

    async fn history_is_append_only_even_for_owner_and_superuser(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        let mut tables: Vec<String> =
            column(&mut hands.owner, "select inhrelid::regclass::text from pg_inherits where inhparent = 'symphony.payment_outbox_attempts'::regclass").await;
        assert!(tables.len() >= 4, "{tables:?}");
        for table in ["attempts", "records", "verdicts", "late_answers", "resolutions", "reissues"] {
            tables.push(format!("symphony.payment_outbox_{table}"));
        }
        tables.extend(["symphony.operator_acts".to_owned(), "symphony.revoked_adapters".to_owned()]);
        for user in ["postgres", "symphony_control"] {
            run(&mut hands.owner, &format!("set role {user}")).await;
            for table in &tables {
                let last: String = scalar(
                    &mut hands.owner,
                    &format!("select attname::text from pg_attribute where attrelid = '{table}'::regclass and attnum > 0
                               order by attnum desc limit 1"),
                )
                .await;
                for sql in [
                    format!("update {table} set {last} = {last}"),
                    format!("update {table} set {last} = {last} where false"),
                    format!("delete from {table}"),
                    format!("delete from only {table}"),
                    format!("truncate {table}"),
                    format!("truncate {table} cascade"),
                ] {
                    assert_eq!(refusal(try_run(&mut hands.owner, &sql).await), "P0001", "{user}: {sql}");
                }
            }
        }
        run(&mut hands.owner, "reset role").await;
        assert_eq!(hands.count("payment_outbox_attempts").await, 1);
        assert_eq!(hands.count("payment_outbox_records").await, 1);
    }

    async fn an_act_is_kept_with_the_login_that_it_came_through(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.operate("pause_rail", "a").await;
        run(&mut hands.executor, "select symphony.stop_rail('b', 'worker-1', 'a wrong PIN')").await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("FAILED")).await.expect("it is held");
        run(&mut hands.operator, &format!("select symphony.resolve_payment('{id}', 'no', 'anyone', 'why', 'statement')")).await;
        run(&mut hands.operator, &format!("select symphony.reissue_payment('{id}', 'n', 'n', 'anyone', 'why')")).await;
        let acts: Vec<String> = column(
            &mut hands.owner,
            "select format('%s %s %s', act, by_whom, login) from symphony.operator_acts order by act_id",
        )
        .await;
        assert_eq!(
            acts,
            [
                "pause_rail tester symphony_operator",
                "stop_rail worker-1 symphony_executor",
                "resolve_payment anyone symphony_operator",
                "reissue_payment anyone symphony_operator",
            ]
        );
        let told = format!(
            "payment_timeline where outbox_id = '{id}' and event in ('RESOLVED', 'REISSUED_AS')
                and detail ->> 'login' = 'symphony_operator'"
        );
        assert_eq!(hands.count(&told).await, 2);
    }

    async fn a_host_stops_a_rail_once_and_only_a_person_resumes_it(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let stop = "select symphony.stop_rail('mock', 'worker-1', 'a wrong PIN')";
        assert!(scalar::<bool>(&mut hands.executor, stop).await);
        assert!(!scalar::<bool>(&mut hands.executor, stop).await, "it was stopped already");
        assert_eq!(hands.count("operator_acts where act = 'stop_rail'").await, 1);
        assert_eq!(hands.claim(1).await, []);
        assert_eq!(refusal(try_run(&mut hands.executor, "select symphony.resume_rail('mock', 'w', 'y')").await), "42501");
        hands.operate("resume_rail", "mock").await;
        assert_eq!(hands.claim(1).await.len(), 1);
    }

    async fn loads_and_revocations_of_adapters_are_acts(db: Db) {
        let mut hands = Hands::of(&db).await;
        for (outcome, digest) in [("LOADED", "sha256('c')"), ("REFUSED", "null"), ("REVOKED", "sha256('c')")] {
            let note = format!("select symphony.note_rail_load('w', 'mock', '{outcome}', {digest}, sha256('r'), 'as told')");
            run(&mut hands.executor, &note).await;
        }
        let loads = "operator_acts where act = 'load_rail' and by_whom = 'w' and detail ->> 'rail_digest' = encode(sha256('r'), 'hex')";
        assert_eq!(hands.count(loads).await, 3);
        let wrong = "select symphony.note_rail_load('w', 'mock', 'SEEN', null, null, null)";
        assert_eq!(refusal(try_run(&mut hands.executor, wrong).await), "22023");

        for _ in 0..2 {
            run(&mut hands.operator, "select symphony.revoke_adapter(sha256('c'), 'ops', 'stolen key')").await;
        }
        assert_eq!(hands.count("operator_acts where act = 'revoke_adapter'").await, 1, "again is no second act");
        let told = "select revoked = array[sha256('c')] from symphony.stopped()";
        assert!(scalar::<bool>(&mut hands.executor, told).await);
        let short = "select symphony.revoke_adapter('\\x01', 'ops', 'why')";
        assert_eq!(refusal(try_run(&mut hands.operator, short).await), "22023");
    }

    async fn hosts_see_what_the_others_run(db: Db) {
        let mut hands = Hands::of(&db).await;
        for (host, digests) in [("h1", r#"'{"mock": "ab12"}'"#), ("h2", r#"'{"mock": "cd34"}'"#), ("h3", "null")] {
            run(&mut hands.executor, &format!("select symphony.report_host('{host}', array['mock'], false, {digests})")).await;
        }
        let others = "select format('%s %s', worker_id, digests ->> 'mock') from symphony.other_hosts('h1')";
        assert_eq!(column::<String>(&mut hands.executor, others).await, ["h2 cd34", "h3 "]);
        db.move_clock("61 seconds").await;
        assert_eq!(column::<String>(&mut hands.executor, others).await, Vec::<String>::new(), "they are gone");
    }

    async fn functions_with_the_owners_rights_have_a_fixed_search_path(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        let loose = "select p.oid::regprocedure::text from pg_proc p
              where p.pronamespace = 'symphony'::regnamespace and p.prosecdef
                and not exists (select 1 from unnest(p.proconfig) as s(setting)
                                 where s.setting ~ '^search_path=.*pg_temp$' and s.setting !~ 'pg_temp.*pg_temp')";
        assert_nothing(&mut owner, loose).await;
        let definers: i64 = scalar(
            &mut owner,
            "select count(*) from pg_proc where pronamespace = 'symphony'::regnamespace and prosecdef",
        )
        .await;
        assert!(definers >= 25, "the walk sees {definers}");
        let granted_without = "select p.oid::regprocedure::text from pg_proc p, aclexplode(p.proacl) a
              where p.pronamespace = 'symphony'::regnamespace and not p.prosecdef and a.grantee <> p.proowner
                and p.proname not in ('clock', 'clock_offset', 'function_digest', 'key_digest', 'statement_clock', 'uuidv7_floor', 'uuidv7_time')";
        let without: Vec<String> = column(&mut owner, granted_without).await;
        assert_eq!(without, Vec::<String>::new(), "they are granted and lack `security definer` and its search_path");
    }

    async fn public_may_call_nothing_and_use_nothing(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        let open = "select p.oid::regprocedure::text from pg_proc p
              where p.pronamespace = 'symphony'::regnamespace
                and (p.proacl is null or exists (select 1 from aclexplode(p.proacl) a where a.grantee = 0))
             union all
             select c.oid::regclass::text from pg_class c, aclexplode(c.relacl) a
              where c.relnamespace = 'symphony'::regnamespace and a.grantee = 0
             union all
             select n.nspname::text from pg_namespace n, aclexplode(n.nspacl) a
              where n.nspname = 'symphony' and a.grantee = 0";
        assert_nothing(&mut owner, open).await;
        // A function made later is closed as well.
        run(&mut owner, "set role symphony_control").await;
        run(&mut owner, "create function symphony.later() returns int language sql as 'select 1'").await;
        run(&mut owner, "reset role").await;
        assert_nothing(&mut owner, open).await;
        let mut readonly = db.connect(DbUser::Readonly).await;
        assert_eq!(refusal(try_run(&mut readonly, "select symphony.later()").await), "42501");
    }

    async fn one_role_owns_everything_and_cannot_log_in(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        let foreign = "select format('%s %s of %s', kind, name, pg_get_userbyid(owner)) from (
               select 'function', oid::regprocedure::text, proowner from pg_proc where pronamespace = 'symphony'::regnamespace
               union all
               select 'relation', oid::regclass::text, relowner from pg_class where relnamespace = 'symphony'::regnamespace
               union all
               select 'type', oid::regtype::text, typowner from pg_type where typnamespace = 'symphony'::regnamespace
               union all
               select 'schema', nspname::text, nspowner from pg_namespace where nspname = 'symphony') as o(kind, name, owner)
              where pg_get_userbyid(owner) <> 'symphony_control'";
        assert_nothing(&mut owner, foreign).await;
        let too_mighty = "select rolname::text from pg_roles
              where rolname like 'symphony\\_%'
                and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls
                     or rolcanlogin = (rolname = 'symphony_control'))";
        assert_nothing(&mut owner, too_mighty).await;
        let members = "select format('%s in %s', m.member::regrole, m.roleid::regrole) from pg_auth_members m
              where m.roleid::regrole::text like 'symphony\\_%' and m.member::regrole::text like 'symphony\\_%'";
        assert_nothing(&mut owner, members).await;
    }
}

async fn assert_nothing(connection: &mut PgConnection, sql: &str) {
    assert_eq!(column::<String>(connection, sql).await, Vec::<String>::new(), "{sql}");
}
