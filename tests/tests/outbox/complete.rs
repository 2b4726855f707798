//! The end of a lease: what each answer leaves behind, single and in batches.

use harness::sql::{
    Answer, Hands, LEASE_SECONDS, Leased, Request, WORKER, claim_with, column, complete, complete_batch,
    refusal, run, scalar, try_run,
};
use harness::{DbUser, on_each_postgres};
use sqlx::Connection;
use sqlx::postgres::PgDatabaseError;
use uuid::Uuid;

on_each_postgres! {
    async fn only_three_states_may_be_given(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        for state in [Some("ZOMBIE_REQUEUE"), Some("PENDING"), Some("DISPATCHING"), Some("dispatched"), Some(""), None] {
            let answer = Answer { state, ..Answer::default() };
            assert_eq!(refusal(hands.complete(&lease, &answer).await), "P7003", "{state:?}");
        }
        assert_eq!(hands.count("payment_outbox_attempts").await, 0);
        assert_eq!(hands.count("payment_outbox_pending where lease_token is not null").await, 1);
    }

    async fn what_is_said_of_the_money_must_fit_the_state(db: Db) {
        let mut hands = Hands::of(&db).await;
        for (n, (state, said, kept)) in [
            ("DISPATCHED", None, Ok("yes")),
            ("DISPATCHED", Some("yes"), Ok("yes")),
            ("DISPATCHED", Some("no"), Err("22023")),
            ("DISPATCHED", Some("unknown"), Err("22023")),
            ("FAILED", None, Ok("unknown")),
            ("FAILED", Some("no"), Ok("no")),
            ("FAILED", Some("unknown"), Ok("unknown")),
            ("FAILED", Some("yes"), Err("22023")),
            ("RETRYABLE", None, Ok("no")),
            ("RETRYABLE", Some("yes"), Err("22023")),
            ("RETRYABLE", Some("perhaps"), Err("22023")),
        ]
        .into_iter()
        .enumerate()
        {
            let id = hands.enqueue("p", &format!("k{n}")).await;
            let lease = hands.claim_one().await;
            let answer = Answer { money_moved: said, delay_seconds: Some(3600.0), ..Answer::new(state) };
            let done = hands.complete(&lease, &answer).await;
            let stored: Vec<String> = column(
                &mut hands.owner,
                &format!("select money_moved from symphony.payment_outbox_attempts where outbox_id = '{id}'"),
            )
            .await;
            match kept {
                Ok(money) => assert_eq!((done.is_ok(), stored), (true, vec![money.to_owned()]), "{state} {said:?}"),
                Err(code) => assert_eq!((refusal(done), stored), (code.to_owned(), vec![]), "{state} {said:?}"),
            }
        }
    }

    async fn four_arguments_are_enough_and_the_state_may_be_text_or_of_its_type(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 3).await;
        for (lease, state) in
            hands.claim(3).await.iter().zip(["'DISPATCHED'", "'DISPATCHED'::text", "'DISPATCHED'::symphony.outbox_attempt_state"])
        {
            let sql = format!(
                "select state from symphony.complete_outbox_attempt('{}', '{}', '{WORKER}', {state})",
                lease.outbox_id, lease.lease_token
            );
            assert_eq!(scalar::<String>(&mut hands.executor, &sql).await, "DISPATCHED", "{state}");
        }
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        let zombie = format!(
            "select symphony.complete_outbox_attempt('{id}', '{}', '{WORKER}', 'ZOMBIE_REQUEUE'::symphony.outbox_attempt_state)",
            lease.lease_token
        );
        assert_eq!(refusal(try_run(&mut hands.executor, &zombie).await), "P7003");
    }

    async fn names_of_attempts_are_ids_of_version_7_and_none_is_given_twice(db: Db) {
        let mut hands = Hands::of(&db).await;
        for batch in 1..=4 {
            hands.enqueue_many(&format!("p{batch}"), 50).await;
            let rows: Vec<_> = hands
                .claim(50)
                .await
                .iter()
                .map(|lease| (lease.outbox_id, lease.lease_token, Answer::new("DISPATCHED")))
                .collect();
            complete_batch(&mut hands.executor, WORKER, &rows).await.expect("they are held");
        }
        let id = hands.enqueue("p", "repaired").await;
        hands.claim_one().await;
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await, [(id, 1)]);
        let wrong = "payment_outbox_attempts
            where substr(attempt_id::text, 15, 1) <> '7' or substr(attempt_id::text, 20, 1) not in ('8', '9', 'a', 'b')
               or abs(extract(epoch from symphony.uuidv7_time(attempt_id) - completed_at)) > 10";
        assert_eq!(hands.count(wrong).await, 0);
        let names: i64 = hands.scalar("select count(distinct attempt_id) from symphony.payment_outbox_attempts").await;
        assert_eq!(names, 201);
    }

    async fn the_list_of_payments_has_each_once_as_it_stands(db: Db) {
        let mut hands = Hands::of(&db).await;
        let ids = hands.enqueue_many("p", 5).await;
        let leases = hands.claim(4).await;
        let paid = Answer { rail_reference: Some("ref".to_owned()), ..Answer::new("DISPATCHED") };
        hands.complete(&leases[0], &paid).await.expect("it is held");
        hands.complete(&leases[1], &Answer { money_moved: Some("no"), ..Answer::new("FAILED") }).await.expect("it is held");
        let asked = Answer { delay_seconds: Some(3600.0), ..Answer::retry("OUTCOME_UNKNOWN") };
        hands.complete(&leases[2], &asked).await.expect("it is held");
        run(&mut hands.operator, &format!("select symphony.reissue_payment('{}', 'again', 'again', 'ops', 'why')", ids[1])).await;
        let open = hands.enqueue("p", "open").await;
        let lease = hands.claim(10).await.into_iter().find(|lease| lease.outbox_id == open).expect("it is due");
        hands.complete(&lease, &Answer::new("FAILED")).await.expect("it is held");
        let listed: Vec<String> = column(
            &mut db.connect(DbUser::Readonly).await,
            "select format('%s %s %s %s %s %s %s %s %s %s %s', sequence_id, state, unsettled, attempts, money_moved, error_code,
                           rail_reference, amount, payee, reissued_as is not null, needs_review)
               from symphony.payments order by sequence_id",
        )
        .await;
        assert_eq!(
            listed,
            [
                "1 DISPATCHED f 1 yes  ref 10.00 256700000001 f f",
                "2 FAILED f 1 no   10.00 256700000001 t f",
                "3 SCHEDULED t 1 unknown OUTCOME_UNKNOWN  10.00 256700000001 f f",
                "4 LEASED f 0    10.00 256700000001 f f",
                "5 LEASED f 0    10.00 256700000001 f f",
                "6 LEASED f 0    10.00 256700000001 f f",
                "7 FAILED f 1 unknown   10.00 256700000001 f t",
            ]
        );
        let differ = "payments p where p.needs_review
            <> exists (select 1 from symphony.payments_needing_review n where n.outbox_id = p.outbox_id)";
        assert_eq!(hands.count(differ).await, 0);
    }

    async fn the_past_stays_unsettled_until_it_is_said_to_be_settled(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let steps = [
            (Answer::retry("BUSY"), false, "no"),
            (Answer::retry("OUTCOME_UNKNOWN"), true, "unknown"),
            (Answer::retry("BUSY"), true, "unknown"),
            (Answer { unsettled: Some(false), ..Answer::retry("NOT_FOUND") }, false, "no"),
            (Answer::retry("RAIL_PENDING"), true, "unknown"),
            (Answer { unsettled: Some(false), ..Answer::retry("RAIL_PENDING") }, false, "no"),
            (Answer { unsettled: Some(true), ..Answer::retry("BUSY") }, true, "unknown"),
            (Answer::retry("BUSY"), true, "unknown"),
        ];
        for (step, (answer, unsettled, money)) in steps.into_iter().enumerate() {
            let lease = hands.claim_one().await;
            hands.complete(&lease, &answer).await.expect("it is held");
            let kept: (bool, String) = sqlx::query_as(
                "select p.unsettled, a.money_moved
                   from symphony.payment_outbox_pending p join symphony.payment_outbox_attempts a using (outbox_id)
                  order by a.attempt_no desc limit 1",
            )
            .fetch_one(&mut hands.owner)
            .await
            .expect("the row is there");
            assert_eq!(kept, (unsettled, money.to_owned()), "step {step}");
        }
        let lease = hands.claim_one().await;
        assert!(lease.unsettled);
        hands.complete(&lease, &Answer { money_moved: Some("no"), ..Answer::new("FAILED") }).await.expect("a plain no");
    }

    async fn a_retry_is_due_after_its_delay_and_a_verdict_leaves_the_queue(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        for (delay, expected) in [(Some(90.0), 90.0), (None, 1.0)] {
            let lease = hands.claim(1).await.remove(0);
            let answer = Answer { delay_seconds: delay, ..Answer::new("RETRYABLE") };
            hands.complete(&lease, &answer).await.expect("it is held");
            let wait: f64 = hands
                .scalar(
                    "select extract(epoch from p.next_attempt_at - a.completed_at)::double precision
                       from symphony.payment_outbox_pending p join symphony.payment_outbox_attempts a using (outbox_id)
                      order by a.attempt_no desc limit 1",
                )
                .await;
            assert_eq!(wait, expected);
            db.move_clock("91 seconds").await;
        }
        db.move_clock("200 seconds").await;
        let lease = hands.claim_one().await;
        for bad in [-1.0, 2_678_401.0, f64::NAN, f64::INFINITY] {
            let answer = Answer { delay_seconds: Some(bad), ..Answer::new("RETRYABLE") };
            assert_eq!(refusal(hands.complete(&lease, &answer).await), "22023", "{bad}");
        }
        let digest = Answer { adapter_digest: Some(vec![7; 31]), ..Answer::new("DISPATCHED") };
        assert_eq!(refusal(hands.complete(&lease, &digest).await), "22023");
        hands.complete(&lease, &Answer { adapter_digest: Some(vec![7; 32]), ..Answer::new("DISPATCHED") }).await.expect("good");
        assert_eq!(hands.count("payment_outbox_pending").await, 0);
        assert_eq!(hands.count("payment_outbox_attempts where payload is not null and attempt_no = 3").await, 1);
    }

    async fn a_batch_answers_each_row_as_the_single_form_does(db: Db) {
        let (one, other) = (&db, &harness::Db::fresh(db.pg).await);
        let (mut singly, mut batched) = (Hands::of(one).await, Hands::of(other).await);
        let single_rows = mixed_answers(&mut singly).await;
        let batch_rows = mixed_answers(&mut batched).await;

        let mut expected = Vec::new();
        for (id, token, answer) in &single_rows {
            expected.push(match complete(&mut singly.executor, WORKER, *id, *token, answer).await {
                Ok((no, state)) => (Some(no), Some(state), None),
                Err(error) => (None, None, Some(harness::sqlstate(&error))),
            });
        }
        let answers = complete_batch(&mut batched.executor, WORKER, &batch_rows).await.expect("a good batch");
        let got: Vec<_> = answers.iter().map(|row| (row.attempt_no, row.state.clone(), row.refusal.clone())).collect();
        assert_eq!(got, expected);
        assert_eq!(answers.iter().map(|row| row.ordinal).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
        assert_eq!(
            answers.iter().map(|row| row.outbox_id).collect::<Vec<_>>(),
            batch_rows.iter().map(|row| Some(row.0)).collect::<Vec<_>>()
        );
        assert_eq!(answers.iter().filter(|row| row.repeated).map(|row| row.ordinal).collect::<Vec<_>>(), [6]);
        for row in &answers {
            assert_eq!(row.refusal.is_some(), row.refusal_detail.is_some(), "{row:?}");
        }
        assert_eq!(tables(&mut singly).await, tables(&mut batched).await);
    }

    async fn a_large_batch_answers_in_input_order(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 500).await;
        let mut leases = hands.claim(500).await;
        leases.sort_by_key(|lease| lease.lease_token.as_u128() ^ lease.outbox_id.as_u128().rotate_left(64));
        let lost = leases[250].outbox_id;
        run(
            &mut hands.owner,
            &format!("update symphony.payment_outbox_pending set lease_token = gen_random_uuid() where outbox_id = '{lost}'"),
        )
        .await;
        let rows: Vec<_> =
            leases.iter().map(|lease| (lease.outbox_id, lease.lease_token, Answer::new("DISPATCHED"))).collect();
        let answers = complete_batch(&mut hands.executor, WORKER, &rows).await.expect("a good batch");
        for (n, (answer, row)) in answers.iter().zip(&rows).enumerate() {
            assert_eq!((answer.ordinal as usize, answer.outbox_id), (n + 1, Some(row.0)));
            assert_eq!(answer.refusal.as_deref(), (row.0 == lost).then_some("P7002"), "{answer:?}");
        }
        assert_eq!(answers.len(), 500);
        assert_eq!(hands.count("payment_outbox_attempts").await, 499);
    }

    async fn every_attempt_has_a_name_of_its_own(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 50).await;
        for rows in [20, 20, 1, 1] {
            let leases = hands.claim(rows).await;
            let rows: Vec<_> =
                leases.iter().map(|lease| (lease.outbox_id, lease.lease_token, Answer::new("DISPATCHED"))).collect();
            complete_batch(&mut hands.executor, WORKER, &rows).await.expect("a good batch");
        }
        let names: i64 =
            hands.scalar("select count(distinct attempt_id) from symphony.payment_outbox_attempts").await;
        assert_eq!((names, hands.count("payment_outbox_attempts").await), (42, 42));
    }

    async fn a_batch_with_bad_bounds_is_refused_as_a_whole(db: Db) {
        let mut hands = Hands::of(&db).await;
        let one = "array[gen_random_uuid()]";
        for arguments in [
            "'w', '{}', '{}', '{}'".to_owned(),
            format!("'w', null, {one}, array['FAILED']"),
            format!("'w', {one}, null, array['FAILED']"),
            format!("'w', {one}, {one}, null"),
            format!("'w', {one}, {one}, array['FAILED', 'FAILED']"),
            format!("'w', {one}, {one}, array['FAILED'], p_money_moved => array['no', 'no']"),
            format!("'', {one}, {one}, array['FAILED']"),
            format!("null, {one}, {one}, array['FAILED']"),
            "'w', array_fill(gen_random_uuid(), array[10001]), array_fill(gen_random_uuid(), array[10001]),
             array_fill('FAILED'::text, array[10001])"
                .to_owned(),
        ] {
            let sql = format!("select symphony.complete_outbox_batch({arguments})");
            assert_eq!(refusal(try_run(&mut hands.executor, &sql).await), "22023", "{arguments}");
        }
    }

    async fn batches_with_common_rows_in_different_orders_do_not_deadlock(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 200).await;
        let mut rows: Vec<_> = hands
            .claim(200)
            .await
            .iter()
            .map(|lease| (lease.outbox_id, lease.lease_token, Answer::new("DISPATCHED")))
            .collect();
        let pool = db.pool(DbUser::Executor, 8);
        let batches: Vec<_> = (0..8)
            .map(|n| {
                rows.rotate_left(23 * n);
                rows.reverse();
                let (pool, rows) = (pool.clone(), rows.clone());
                tokio::spawn(async move { complete_batch(&pool, WORKER, &rows).await })
            })
            .collect();
        let mut first = 0;
        for batch in batches {
            let answers = batch.await.expect("no panic").expect("no deadlock");
            assert!(answers.iter().all(|row| row.refusal.is_none() && row.attempt_no == Some(1)));
            first += answers.iter().filter(|row| !row.repeated).count();
        }
        assert_eq!((first, hands.count("payment_outbox_attempts").await), (200, 200));
    }

    async fn a_call_about_some_payments_does_not_go_through_the_queue(db: Db) {
        let mut hands = Hands::of(&db).await;
        vacuum_the_empty_queue(&mut hands).await;
        hands.enqueue_many("q", 1000).await;
        let leases = hands.claim(20).await;
        let done = "array_fill('DISPATCHED'::text, array[5])";
        for call in [
            format!("extend_outbox_leases('{WORKER}', {}, {LEASE_SECONDS})", held(&leases)),
            format!("mark_handed_over('{WORKER}', {})", held(&leases[..5])),
            format!("release_outbox_leases('{WORKER}', {})", held(&leases[5..10])),
            format!("complete_outbox_batch('{WORKER}', {}, {done})", held(&leases[10..15])),
        ] {
            let (answers, read) = rows_read(&mut hands, &call).await;
            assert!(answers >= 5 && read < 200, "{answers} answers, {read} rows of the queue were read: {call}");
        }
        db.move_clock("31 seconds").await;
        let (answers, read) = rows_read(&mut hands, "repair_expired_leases(100, 'repairer')").await;
        assert!(answers == 10 && read < 200, "{read} rows of the queue were read to free {answers}");

        hands.enqueue_many("s", 200).await;
        hands.operate("suspend_participant", "s").await;
        assert_eq!(hands.reconcile().await, 200);
        hands.operate("reinstate_participant", "s").await;
        let (_, read) = rows_read(&mut hands, "reconcile_parking()").await;
        assert_eq!(hands.count("payment_outbox_pending where parked").await, 0);
        assert!(read < 10_000, "{read} rows of the queue were read to free 200");
    }

    async fn a_batch_looks_into_the_month_of_its_payments_and_into_no_other(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 5).await;
        let leases = hands.claim(5).await;
        let rows: Vec<_> =
            leases.iter().map(|lease| (lease.outbox_id, lease.lease_token, Answer::new("DISPATCHED"))).collect();
        let looked = "select count(*) from pg_stat_xact_user_tables
                       where relname like 'payment_outbox_attempts_2%' and seq_scan + idx_scan > 0";
        let mut open = hands.executor.begin().await.expect("a transaction");
        complete_batch(&mut *open, WORKER, &rows).await.expect("they are held");
        assert_eq!(scalar::<i64>(&mut *open, looked).await, 1);
    }

    async fn a_second_verdict_is_impossible_even_for_the_owner(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer { money_moved: Some("no"), ..Answer::new("FAILED") }).await.expect("it is held");
        let second = "insert into symphony.payment_outbox_attempts (outbox_id, lease_token, sequence_id, claimed_at,
               completed_at, created_at, attempt_no, state, instruction_id, participant_id, idempotency_key, rail_type,
               worker_id, money_moved, payload)
             select outbox_id, gen_random_uuid(), sequence_id, claimed_at, completed_at, created_at, 2, 'DISPATCHED',
                    instruction_id, participant_id, idempotency_key, rail_type, worker_id, 'yes', payload
               from symphony.payment_outbox_attempts";
        let error = try_run(&mut hands.owner, second).await.expect_err("one verdict is all there is");
        let raised = error.as_database_error().expect("the server says so").downcast_ref::<PgDatabaseError>();
        assert_eq!(raised.code(), "23505");
        let index = raised.constraint().expect("the index is named");
        assert!(index.ends_with("_one_terminal_per_outbox"), "{index}");
    }
}

