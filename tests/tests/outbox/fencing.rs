//! Fencing: nobody but the holder of a live lease ends it, and no lease ends unseen.

use harness::sql::{
    Answer, Hands, Leased, Request, WORKER, claim, claim_with, complete, complete_batch, count, refusal, run,
    scalar, try_run, until_waiting,
};
use harness::{DbUser, on_each_postgres, sqlstate};
use serde_json::Value;
use sqlx::Connection;
use uuid::Uuid;

on_each_postgres! {
    async fn a_wrong_token_a_wrong_worker_or_a_wrong_payment_is_refused(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 2).await;
        let leases = hands.claim(1).await;
        let (held, other) = (&leases[0], hands.claim(1).await.remove(0));
        assert_ne!(held.lease_token, other.lease_token, "each claim has a token of its own");

        let done = Answer::new("DISPATCHED");
        for (worker, id, token) in [
            (WORKER, held.outbox_id, Uuid::new_v4()),
            (WORKER, held.outbox_id, other.lease_token),
            ("worker-2", held.outbox_id, held.lease_token),
            (WORKER, Uuid::now_v7(), held.lease_token),
        ] {
            assert_eq!(refusal(complete(&mut hands.executor, worker, id, token, &done).await), "P7002");
        }
        assert_eq!(hands.count("payment_outbox_attempts").await, 0);
        assert_eq!(hands.count("payment_outbox_pending where lease_token is not null").await, 2);
        assert_eq!(hands.complete(held, &done).await.expect("it is still held"), (1, "DISPATCHED".to_owned()));
    }

    async fn an_expired_lease_cannot_be_completed(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        db.move_clock("31 seconds").await;
        assert_eq!(refusal(hands.complete(&lease, &Answer::new("DISPATCHED")).await), "P7002");
        assert_eq!(hands.count("payment_outbox_attempts").await, 0);
        assert_eq!(hands.count("payment_outbox_pending").await, 1);
    }

    async fn a_repaired_lease_cannot_be_completed_by_its_old_holder(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await, [(id, 1)]);
        assert_eq!(refusal(hands.complete(&lease, &Answer::new("DISPATCHED")).await), "P7002");
        let answers = complete_batch(&mut hands.executor, WORKER, &[(id, lease.lease_token, Answer::new("DISPATCHED"))])
            .await
            .expect("a lost lease is the answer of its row");
        assert_eq!(answers[0].refusal.as_deref(), Some("P7002"));
        assert!(!answers[0].repeated, "a row that repair wrote is no answer of the holder");
        assert_eq!(hands.count("payment_outbox_pending").await, 1);
    }

    async fn the_same_token_again_is_answered_not_lost(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        for (no, state) in [(1, "RETRYABLE"), (2, "DISPATCHED")] {
            let lease = hands.claim_one().await;
            let answer = Answer { delay_seconds: Some(0.0), ..Answer::new(state) };
            let first = hands.complete(&lease, &answer).await.expect("it is held");
            assert_eq!(first, (no, state.to_owned()));
            assert_eq!(hands.complete(&lease, &answer).await.expect("it is recognised"), first);
            let batch = [(lease.outbox_id, lease.lease_token, answer)];
            let again = complete_batch(&mut hands.executor, WORKER, &batch).await.expect("a good batch").remove(0);
            assert!(again.repeated && again.refusal.is_none(), "{again:?}");
            assert_eq!((again.attempt_no, again.state.as_deref()), (Some(no), Some(state)));
            let other = complete_batch(&mut hands.executor, "worker-2", &batch).await.expect("a good batch").remove(0);
            assert_eq!(other.refusal.as_deref(), Some("P7002"), "the token is not another worker's");
        }
        assert_eq!(hands.count("payment_outbox_attempts").await, 2);
    }

    async fn sessions_that_complete_one_lease_at_once_write_one_row(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        let pool = db.pool(harness::DbUser::Executor, 16);
        let calls: Vec<_> = (0..32)
            .map(|_| {
                let (pool, lease) = (pool.clone(), lease.clone());
                tokio::spawn(async move {
                    complete(&pool, WORKER, lease.outbox_id, lease.lease_token, &Answer::new("DISPATCHED")).await
                })
            })
            .collect();
        for call in calls {
            let answer = call.await.expect("no panic").expect("each is answered, the first or as a repeat");
            assert_eq!(answer, (1, "DISPATCHED".to_owned()));
        }
        assert_eq!(hands.count("payment_outbox_attempts").await, 1);
    }

    async fn repair_frees_the_row_and_says_so_in_the_history(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        assert_eq!(hands.repair().await, [], "a live lease is left alone");
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await, [(id, 1)]);
        assert_eq!(hands.repair().await, [], "once is enough");
        let as_agreed: bool = hands
            .scalar(
                "select a.state = 'ZOMBIE_REQUEUE' and a.attempt_no = 1 and a.money_moved = 'unknown'
                    and a.worker_id = 'worker-1' and p.unsettled and p.attempt_count = 1
                    and num_nulls(p.claimed_by, p.lease_token, p.lease_expires_at) = 3
                    and p.next_attempt_at = a.completed_at + interval '1 second'
                   from symphony.payment_outbox_attempts a join symphony.payment_outbox_pending p using (outbox_id)",
            )
            .await;
        assert!(as_agreed);
        let token: Uuid = hands.scalar("select lease_token from symphony.payment_outbox_attempts").await;
        assert_eq!(token, lease.lease_token);
        assert_eq!(hands.count("payment_outbox_claims").await, 0, "the index of leases forgets it");
    }

    async fn repair_frees_leases_of_a_paused_rail_and_a_suspended_participant(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 3).await;
        hands.claim(3).await;
        hands.operate("pause_rail", "mock").await;
        hands.operate("suspend_participant", "p").await;
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await.len(), 3);
    }

    async fn repairs_at_the_same_time_free_each_row_once(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 60).await;
        for _ in 0..12 {
            hands.claim(5).await;
        }
        db.move_clock("31 seconds").await;
        let pool = db.pool(harness::DbUser::Executor, 8);
        let repairs: Vec<_> = (0..16)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { try_run(&pool, "select symphony.repair_expired_leases(7, 'r')").await })
            })
            .collect();
        for repair in repairs {
            repair.await.expect("no panic").expect("repairs do not get into each other's way");
        }
        while !hands.repair().await.is_empty() {}
        assert_eq!(hands.count("payment_outbox_attempts where attempt_no = 1").await, 60);
        assert_eq!(hands.count("payment_outbox_attempts").await, 60);
    }

    async fn repair_leaves_a_row_alone_that_is_being_completed(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        let mut slow = db.connect(harness::DbUser::Executor).await;
        let mut open = slow.begin().await.expect("a transaction");
        complete(&mut *open, WORKER, id, lease.lease_token, &Answer::new("DISPATCHED")).await.expect("it is held");
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await, []);
        assert_eq!(claim(&mut hands.executor, 10, "worker-2").await, []);
        open.commit().await.expect("it commits");
        assert_eq!(hands.repair().await, []);
        assert_eq!(hands.count("payment_outbox_attempts where state = 'DISPATCHED'").await, 1);
        assert_eq!(hands.count("payment_outbox_attempts").await, 1);
    }

    async fn a_takeover_and_its_row_in_the_history_are_one_transaction(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let first = hands.claim_one().await;
        db.move_clock("31 seconds").await;

        let mut open = hands.executor.begin().await.expect("a transaction");
        assert_eq!(claim(&mut *open, 10, "worker-2").await.len(), 1);
        assert_eq!(count(&mut hands.owner, "payment_outbox_attempts").await, 0, "not committed yet");
        open.rollback().await.expect("it rolls back");
        assert_eq!(hands.count("payment_outbox_pending where claimed_by = 'worker-1'").await, 1);

        let second = claim(&mut hands.executor, 10, "worker-2").await.remove(0);
        assert_ne!(second.lease_token, first.lease_token);
        assert!(second.unsettled, "the first holder may have sent it");
        assert_eq!(past(&second)["attempts"][0]["state"], "ZOMBIE_REQUEUE");
        assert_eq!(
            hands.count("payment_outbox_attempts where state = 'ZOMBIE_REQUEUE' and worker_id = 'worker-1'").await,
            1
        );
        assert_eq!(refusal(hands.complete(&first, &Answer::new("DISPATCHED")).await), "P7002");
        let done = complete(
            &mut hands.executor, "worker-2", second.outbox_id, second.lease_token, &Answer::new("DISPATCHED"),
        )
        .await;
        assert_eq!(done.expect("it is held"), (2, "DISPATCHED".to_owned()));
    }

    async fn takeovers_of_one_call_are_capped_over_all_rails(db: Db) {
        let mut hands = Hands::of(&db).await;
        for key in 1..=3 {
            for rail in ["a", "b"] {
                hands.enqueue_this(&Request::new("p", &format!("{rail}{key}")).rail(rail)).await;
            }
        }
        assert_eq!(hands.claim(6).await.len(), 6);
        db.move_clock("31 seconds").await;
        let none = claim_with(&mut hands.executor, "100, 'w', 30, p_takeovers => 0").await.expect("a good claim");
        assert_eq!(none, [], "no takeover is allowed");
        let two = claim_with(&mut hands.executor, "100, 'w', 30, p_takeovers => 2").await.expect("a good claim");
        assert_eq!(two.len(), 2, "the cap is of the call, not of each rail");
        assert_eq!(hands.count("payment_outbox_attempts").await, 2);
        assert_eq!(claim(&mut hands.executor, 100, "w").await.len(), 4);
    }

    async fn a_takeover_at_the_ceiling_ends_the_payment_instead_of_leasing_it(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        hands.attempts(19, &Answer::retry("BUSY")).await;
        hands.claim_one().await;
        db.move_clock("31 seconds").await;
        assert_eq!(claim(&mut hands.executor, 10, "worker-2").await, []);
        assert_last(&mut hands, "FAILED OUTCOME_UNKNOWN unknown 20").await;
    }

    async fn the_twentieth_attempt_ends_the_payment_through_complete(db: Db) {
        for (code, expected) in [
            ("BUSY", "FAILED RETRIES_EXHAUSTED no 20"),
            ("RAIL_PENDING", "FAILED OUTCOME_UNKNOWN unknown 20"),
        ] {
            let db = harness::Db::fresh(db.pg).await;
            let mut hands = Hands::of(&db).await;
            hands.enqueue("p", "k").await;
            hands.attempts(19, &Answer::retry(code)).await;
            let lease = hands.claim_one().await;
            assert_eq!(lease.attempt_count, 19);
            let answer = Answer { rail_reference: Some("heard".to_owned()), ..Answer::retry("BUSY") };
            assert_eq!(hands.complete(&lease, &answer).await.expect("it is held"), (20, "FAILED".to_owned()));
            assert_last(&mut hands, expected).await;
            let kept = "payment_outbox_attempts where attempt_no = 20 and payload is not null and rail_reference = 'heard'";
            assert_eq!(hands.count(kept).await, 1);
            assert_eq!(hands.complete(&lease, &answer).await.expect("a repeat"), (20, "FAILED".to_owned()));
        }
    }

    async fn the_twentieth_attempt_ends_the_payment_through_repair(db: Db) {
        for (marks, expected) in
            [(true, "FAILED RETRIES_EXHAUSTED no 20"), (false, "FAILED OUTCOME_UNKNOWN unknown 20")]
        {
            let db = harness::Db::fresh(db.pg).await;
            let mut hands = Hands::of(&db).await;
            if marks {
                hands.keep_marks("mock").await;
            }
            let id = hands.enqueue("p", "k").await;
            hands.attempts(19, &Answer::retry("BUSY")).await;
            hands.claim_one().await;
            db.move_clock("31 seconds").await;
            assert_eq!(hands.repair().await, [(id, 20)]);
            assert_last(&mut hands, expected).await;
            assert_eq!(hands.repair().await, []);
        }
    }

    async fn a_holder_whose_last_lease_was_ended_by_repair_is_told_that_it_lost_it(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        hands.attempts(19, &Answer::retry("BUSY")).await;
        let lease = hands.claim_one().await;
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await, [(id, 20)]);
        // Answered as a repeat it would not be recorded as late, and nobody would learn that the rail paid.
        assert_eq!(refusal(hands.complete(&lease, &Answer::new("DISPATCHED")).await), "P7002");
    }

    async fn a_payment_with_twenty_attempts_takes_no_further_one(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        // No function leads here; a hand in the history does.
        run(
            &mut hands.owner,
            "insert into symphony.payment_outbox_attempts (outbox_id, lease_token, sequence_id, claimed_at, completed_at,
               created_at, attempt_no, state, instruction_id, participant_id, idempotency_key, rail_type, worker_id, money_moved)
             select outbox_id, gen_random_uuid(), 1, now(), now(), now(), 20, 'RETRYABLE', 'i', 'p', 'k', 'mock', 'w', 'no'
               from symphony.payment_outbox_pending",
        )
        .await;
        assert_eq!(refusal(hands.complete(&lease, &Answer::new("DISPATCHED")).await), "P7005");
        let batch = [(id, lease.lease_token, Answer::new("DISPATCHED"))];
        let answers = complete_batch(&mut hands.executor, WORKER, &batch).await.expect("a good batch");
        assert_eq!(answers[0].refusal.as_deref(), Some("P7005"));
        assert_eq!(hands.count("payment_outbox_pending").await, 1);
    }

    async fn a_late_answer_is_kept_once_and_the_next_holder_learns_of_it(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        db.move_clock("31 seconds").await;
        hands.repair().await;
        let late = format!(
            "select symphony.record_late_answer('{id}', '{}', 'worker-1', 'DISPATCHED', 'ref-7', '200', null, null, 12, 'yes')",
            lease.lease_token
        );
        assert!(scalar::<bool>(&mut hands.executor, &late).await, "kept");
        assert!(!scalar::<bool>(&mut hands.executor, &late).await, "known already");
        assert_eq!(hands.count("payment_outbox_late_answers").await, 1);
        assert_eq!(hands.count("payment_outbox_pending where unsettled and attempt_count = 1").await, 1, "no transition");

        db.move_clock("33 seconds").await;
        let next = hands.claim_one().await;
        let heard = &past(&next)["late_answers"][0];
        assert_eq!(
            (&heard["rail_reference"], &heard["money_moved"], &heard["state"]),
            (&Value::from("ref-7"), &Value::from("yes"), &Value::from("DISPATCHED"))
        );
        let token = Value::from(lease.lease_token.to_string());
        assert_eq!(heard["lease_token"], token, "whose answer it is");
        assert_eq!(past(&next)["attempts"][0]["lease_token"], token, "and which attempt it belongs to");
        let event: String = hands
            .scalar("select event from symphony.payment_timeline where event like 'LATE%'")
            .await;
        assert_eq!(event, "LATE_SUCCESS");
    }

    async fn a_late_answer_must_make_sense(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        for (arguments, code) in [
            (format!("'{}', gen_random_uuid(), 'w', 'DISPATCHED'", Uuid::now_v7()), "P0002"),
            (format!("'{id}', gen_random_uuid(), 'w', 'ZOMBIE_REQUEUE'"), "P7003"),
            (format!("'{id}', gen_random_uuid(), 'w', null"), "P7003"),
            (format!("'{id}', null, 'w', 'DISPATCHED'"), "22023"),
            (format!("'{id}', gen_random_uuid(), '', 'DISPATCHED'"), "22023"),
        ] {
            let sql = format!("select symphony.record_late_answer({arguments}, null, null, null, null, null)");
            assert_eq!(refusal(try_run(&mut hands.executor, &sql).await), code, "{arguments}");
        }
        assert_eq!(hands.count("payment_outbox_late_answers").await, 0);
    }

    async fn a_late_success_and_a_reissue_exclude_each_other(db: Db) {
        let mut hands = Hands::of(&db).await;
        for late_first in [true, false] {
            let key = format!("k {late_first}");
            let id = hands.enqueue("p", &key).await;
            let lease = hands.claim_one().await;
            hands.complete(&lease, &Answer { money_moved: Some("no"), ..Answer::new("FAILED") }).await.expect("it is held");
            let late = format!(
                "select symphony.record_late_answer('{id}', gen_random_uuid(), 'w', 'DISPATCHED', null, null, null, null, 1, 'yes')"
            );
            let reissue = format!("select symphony.reissue_payment('{id}', '{key} 2', '{key} 2', 'ops', 'why')");
            let (first, second) = if late_first { (late, reissue) } else { (reissue, late) };
            let (mut one, mut two) = (db.connect(DbUser::Superuser).await, db.connect(DbUser::Superuser).await);
            let mut open = one.begin().await.expect("a transaction");
            run(&mut *open, &first).await;
            let waiting = tokio::spawn(async move { try_run(&mut two, &second).await });
            until_waiting(&db, 1).await;
            open.commit().await.expect("it commits");
            let told = waiting.await.expect("no panic");
            if late_first {
                assert_eq!(refusal(told), "P7008", "the reissue sees the success");
                assert_eq!(hands.count("payment_outbox_reissues").await, 0);
            } else {
                told.expect("a late answer is never lost");
                let open_case = format!("payments_needing_review where outbox_id = '{id}' and reason = 'LATE_SUCCESS'");
                assert_eq!(hands.count(&open_case).await, 1, "a person sees both");
            }
        }
        let mut open = hands.operator.begin_with("begin isolation level repeatable read").await.expect("a transaction");
        let blind = "select symphony.reissue_payment(gen_random_uuid(), 'i', 'k', 'ops', 'why')";
        assert_eq!(refusal(try_run(&mut *open, blind).await), "0A000", "there the lock would show nothing");
    }

    async fn a_lease_that_no_claim_names_is_found_by_the_sweep(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 300).await;
        assert_eq!(hands.claim(300).await.len(), 300);
        run(&mut hands.owner, "delete from symphony.payment_outbox_claims").await;
        let live = sweep(&mut hands, 10_000).await;
        assert_eq!((live, hands.count("payment_outbox_claims").await), (1, 0), "a lease that runs is left alone");
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await, [], "nobody knows of them");
        assert!(sweep(&mut hands, 5).await > 2, "a few pages at a time");
        let mut repaired = hands.repair().await.len();
        while repaired < 300 {
            let more = hands.repair().await.len();
            assert!(more > 0, "{repaired} of 300");
            repaired += more;
        }
        for arguments in ["'w', -1, 5", "'w', null, 5", "'w', 0, 0", "'', 0, 5"] {
            let sql = format!("select symphony.find_stray_leases({arguments})");
            assert_eq!(refusal(try_run(&mut hands.executor, &sql).await), "22023", "{arguments}");
        }
    }

    async fn a_payment_is_cancelled_only_while_nothing_of_it_can_have_left(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        assert_eq!(cancel(&mut hands, id).await, Err("P7008".to_owned()), "it is leased");
        hands.complete(&lease, &Answer::retry("BUSY")).await.expect("it is held");
        assert_eq!(cancel(&mut hands, id).await, Ok(2), "the rail refused it: nothing moved");
        let verdict = format!(
            "select format('%s %s %s %s %s', state, error_code, money_moved, worker_id, payload ->> 'amount')
               from symphony.payment_outbox_attempts where outbox_id = '{id}' and attempt_no = 2"
        );
        assert_eq!(hands.scalar::<String>(&verdict).await, "FAILED CANCELLED no operator 10.00");
        assert_eq!(hands.count("operator_acts where act = 'cancel_payment' and login = 'symphony_operator'").await, 1);
        assert_eq!(cancel(&mut hands, id).await, Err("P7008".to_owned()), "it has a verdict");
        let reissue = format!("select symphony.reissue_payment('{id}', 'n', 'n', 'ops', 'why')");
        assert_eq!(refusal(try_run(&mut hands.operator, &reissue).await), "P7008", "what was taken back is not sent again");
        assert_eq!(cancel(&mut hands, Uuid::now_v7()).await, Err("P0002".to_owned()));

        let open = hands.enqueue("p", "open").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::retry("OUTCOME_UNKNOWN")).await.expect("it is held");
        assert_eq!(cancel(&mut hands, open).await, Err("P7008".to_owned()), "it may have left");
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer { unsettled: Some(false), ..Answer::retry("NOT_FOUND") }).await.expect("it is held");
        assert_eq!(cancel(&mut hands, open).await, Err("P7008".to_owned()), "it had left once");

        let zombie = hands.enqueue_this(&Request::new("q", "zombie").rail("other")).await.outbox_id;
        claim_with(&mut hands.executor, "1, 'w', 30, array['other']").await.expect("a good claim");
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await, [(zombie, 1)]);
        assert_eq!(cancel(&mut hands, zombie).await, Err("P7008".to_owned()), "its holder may have sent it");
        let nowhere = hands.enqueue_this(&Request::new("q", "nowhere").rail("nobody serves it")).await.outbox_id;
        hands.operate("pause_rail", "nobody serves it").await;
        assert_eq!(cancel(&mut hands, nowhere).await, Ok(1));
    }

    async fn a_claim_and_a_cancellation_exclude_each_other(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let mut open = hands.executor.begin().await.expect("a transaction");
        assert_eq!(claim(&mut *open, 1, WORKER).await.len(), 1);
        let mut operator = db.connect(DbUser::Operator).await;
        let sql = format!("select symphony.cancel_payment('{id}', 'ops', 'why')");
        let waiting = tokio::spawn(async move { try_run(&mut operator, &sql).await });
        until_waiting(&db, 1).await;
        open.commit().await.expect("it commits");
        assert_eq!(refusal(waiting.await.expect("no panic")), "P7008", "it is leased now");

        let other = hands.enqueue("p", "k2").await;
        let mut open = hands.operator.begin().await.expect("a transaction");
        run(&mut *open, &format!("select symphony.cancel_payment('{other}', 'ops', 'why')")).await;
        assert_eq!(claim(&mut hands.executor, 10, WORKER).await, [], "passed by, without waiting");
        open.commit().await.expect("it commits");
        assert_eq!(count(&mut hands.owner, "payment_outbox_pending").await, 1);
    }
}

