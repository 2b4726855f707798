//! How old months leave: never with something unfinished in them, never in the way of a verdict, never forgetting one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use harness::sql::{
    Answer, Hands, Request, WORKER, claim, column, complete, complete_batch, enqueue, refusal, run, scalar,
    try_run, until_waiting,
};
use harness::{Db, DbUser, on_each_postgres};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgPool};
use uuid::Uuid;

on_each_postgres! {
    async fn a_month_leaves_in_order_and_its_verdicts_stay(db: Db) {
        let mut hands = Hands::of(&db).await;
        let request = Request::new("p", "k");
        let first = hands.enqueue_this(&request).await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::retry("BUSY")).await.expect("it is held");
        let lease = hands.claim_one().await;
        let paid = Answer { rail_reference: Some("ref".to_owned()), ..Answer::new("DISPATCHED") };
        hands.complete(&lease, &paid).await.expect("it is held");
        hands.retire_history(&db, first.outbox_id).await;

        let kept: String = hands
            .scalar("select format('%s %s %s %s', state, attempt_no, money_moved, rail_reference) from symphony.payment_outbox_verdicts")
            .await;
        assert_eq!(kept, "DISPATCHED 2 yes ref");
        let progress = "payment_outbox_partitions where verdicts_copied = 1 and exported_rows = 2
            and exported_at <= detached_at and copied_at <= detached_at and detached_at <= dropped_at";
        assert_eq!(hands.count(progress).await, 1, "progress is visible");
        assert_eq!(hands.enqueue_this(&request).await.state, "DISPATCHED", "a replay is answered");
        let events: Vec<String> = column(
            &mut hands.owner,
            &format!("select event from symphony.payment_timeline where outbox_id = '{}' order by at", first.outbox_id),
        )
        .await;
        assert_eq!(events, ["ACCEPTED", "DISPATCHED"]);
        let late = format!(
            "select symphony.record_late_answer('{}', gen_random_uuid(), 'w', 'DISPATCHED', null, null, null, null, 1, 'yes')",
            first.outbox_id
        );
        assert!(scalar::<bool>(&mut hands.executor, &late).await, "a late answer is kept even now");
    }

    async fn a_month_that_must_stay_is_refused(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let part = partition_of(&mut hands, id).await;
        let check = |days: &str| format!("select symphony.check_retirable('{part}', {days})");
        let copy = format!("select symphony.copy_verdicts('{part}', 7)");

        for sql in [check("7"), check("6"), check("null"), copy.clone(), "select symphony.check_retirable('no_such', 7)".to_owned()] {
            assert_eq!(refusal(try_run(&mut hands.owner, &sql).await), "P7009", "too young: {sql}");
        }
        months_ahead(&db, &mut hands).await;
        for sql in [check("7"), copy.clone()] {
            assert_eq!(refusal(try_run(&mut hands.owner, &sql).await), "P7009", "a payment is pending: {sql}");
        }
        assert_eq!(refusal(try_run(&mut hands.owner, &check("100")).await), "P7009", "younger than asked for");

        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer { error_code: Some("OUTCOME_UNKNOWN"), ..Answer::new("FAILED") }).await.expect("held");
        for sql in [check("7"), copy.clone()] {
            assert_eq!(refusal(try_run(&mut hands.owner, &sql).await), "P7009", "a review is open: {sql}");
        }
        run(&mut hands.operator, &format!("select symphony.resolve_payment('{id}', 'no', 'tester', 'a test', 'statement of the rail')")).await;
        assert_eq!(refusal(try_run(&mut hands.owner, &check("7")).await), "P7009", "neither exported nor copied");
        run(&mut hands.owner, &copy).await;
        assert_eq!(refusal(try_run(&mut hands.owner, &check("7")).await), "P7009", "not exported");
        run(&mut hands.owner, &format!("select symphony.note_export('{part}', 1, repeat('a', 64))")).await;
        assert_eq!(refusal(try_run(&mut hands.owner, &format!("select symphony.note_detached('{part}')")).await), "P7009");
        assert_eq!(refusal(try_run(&mut hands.owner, &format!("select symphony.drop_detached('{part}')")).await), "P7009");
        assert_eq!(refusal(try_run(&mut hands.owner, "select symphony.drop_detached('payment_outbox_pending')").await), "P7009");
        run(&mut hands.owner, &check("7")).await;
    }

    async fn a_month_with_a_success_heard_after_a_failure_stays(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer { money_moved: Some("no"), ..Answer::new("FAILED") }).await.expect("it is held");
        let late = format!(
            "select symphony.record_late_answer('{id}', gen_random_uuid(), 'w', 'DISPATCHED', null, null, null, null, 1, 'yes')"
        );
        run(&mut hands.executor, &late).await;
        assert_eq!(hands.count("payments_needing_review where reason = 'LATE_SUCCESS'").await, 1, "a case is open");
        let part = partition_of(&mut hands, id).await;
        months_ahead(&db, &mut hands).await;
        let copy = format!("select symphony.copy_verdicts('{part}', 7)");
        assert_eq!(refusal(try_run(&mut hands.owner, &copy).await), "P7009");
        run(&mut hands.operator, &format!("select symphony.resolve_payment('{id}', 'no', 'tester', 'a test', 'statement')")).await;
        run(&mut hands.executor, &late).await;
        assert_eq!(refusal(try_run(&mut hands.owner, &copy).await), "P7009", "and again after it was found to be none");
        run(&mut hands.operator, &format!("select symphony.resolve_payment('{id}', 'yes', 'tester', 'a test', 'statement')")).await;
        run(&mut hands.owner, &copy).await;
    }

    async fn an_export_must_be_whole_and_have_its_digest(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        let part = partition_of(&mut hands, id).await;
        months_ahead(&db, &mut hands).await;
        for arguments in [
            format!("'{part}', 0, repeat('a', 64)"),
            format!("'{part}', 2, repeat('a', 64)"),
            format!("'{part}', null, repeat('a', 64)"),
            "'no_such', 1, repeat('a', 64)".to_owned(),
        ] {
            let sql = format!("select symphony.note_export({arguments})");
            assert_eq!(refusal(try_run(&mut hands.owner, &sql).await), "P7009", "{arguments}");
        }
        for digest in ["null", "''", "'abc'", "repeat('G', 64)"] {
            let sql = format!("select symphony.note_export('{part}', 1, {digest})");
            try_run(&mut hands.owner, &sql).await.expect_err(&sql);
        }
        assert_eq!(hands.count("payment_outbox_partitions where exported_at is not null").await, 0);
    }

    async fn a_month_whose_export_is_older_than_its_last_row_stays(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k1").await;
        let id = hands.enqueue("p", "k2").await;
        let part = partition_of(&mut hands, id).await;
        let first = hands.claim_one_of(2).await;
        hands.complete(&first, &Answer::new("DISPATCHED")).await.expect("it is held");
        months_ahead(&db, &mut hands).await;
        run(&mut hands.owner, &format!("select symphony.note_export('{part}', 1, repeat('a', 64))")).await;
        let last = hands.claim_one().await;
        hands.complete(&last, &Answer::new("DISPATCHED")).await.expect("it is held");
        run(&mut hands.owner, &format!("select symphony.copy_verdicts('{part}', 7)")).await;
        let check = format!("select symphony.check_retirable('{part}', 7)");
        assert_eq!(refusal(try_run(&mut hands.owner, &check).await), "P7009", "one row is in no file");
        // As if the file had been written before the last verdict and counted after it.
        run(&mut hands.owner, &format!("update symphony.payment_outbox_partitions set exported_rows = 2 where partition_name = '{part}'")).await;
        assert_eq!(refusal(try_run(&mut hands.owner, &check).await), "P7009", "a verdict is younger than the export");
        run(&mut hands.owner, &format!("select symphony.note_export('{part}', 2, repeat('b', 64))")).await;
        run(&mut hands.owner, &check).await;
    }

    async fn holds_leave_with_the_month_of_their_payment(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        hands.enqueue("p", "of another month").await;
        for lease in hands.claim(2).await {
            let hold = format!(
                "select symphony.hold_outbox_leases('{WORKER}', array['{}'::uuid], array['{}'::uuid], '{{0}}', null, null, null)",
                lease.outbox_id, lease.lease_token
            );
            run(&mut hands.executor, &hold).await;
        }
        run(&mut hands.owner, "update symphony.payment_outbox_holds set outbox_id = symphony.uuidv7_floor(now() + interval '65 days')
              where outbox_id = (select max(outbox_id::text)::uuid from symphony.payment_outbox_holds)").await;
        for lease in hands.claim(2).await {
            hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        }
        assert_eq!(hands.count("payment_outbox_holds").await, 2);
        hands.retire_history(&db, id).await;
        assert_eq!(hands.count("payment_outbox_holds").await, 1);
    }

    async fn a_range_of_ids_reads_only_its_months(db: Db) {
        let mut reader = db.connect(DbUser::Readonly).await;
        let plan = |range: &str| format!("explain (costs off) select outbox_id, state, rail_type from symphony.payments {range}");
        let range = "where outbox_id >= symphony.uuidv7_floor(date_trunc('month', now(), 'UTC'))
                       and outbox_id < symphony.uuidv7_floor(date_trunc('month', now(), 'UTC') + interval '1 day')";
        // An index of a month that is read bears its name, once for the verdicts and once for what was heard last.
        let months = |plan: &[String]| {
            let verdicts = plan.iter().filter(|line| line.contains("_one_terminal_per_outbox") || line.contains("Seq Scan on payment_outbox_attempts"));
            verdicts.count()
        };
        let all: Vec<String> = column(&mut reader, &plan("")).await;
        assert!(months(&all) >= 4, "{all:#?}");
        let some: Vec<String> = column(&mut reader, &plan(range)).await;
        assert_eq!(months(&some), 1, "{some:#?}");
    }

    async fn the_days_that_are_left_are_those_of_the_last_month(db: Db) {
        let mut hands = Hands::of(&db).await;
        let left = "select symphony.history_days_left()";
        let now: f64 = scalar(&mut hands.executor, left).await;
        assert!((88.0..=124.0).contains(&now), "{now}");
        db.move_clock("80 days").await;
        let later: f64 = scalar(&mut db.connect(DbUser::Readonly).await, left).await;
        assert!((now - later - 80.0).abs() < 0.1, "{now} {later}");
        run(&mut hands.executor, "select symphony.create_attempt_partitions(3)").await;
        assert!(scalar::<f64>(&mut hands.executor, left).await >= 88.0);
    }

    async fn verdicts_are_copied_in_steps_that_can_be_stopped(db: Db) {
        let mut hands = Hands::of(&db).await;
        let ids = hands.enqueue_many("p", 5).await;
        let rows: Vec<_> = hands
            .claim(5)
            .await
            .iter()
            .map(|lease| (lease.outbox_id, lease.lease_token, Answer::new("DISPATCHED")))
            .collect();
        complete_batch(&mut hands.executor, WORKER, &rows).await.expect("they are held");
        let part = partition_of(&mut hands, ids[0]).await;
        months_ahead(&db, &mut hands).await;
        run(&mut hands.owner, &format!("select symphony.note_export('{part}', 5, repeat('a', 64))")).await;
        for expected in [2, 2, 1, 0] {
            assert_eq!(
                refusal_or_none(try_run(&mut hands.owner, &format!("select symphony.check_retirable('{part}', 7)")).await),
                (expected > 0).then(|| "P7009".to_owned()),
                "before a step of {expected}"
            );
            let copied: i32 = scalar(&mut hands.owner, &format!("select symphony.copy_verdicts('{part}', 7, 2)")).await;
            assert_eq!(copied, expected);
        }
        assert_eq!(hands.count("payment_outbox_verdicts").await, 5);
        assert_eq!(hands.count("payment_outbox_partitions where verdicts_copied = 5").await, 1);
    }

    async fn truncating_one_partition_is_refused_attached_or_not(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        let part = partition_of(&mut hands, id).await;
        let truncate = format!("truncate symphony.{part}");
        assert_eq!(refusal(try_run(&mut hands.owner, &truncate).await), "P0001");
        run(&mut hands.owner, &format!("alter table symphony.payment_outbox_attempts detach partition symphony.{part} concurrently")).await;
        assert_eq!(refusal(try_run(&mut hands.owner, &truncate).await), "P0001");
        let note = format!("select symphony.note_detached('{part}')");
        try_run(&mut hands.owner, &note).await.expect_err("it was neither exported nor copied");
        assert_eq!(refusal(try_run(&mut hands.owner, &format!("select symphony.drop_detached('{part}')")).await), "P7009");
    }

    async fn detaching_waits_for_readers_and_no_verdict_waits_for_it(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "old").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        let part = partition_of(&mut hands, id).await;
        months_ahead(&db, &mut hands).await;

        let mut reader = db.connect(DbUser::Readonly).await;
        let mut report = reader.begin().await.expect("a transaction");
        run(&mut *report, "select count(*) from symphony.payment_outbox_attempts").await;
        let mut owner = db.connect(DbUser::Superuser).await;
        let detach = format!("alter table symphony.payment_outbox_attempts detach partition symphony.{part} concurrently");
        let detaching = tokio::spawn(async move { try_run(&mut owner, &detach).await });
        until_waiting(&db, 1).await;

        let impatient = impatient_pool(&db, DbUser::Executor);
        for n in 0..20 {
            hands.enqueue("p", &format!("new {n}")).await;
            let lease = claim(&impatient, 1, WORKER).await.remove(0);
            complete(&impatient, WORKER, lease.outbox_id, lease.lease_token, &Answer::new("DISPATCHED"))
                .await
                .expect("a verdict does not wait for a detachment");
        }
        assert!(!detaching.is_finished());
        report.commit().await.expect("it commits");
        detaching.await.expect("no panic").expect("it is detached");
    }

    async fn months_leave_under_load_and_no_call_fails(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "old").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        months_ahead(&db, &mut hands).await;

        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicUsize::new(0));
        let load: Vec<_> = (0..4)
            .map(|n| {
                let (stop, done) = (stop.clone(), done.clone());
                let (ingest, executor) = (impatient_pool(&db, DbUser::Ingest), impatient_pool(&db, DbUser::Executor));
                tokio::spawn(async move {
                    for round in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        enqueue(&ingest, &Request::new(&format!("p{n}"), &format!("{n}-{round}"))).await.expect("accepted");
                        for lease in claim(&executor, 5, "w").await {
                            let done = Answer::new("DISPATCHED");
                            complete(&executor, "w", lease.outbox_id, lease.lease_token, &done).await.expect("completed");
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        while done.load(Ordering::Relaxed) < 8 {
            tokio::task::yield_now().await;
        }
        hands.retire_history(&db, id).await;
        run(&mut hands.executor, "select symphony.create_attempt_partitions(24)").await;
        let reached = done.load(Ordering::Relaxed);
        while done.load(Ordering::Relaxed) < reached + 8 {
            tokio::task::yield_now().await;
        }
        stop.store(true, Ordering::Relaxed);
        for task in load {
            task.await.expect("no call failed");
        }
        assert_eq!(hands.count("payment_outbox_partitions where dropped_at is not null").await, 1);
    }

    async fn partitions_are_made_once_however_many_make_them(db: Db) {
        let mut hands = Hands::of(&db).await;
        assert_eq!(scalar::<i32>(&mut hands.executor, "select symphony.create_attempt_partitions(3)").await, 0);
        db.move_clock("300 days").await;
        let pool = db.pool(DbUser::Executor, 8);
        let makers: Vec<_> = (0..8)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { scalar::<i32>(&pool, "select symphony.create_attempt_partitions(3)").await })
            })
            .collect();
        let mut made = Vec::new();
        for maker in makers {
            made.push(maker.await.expect("they do not get into each other's way"));
        }
        assert_eq!(made.iter().filter(|made| **made > 0).count(), 1, "{made:?}");
        let broken: i64 = hands
            .scalar(
                "select count(*) from (select from_at <> lag(until_at) over (order by from_at) as gap
                   from symphony.payment_outbox_partitions) g where gap",
            )
            .await;
        assert_eq!(broken, 0, "each month begins where the last one ends");
        let attached: i64 = hands
            .scalar("select count(*) from pg_inherits where inhparent = 'symphony.payment_outbox_attempts'::regclass")
            .await;
        assert_eq!(attached, hands.count("payment_outbox_partitions").await);
        let ahead: bool = hands
            .scalar("select max(until_at) > symphony.clock() + interval '3 months' from symphony.payment_outbox_partitions")
            .await;
        assert!(ahead);
        for months in ["0", "-1", "121", "null"] {
            let sql = format!("select symphony.create_attempt_partitions({months})");
            assert_eq!(refusal(try_run(&mut hands.executor, &sql).await), "22023", "{months}");
        }
    }

    async fn making_partitions_does_not_queue_behind_a_reader(db: Db) {
        let mut hands = Hands::of(&db).await;
        db.move_clock("60 days").await;
        let mut reader = db.connect(DbUser::Readonly).await;
        let mut report = reader.begin().await.expect("a transaction");
        run(&mut *report, "select count(*) from symphony.payment_outbox_attempts").await;
        // Waiting for an exclusive lock it would hold up every verdict behind it for as long as the report runs.
        run(&mut hands.executor, "set lock_timeout = '2s'").await;
        assert_eq!(scalar::<i32>(&mut hands.executor, "select symphony.create_attempt_partitions(3)").await, 2);
        report.commit().await.expect("it commits");
    }
}

/// Moves the clock so far that a month of today may leave, and makes the partitions that then are needed.
async fn months_ahead(db: &Db, hands: &mut Hands) {
    db.move_clock("100 days").await;
    run(&mut hands.owner, "select symphony.create_attempt_partitions(3)").await;
}

async fn partition_of(hands: &mut Hands, id: Uuid) -> String {
    let sql = format!(
        "select partition_name from symphony.payment_outbox_partitions
          where symphony.uuidv7_floor(from_at) <= '{id}' and symphony.uuidv7_floor(until_at) > '{id}'"
    );
    hands.scalar(&sql).await
}

/// Connections that give up on a lock after two seconds.
fn impatient_pool(db: &Db, role: DbUser) -> PgPool {
    PgPoolOptions::new()
        .max_connections(2)
        .connect_lazy_with(db.options(role).options([("lock_timeout", "2s")]))
}

fn refusal_or_none<T>(result: Result<T, sqlx::Error>) -> Option<String> {
    result.err().map(|error| harness::sqlstate(&error))
}