/// As it happens to a queue that is drained most of the time: the planner then expects one row in it.
async fn vacuum_the_empty_queue(hands: &mut Hands) {
    hands.enqueue_many("p", 300).await;
    run(&mut hands.owner, "delete from symphony.payment_outbox_pending").await;
    run(&mut hands.owner, "vacuum symphony.payment_outbox_pending").await;
    let believed = "select relpages > 0 and reltuples = 0 from pg_class
                     where oid = 'symphony.payment_outbox_pending'::regclass";
    assert!(hands.scalar::<bool>(believed).await);
}

fn held(leases: &[Leased]) -> String {
    let ids: Vec<String> = leases.iter().map(|lease| format!("'{}'", lease.outbox_id)).collect();
    let tokens: Vec<String> = leases.iter().map(|lease| format!("'{}'", lease.lease_token)).collect();
    format!("array[{}]::uuid[], array[{}]::uuid[]", ids.join(", "), tokens.join(", "))
}

/// How many rows a call of the executor answers, and how many of the queue it reads for them.
async fn rows_read(hands: &mut Hands, call: &str) -> (i64, i64) {
    let read = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables
                 where relname = 'payment_outbox_pending'";
    let mut open = hands.executor.begin().await.expect("a transaction");
    let before: i64 = scalar(&mut *open, read).await;
    let answers: i64 = scalar(&mut *open, &format!("select count(*) from symphony.{call}")).await;
    let after: i64 = scalar(&mut *open, read).await;
    open.commit().await.expect("it commits");
    (answers, after - before)
}