/// The number of the attempt that a cancellation wrote, or its SQLSTATE.
async fn cancel(hands: &mut Hands, id: Uuid) -> Result<i32, String> {
    let cancelled = sqlx::query_scalar("select symphony.cancel_payment($1, 'tester', 'a test')")
        .bind(id)
        .fetch_one(&mut hands.operator)
        .await
        .map_err(|error| sqlstate(&error));
    // The server tells of an error before it lets the row go, and a claim skips what is locked.
    run(&mut hands.operator, "select 1").await;
    cancelled
}

/// Goes once through what is pending and says in how many steps.
async fn sweep(hands: &mut Hands, pages: i32) -> usize {
    let mut page = 0;
    for steps in 1.. {
        page =
            scalar(&mut hands.executor, &format!("select symphony.find_stray_leases('w', {page}, {pages})"))
                .await;
        if page == 0 {
            return steps;
        }
    }
    unreachable!("the loop has no end of its own")
}

fn past(lease: &Leased) -> &Value {
    lease.past.as_ref().expect("a payment with a history comes with it")
}

/// The last attempt as `state error_code money_moved attempt_no`, of a payment that has left the queue.
async fn assert_last(hands: &mut Hands, expected: &str) {
    let last: String = hands
        .scalar(
            "select format('%s %s %s %s', state, error_code, money_moved, attempt_no)
               from symphony.payment_outbox_attempts order by attempt_no desc limit 1",
        )
        .await;
    assert_eq!(last, expected);
    assert_eq!(hands.count("payment_outbox_pending").await, 0);
}
