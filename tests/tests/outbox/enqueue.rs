//! Accepting payments: numbers without gaps, one payment per key for ever, whoever else is writing.

use std::collections::{BTreeMap, BTreeSet};

use dev::embedded::{Server, ServerOptions};
use harness::sql::{
    Accepted, Answer, Answered, Hands, Request, column, enqueue, enqueue_batch, refusal, run, try_run,
    until_waiting,
};
use harness::{Db, DbUser, on_each_postgres, sqlstate};
use sqlx::Connection;
use sqlx::postgres::PgPool;
use tokio::task::JoinHandle;

on_each_postgres! {
    async fn numbers_have_no_gap_although_sessions_race_and_roll_back(db: Db) {
        let pool = db.pool(DbUser::Ingest, 32);
        let sessions: Vec<JoinHandle<Vec<i64>>> = (0..32)
            .map(|session| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    let mut kept = Vec::new();
                    for n in 0..12 {
                        let mut open = pool.begin().await.expect("a transaction");
                        let accepted = enqueue(&mut *open, &Request::new("hot", &format!("{session}-{n}"))).await;
                        let number = accepted.expect("a good payment is accepted").sequence_id;
                        if (session + n) % 3 == 0 {
                            open.rollback().await.expect("it rolls back");
                        } else {
                            open.commit().await.expect("it commits");
                            kept.push(number);
                        }
                    }
                    kept
                })
            })
            .collect();
        let mut numbers = Vec::new();
        for session in sessions {
            let own = session.await.expect("no panic");
            assert!(own.is_sorted(), "a session sees its numbers grow: {own:?}");
            numbers.extend(own);
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=256).collect::<Vec<_>>());
        let mut hands = Hands::of(&db).await;
        assert_eq!(hands.count("sequence_gaps").await, 0);
        assert_eq!(hands.count("payment_outbox_pending").await, 256);
    }

    async fn numbers_have_no_gap_after_batches_roll_back(db: Db) {
        let mut hands = Hands::of(&db).await;
        let batch = |tag: &str| -> Vec<Request> {
            (0..9).map(|n| Request::new(["a", "b", "c"][n % 3], &format!("{tag}{n}"))).collect()
        };
        enqueue_batch(&mut hands.ingest, &batch("first")).await.expect("a good batch");
        let mut open = hands.ingest.begin().await.expect("a transaction");
        enqueue_batch(&mut *open, &batch("lost")).await.expect("a good batch");
        open.rollback().await.expect("it rolls back");
        let answers = enqueue_batch(&mut hands.ingest, &batch("second")).await.expect("a good batch");
        let numbers: Vec<_> = answers.iter().filter_map(|row| row.sequence_id).collect();
        assert_eq!(numbers, [4, 4, 4, 5, 5, 5, 6, 6, 6], "in input order, from where the first batch ended");
        assert_eq!(hands.count("sequence_gaps").await, 0);
    }

    async fn five_hundred_duplicates_at_once_are_one_payment(db: Db) {
        let pool = db.pool(DbUser::Ingest, 50);
        let calls: Vec<JoinHandle<Accepted>> = (0..500)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { enqueue(&pool, &Request::new("p", "k")).await.expect("each is answered") })
            })
            .collect();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await.expect("no panic"));
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "all say the same");
        assert_eq!((answers[0].sequence_id, answers[0].state.as_str()), (1, "PENDING"));
        let mut hands = Hands::of(&db).await;
        for (table, rows) in [("payment_outbox_pending", 1), ("payment_outbox_records", 1), ("sequence_gaps", 0)] {
            assert_eq!(hands.count(table).await, rows, "{table}");
        }
        assert_eq!(hands.count("participant_outbox_sequences where next_sequence_id = 2").await, 1, "no number was taken");
    }

    async fn a_replay_repeats_the_first_answer_for_ever(db: Db) {
        let mut hands = Hands::of(&db).await;
        let request = Request::new("p", "k");
        let first = hands.enqueue_this(&request).await;
        assert_eq!(hands.enqueue_this(&request).await, first, "while it is pending");
        let lease = hands.claim_one().await;
        assert_eq!(hands.enqueue_this(&request).await, first, "while it is leased");
        hands.complete(&lease, &Answer::retry("BUSY")).await.expect("it is held");
        assert_eq!(hands.enqueue_this(&request).await, first, "between two attempts");
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        let done = Accepted { state: "DISPATCHED".to_owned(), ..first.clone() };
        assert_eq!(hands.enqueue_this(&request).await, done, "after the verdict");

        hands.retire_history(&db, first.outbox_id).await;
        assert_eq!(hands.count("payment_outbox_attempts").await, 0);
        assert_eq!(hands.enqueue_this(&request).await, done, "after its history is gone");
        let batch = enqueue_batch(&mut hands.ingest, std::slice::from_ref(&request)).await.expect("a good batch");
        assert_eq!((batch[0].replayed, batch[0].state.as_deref()), (true, Some("DISPATCHED")));
        assert_eq!(refusal(enqueue(&mut hands.ingest, &request.payload("{}")).await), "P7004");
        assert_eq!(hands.enqueue_this(&Request::new("p", "k2")).await.sequence_id, 2, "no replay took a number");
    }

    async fn another_body_under_the_same_key_is_refused(db: Db) {
        let mut hands = Hands::of(&db).await;
        let request = Request::new("p", "k").payload(r#"{"amount": 1.0, "currency": "UGX"}"#);
        let first = hands.enqueue_this(&request).await;
        for other in [
            Request { participant_id: Some("q".to_owned()), ..request.clone() },
            request.clone().rail("other"),
            request.clone().payload(r#"{"amount": 1.00, "currency": "UGX"}"#),
            request.clone().payload(r#"{"amount": 1.0}"#),
        ] {
            assert_eq!(refusal(enqueue(&mut hands.ingest, &other).await), "P7004", "{other:?}");
        }
        let spelled_differently = request.clone().payload(r#"{"currency":"UGX",   "amount":1.0}"#);
        assert_eq!(hands.enqueue_this(&spelled_differently).await, first);
        let own_key = Request { instruction_id: Some("another".to_owned()), ..request };
        assert_eq!(hands.enqueue_this(&own_key).await.sequence_id, 2, "a key is unique per instruction");
        assert_eq!(hands.count("payment_outbox_pending").await, 2);
        assert_eq!(hands.count("sequence_gaps").await, 0);
    }

    async fn the_parts_of_a_key_are_kept_apart(db: Db) {
        let mut hands = Hands::of(&db).await;
        for (n, (instruction, key)) in [("ab", "c"), ("a", "bc"), ("1:a", "b"), ("1", ":ab"), ("é", "x")].into_iter().enumerate() {
            let request = Request { instruction_id: Some(instruction.to_owned()), ..Request::new("p", key) };
            assert_eq!(hands.enqueue_this(&request).await.sequence_id, n as i64 + 1, "{instruction} {key}");
        }
    }

    async fn a_concurrent_replay_waits_and_is_answered_as_one(db: Db) {
        let pool = db.pool(DbUser::Ingest, 4);
        for batch in [false, true] {
            let request = Request::new("p", &format!("k {batch}"));
            let mut open = pool.begin().await.expect("a transaction");
            let first = enqueue(&mut *open, &request).await.expect("a good payment is accepted");
            let replay = spawn_enqueue(&pool, request.clone(), batch);
            until_waiting(&db, 1).await;
            open.commit().await.expect("it commits");
            assert_eq!(replay.await.expect("no panic"), Ok(first), "as a batch: {batch}");
        }
        assert_eq!(Hands::of(&db).await.count("sequence_gaps").await, 0);
    }

    async fn a_concurrent_reuse_by_another_participant_waits_and_is_refused(db: Db) {
        let pool = db.pool(DbUser::Ingest, 4);
        for batch in [false, true] {
            let request = Request::new("p", &format!("k {batch}"));
            let mut open = pool.begin().await.expect("a transaction");
            enqueue(&mut *open, &request).await.expect("a good payment is accepted");
            let reuse = spawn_enqueue(&pool, Request { participant_id: Some("q".to_owned()), ..request }, batch);
            until_waiting(&db, 1).await;
            open.commit().await.expect("it commits");
            assert_eq!(reuse.await.expect("no panic"), Err("P7004".to_owned()), "as a batch: {batch}");
        }
        let mut hands = Hands::of(&db).await;
        assert_eq!(hands.count("payment_outbox_records where participant_id = 'q'").await, 0);
        assert_eq!(hands.count("sequence_gaps").await, 0, "the number taken for the refused one went back");
    }

    async fn a_replay_of_what_was_rolled_back_meanwhile_is_a_payment_of_its_own(db: Db) {
        let pool = db.pool(DbUser::Ingest, 4);
        for (n, batch) in [false, true].into_iter().enumerate() {
            let request = Request::new("p", &format!("k {batch}"));
            let mut open = pool.begin().await.expect("a transaction");
            let lost = enqueue(&mut *open, &request).await.expect("a good payment is accepted");
            let replay = spawn_enqueue(&pool, request.clone(), batch);
            until_waiting(&db, 1).await;
            open.rollback().await.expect("it rolls back");
            let own = replay.await.expect("no panic").expect("accepted");
            assert_ne!(own.outbox_id, lost.outbox_id);
            assert_eq!(own.sequence_id, n as i64 + 1, "the number was given back");
        }
    }

    async fn a_transaction_that_cannot_see_the_other_record_is_told_to_start_again(db: Db) {
        let mut hands = Hands::of(&db).await;
        let mut late = db.connect(DbUser::Ingest).await;
        let mut open = late.begin_with("begin isolation level repeatable read").await.expect("a transaction");
        enqueue(&mut *open, &Request::new("p", "another")).await.expect("it is new");
        hands.enqueue("q", "k").await;
        assert_eq!(refusal(enqueue(&mut *open, &Request::new("r", "k")).await), "40001");
        open.rollback().await.expect("a rollback");
        assert_eq!(refusal(enqueue(&mut late, &Request::new("r", "k")).await), "P7004");
    }

    async fn a_payment_of_a_prepared_transaction_is_accepted_while_a_host_sleeps(db: Db) {
        let folder = harness::scratch_folder("two-phase");
        let settings = vec![("max_prepared_transactions".to_owned(), "2".to_owned())];
        let options = ServerOptions { major: Some(db.pg.major()), settings, ..ServerOptions::throwaway(folder) };
        let server = Server::start(options).await.unwrap_or_else(|error| panic!("{error}"));
        let own = Db::on(db.pg, server.connect_options()).await;
        let mut hands = Hands::of(&own).await;
        run(&mut hands.executor, "select symphony.report_host('h', array['mock'], true)").await;
        for (key, says_so) in [("silent", false), ("told", true)] {
            run(&mut hands.ingest, "begin").await;
            if says_so {
                run(&mut hands.ingest, "set local symphony.will_prepare = on").await;
            }
            enqueue(&mut hands.ingest, &Request::new("p", key)).await.expect("accepted");
            let prepared = try_run(&mut hands.ingest, "prepare transaction 'two'").await;
            assert_eq!(prepared.is_ok(), says_so, "{key}: {prepared:?}");
        }
        assert_eq!(hands.claim(10).await, [], "not before its second phase");
        run(&mut hands.ingest, "commit prepared 'two'").await;
        assert_eq!(hands.claim_one().await.sequence_id, 1);
    }

    async fn gaps_are_looked_for_in_a_window(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 5).await;
        hands.enqueue_many("q", 3).await;
        // Only a superuser can tear a gap.
        run(&mut hands.owner, "set session_replication_role = replica").await;
        run(&mut hands.owner, "delete from symphony.payment_outbox_records where participant_id = 'p' and sequence_id in (2, 3)").await;
        let mut readonly = db.connect(DbUser::Readonly).await;
        for (arguments, gaps) in [
            ("null, now() - interval '1 hour', now() + interval '1 hour'", vec!["p 2-3"]),
            ("'p', now() - interval '1 hour', now() + interval '1 hour'", vec!["p 2-3"]),
            ("'q', now() - interval '1 hour', now() + interval '1 hour'", vec![]),
            ("null, now() - interval '2 hours', now() - interval '1 hour'", vec![]),
        ] {
            let sql = format!(
                "select format('%s %s-%s', participant_id, gap_from, gap_until) from symphony.sequence_gaps_between({arguments})"
            );
            assert_eq!(column::<String>(&mut readonly, &sql).await, gaps, "{arguments}");
        }
        let no_end = "select symphony.sequence_gaps_between(null, now(), null)";
        assert_eq!(refusal(try_run(&mut readonly, no_end).await), "22023");
    }

    async fn windows_that_follow_each_other_leave_no_missing_number_out(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 7).await;
        hands.enqueue("q", "first of q").await;
        db.move_clock("20 days").await;
        for n in 8..=12 {
            hands.enqueue("p", &format!("later {n}")).await;
        }
        run(&mut hands.owner, "set session_replication_role = replica").await;
        let torn = "delete from symphony.payment_outbox_records
                     where participant_id = 'p' and sequence_id in (1, 6, 7, 10, 12) or participant_id = 'q'";
        run(&mut hands.owner, torn).await;
        let mut readonly = db.connect(DbUser::Readonly).await;
        let (before, between) = ("timestamptz 'epoch'", "now() + interval '10 days'");
        let (until_then, for_ever) = ("symphony.clock() - interval '1 hour'", "timestamptz '9999-01-01Z'");
        for (from, until, gaps) in [
            (before, between, vec!["p 1-1"]),
            (between, for_ever, vec!["p 6-7", "p 10-10", "p 12-12", "q 1-1"]),
            (between, until_then, vec![]),
            (before, for_ever, vec!["p 1-1", "p 6-7", "p 10-10", "p 12-12", "q 1-1"]),
        ] {
            let sql = format!(
                "select format('%s %s-%s', participant_id, gap_from, gap_until) from symphony.sequence_gaps_between(null, {from}, {until})"
            );
            assert_eq!(column::<String>(&mut readonly, &sql).await, gaps, "{from} to {until}");
        }
        let all = "select format('%s %s-%s', participant_id, gap_from, gap_until) from symphony.sequence_gaps order by participant_id, gap_from";
        assert_eq!(column::<String>(&mut readonly, all).await, ["p 1-1", "p 6-7", "p 10-10", "p 12-12", "q 1-1"]);
    }

    async fn a_batch_answers_each_row_as_the_single_form_does(db: Db) {
        let other = Db::fresh(db.pg).await;
        let (mut singly, mut batched) = (Hands::of(&db).await, Hands::of(&other).await);
        let old = Request::new("p", "old");
        for hands in [&mut singly, &mut batched] {
            hands.operate("suspend_participant", "s").await;
            hands.enqueue_this(&old).await;
        }
        let requests = [
            Request::new("p", "k1"),
            Request::new("q", "k2"),
            Request::new("p", ""),
            Request::new("p", "k1"),
            Request::new("p", "k1").rail("other"),
            old.clone(),
            old.payload("{}"),
            Request::new("s", "k3"),
            Request::new("p", "k3"),
            Request { payload: None, ..Request::new("p", "k4") },
            Request::new("p", "k4"),
            Request::new("p", "k5").payload("[]"),
            Request::new("q", "k6"),
            Request::new("q", "k2"),
        ];
        let mut expected = Vec::new();
        for request in &requests {
            expected.push(match enqueue(&mut singly.ingest, request).await {
                Ok(accepted) => (Some(accepted.sequence_id), Some(accepted.state), None),
                Err(error) => (None, None, Some(sqlstate(&error))),
            });
        }
        let answers = enqueue_batch(&mut batched.ingest, &requests).await.expect("a good batch");
        let got: Vec<_> = answers.iter().map(|row| (row.sequence_id, row.state.clone(), row.refusal.clone())).collect();
        assert_eq!(got, expected);
        let replayed: Vec<_> = answers.iter().filter(|row| row.replayed).map(|row| row.ordinal).collect();
        assert_eq!(replayed, [4, 6, 14], "a refused row is no replay");
        assert!(answers.iter().map(|row| row.ordinal).eq(1..=requests.len() as i32));
        for row in &answers {
            assert_eq!(row.refusal.is_some(), row.outbox_id.is_none(), "{row:?}");
            assert_eq!(row.refusal.is_some(), row.refusal_detail.is_some(), "{row:?}");
            assert_eq!(row.outbox_id.is_some(), row.created_at.is_some(), "{row:?}");
        }
        assert_eq!(answers[3].outbox_id, answers[0].outbox_id);
        assert_eq!(batched.count("sequence_gaps").await, 0);
        assert_eq!(batched.count("payment_outbox_pending").await, singly.count("payment_outbox_pending").await);
    }

    async fn batches_over_the_same_participants_and_keys_do_not_deadlock(db: Db) {
        let pool = db.pool(DbUser::Ingest, 8);
        let sessions: Vec<JoinHandle<Vec<(Request, Answered)>>> = (0..8)
            .map(|session| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    let mut answered = Vec::new();
                    for round in 0..8 {
                        // Every session sends the same keys, in an order of its own, half of them with a body of its own.
                        let mut requests: Vec<Request> = (0..40)
                            .map(|n| {
                                let own = n % 2 == 0 && (n + session) % 3 == 0;
                                Request::new(&format!("p{}", n % 7), &format!("{round}-{n}"))
                                    .rail(if own { "own" } else { "mock" })
                            })
                            .collect();
                        requests.rotate_left(session * 5);
                        if session % 2 == 1 {
                            requests.reverse();
                        }
                        let answers = enqueue_batch(&pool, &requests).await.expect("no deadlock");
                        answered.extend(requests.into_iter().zip(answers));
                    }
                    answered
                })
            })
            .collect();
        let mut ids: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
        for session in sessions {
            for (request, answer) in session.await.expect("no panic") {
                assert!(matches!(answer.refusal.as_deref(), None | Some("P7004")), "{answer:?}");
                ids.entry(request.idempotency_key.expect("it has one")).or_default().extend(answer.outbox_id);
            }
        }
        assert_eq!(ids.len(), 320);
        assert!(ids.values().all(|ids| ids.len() == 1), "each key has one payment: {ids:?}");
        let mut hands = Hands::of(&db).await;
        assert_eq!(hands.count("payment_outbox_pending").await, 320);
        assert_eq!(hands.count("sequence_gaps").await, 0);
    }
}

/// Hands in one payment by either form; a refusal is its SQLSTATE in both.
fn spawn_enqueue(pool: &PgPool, request: Request, batch: bool) -> JoinHandle<Result<Accepted, String>> {
    let pool = pool.clone();
    tokio::spawn(async move {
        if !batch {
            return enqueue(&pool, &request).await.map_err(|error| sqlstate(&error));
        }
        let row = enqueue_batch(&pool, &[request]).await.map_err(|error| sqlstate(&error))?.remove(0);
        match (row.refusal, row.outbox_id, row.sequence_id, row.created_at, row.state) {
            (None, Some(outbox_id), Some(sequence_id), Some(created_at), Some(state)) => {
                Ok(Accepted { outbox_id, sequence_id, created_at, state })
            }
            (refusal, ..) => Err(refusal.expect("a row without an id says why")),
        }
    })
}