/// Ten rows that meet every answer a batch can give, the lost ones in the middle.
async fn mixed_answers(hands: &mut Hands) -> Vec<(Uuid, Uuid, Answer)> {
    let requests: Vec<Request> = (1..=8).map(|n| Request::new("p", &format!("k{n}"))).collect();
    for request in &requests {
        hands.enqueue_this(request).await;
    }
    let leases = claim_with(&mut hands.executor, &format!("8, '{WORKER}', {LEASE_SECONDS}"))
        .await
        .expect("a good claim");
    let row = |n: usize, answer: Answer| (leases[n].outbox_id, leases[n].lease_token, answer);
    let lost = |n: usize, answer: Answer| (leases[n].outbox_id, Uuid::nil(), answer);
    vec![
        row(0, Answer { rail_reference: Some("r".to_owned()), ..Answer::new("DISPATCHED") }),
        row(1, Answer { unsettled: Some(true), ..Answer::retry("BUSY") }),
        lost(2, Answer::new("DISPATCHED")),
        row(3, Answer { money_moved: Some("no"), ..Answer::new("FAILED") }),
        row(4, Answer::new("ZOMBIE_REQUEUE")),
        row(0, Answer::new("DISPATCHED")),
        row(5, Answer { money_moved: Some("yes"), ..Answer::new("FAILED") }),
        (Uuid::nil(), leases[6].lease_token, Answer::new("FAILED")),
        row(6, Answer::retry("RAIL_PENDING")),
        row(7, Answer { adapter_digest: Some(vec![1]), ..Answer::new("DISPATCHED") }),
    ]
}

/// Queue and history without the values that differ from run to run.
async fn tables(hands: &mut Hands) -> Vec<String> {
    column(
        &mut hands.owner,
        "select format('pending %s %s %s %s', sequence_id, attempt_count, unsettled, claimed_by)
           from symphony.payment_outbox_pending
         union all
         select format('attempt %s %s %s %s %s %s %s %s', sequence_id, attempt_no, state, worker_id, money_moved,
                       rail_reference, error_code, payload)
           from symphony.payment_outbox_attempts
          order by 1",
    )
    .await
}
