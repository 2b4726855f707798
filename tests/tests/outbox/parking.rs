//! Rows that may not be leased now: a paused rail, a suspended participant, a strictly ordered stream.

use harness::sql::{
    Answer, Hands, Leased, Request, WORKER, claim, complete, complete_batch, enqueue, run, scalar, try_run,
    until_waiting,
};
use harness::{Db, DbUser, on_each_postgres, sqlstate};
use sqlx::Connection;
use uuid::Uuid;

on_each_postgres! {
    async fn a_paused_rail_is_asked_about_but_not_paid_over(db: Db) {
        let mut hands = Hands::of(&db).await;
        let (_, unsettled) = one_settled_one_unsettled(&mut hands).await;
        hands.enqueue_this(&Request::new("p", "elsewhere").rail("other")).await;
        hands.operate("pause_rail", "mock").await;
        let leases = hands.claim(10).await;
        assert_eq!(numbers(&leases), [2, 3], "the unsettled row, and the other rail");
        assert_eq!((leases[0].outbox_id, leases[0].unsettled), (unsettled, true));
        hands.operate("resume_rail", "mock").await;
        assert_eq!(numbers(&hands.claim(10).await), [1]);
        assert_eq!(hands.count("payment_outbox_attempts where sequence_id = 1").await, 0, "the pause used up no attempt");
    }

    async fn a_participant_that_nobody_has_seen_is_taken_for_a_slip(db: Db) {
        let mut hands = Hands::of(&db).await;
        for act in ["suspend_participant('typo', ", "reinstate_participant('typo', ", "set_strict_order('typo', true, "] {
            let error = try_run(&mut hands.operator, &format!("select symphony.{act}'tester', 'a test')")).await;
            let error = error.expect_err("nobody knows it");
            assert_eq!(sqlstate(&error), "P0002", "{act}");
            assert!(error.to_string().contains("participant typo has never had a payment"), "{error}");
        }
        assert_eq!(hands.count("participants").await + hands.count("operator_acts").await, 0);
        run(&mut hands.operator, "select symphony.suspend_participant('typo', 'tester', 'a test', true)").await;
        run(&mut hands.operator, "select symphony.reinstate_participant('typo', 'tester', 'a test')").await;
        hands.enqueue("known", "k").await;
        run(&mut hands.operator, "select symphony.suspend_participant('known', 'tester', 'a test')").await;
    }

    async fn cancelling_the_head_of_a_strict_stream_lets_the_next_one_go(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        let head = hands.enqueue_this(&Request::new("p", "head").rail("nobody serves it")).await.outbox_id;
        let ids = hands.enqueue_many("p", 2).await;
        while hands.reconcile().await > 0 {}
        let lease = hands.claim_one().await;
        assert_eq!(lease.outbox_id, head, "only the head");
        release(&mut hands, WORKER, &lease).await;
        let cancel = |id: Uuid| format!("select symphony.cancel_payment('{id}', 'tester', 'a test')");
        run(&mut hands.operator, &cancel(ids[1])).await;
        assert_eq!(hands.count("payment_outbox_pending where parked").await, 1, "a parked one is cancelled as well");
        run(&mut hands.operator, &cancel(head)).await;
        assert_eq!(numbers(&hands.claim(10).await), [2]);
    }

    async fn a_suspended_participant_is_asked_about_but_not_paid(db: Db) {
        let mut hands = Hands::of(&db).await;
        one_settled_one_unsettled(&mut hands).await;
        hands.enqueue("q", "of another").await;
        hands.operate("suspend_participant", "p").await;
        let leases = hands.claim(10).await;
        let mut leased: Vec<_> = leases.iter().map(|lease| (lease.participant_id.as_str(), lease.sequence_id)).collect();
        leased.sort_unstable();
        assert_eq!(leased, [("p", 2), ("q", 1)]);
        assert_eq!(hands.count("payment_outbox_pending where parked").await, 1, "the claim moved it out of its way");
        hands.operate("reinstate_participant", "p").await;
        assert_eq!(hands.claim(10).await, [], "until reconciled");
        assert_eq!((hands.reconcile().await, hands.reconcile().await), (1, 0));
        assert_eq!(numbers(&hands.claim(10).await), [1]);
    }

    async fn an_expired_lease_of_a_suspended_participant_is_taken_over_for_asking_only(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.keep_marks("marks").await;
        hands.enqueue("p", "sent perhaps").await;
        hands.enqueue_this(&Request::new("p", "never sent").rail("marks")).await;
        assert_eq!(hands.claim(10).await.len(), 2);
        hands.operate("suspend_participant", "p").await;
        db.move_clock("31 seconds").await;
        let leases = claim(&mut hands.executor, 10, "worker-2").await;
        assert_eq!(numbers(&leases), [1]);
        assert!(leases[0].unsettled);
        assert_eq!(hands.count("payment_outbox_pending where parked and lease_token is null").await, 1);
        assert_eq!(hands.count("payment_outbox_attempts where state = 'ZOMBIE_REQUEUE'").await, 2);
    }

    async fn parked_rows_leave_the_index_of_the_claim_and_come_back(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("held", 300).await;
        hands.enqueue_many("free", 5).await;
        hands.operate("suspend_participant", "held").await;
        assert_eq!(scalar::<i32>(&mut hands.operator, "select symphony.reconcile_parking(100)").await, 100, "a bounded step");
        let leases = hands.claim(20).await;
        assert_eq!(leases.iter().filter(|lease| lease.participant_id == "free").count(), 5, "a claim gets past the rest");
        assert_eq!(leases.len(), 5);
        while hands.reconcile().await > 0 {}
        assert_eq!(hands.count("payment_outbox_pending where parked").await, 300);
        assert_eq!(hands.scalar::<i64>("select parked from symphony.outbox_status where rail_type = 'mock'").await, 300);

        hands.operate("reinstate_participant", "held").await;
        assert_eq!(scalar::<i32>(&mut hands.operator, "select symphony.reconcile_parking(100)").await, 100);
        while hands.reconcile().await > 0 {}
        assert_eq!(hands.count("payment_outbox_pending where parked").await, 0);
        assert_eq!(hands.claim(1000).await.len(), 300);
    }

    async fn in_strict_order_only_the_head_is_leased_and_its_verdict_promotes_the_next(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        hands.enqueue_many("p", 3).await;
        hands.enqueue("p", "k4").await;
        for number in 1..=4 {
            let lease = hands.claim_one().await;
            assert_eq!(lease.sequence_id, number);
            assert_eq!(hands.claim(10).await, [], "nobody overtakes a leased head");
            assert_eq!(hands.count("payment_outbox_pending where not parked").await, 1, "the others are out of the way");
            hands.complete(&lease, &Answer::retry("BUSY")).await.expect("it is held");
            let lease = hands.claim_one().await;
            assert_eq!(lease.sequence_id, number, "nobody overtakes a head that is tried again");
            let verdict = if number % 2 == 0 { "FAILED" } else { "DISPATCHED" };
            hands.complete(&lease, &Answer::new(verdict)).await.expect("it is held");
        }
        assert_eq!(hands.count("payment_outbox_pending").await, 0);
    }

    async fn a_promoted_payment_waits_out_its_retry_delay(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 2).await;
        let leases = hands.claim(2).await;
        let in_an_hour = Answer { delay_seconds: Some(3600.0), ..Answer::retry("BUSY") };
        hands.complete(&leases[1], &in_an_hour).await.expect("it is held");
        hands.order_strictly("p", true).await;
        while hands.reconcile().await > 0 {}
        assert_eq!(hands.count("payment_outbox_pending where parked").await, 1);
        hands.complete(&leases[0], &Answer::new("DISPATCHED")).await.expect("it is held");
        assert_eq!(hands.count("payment_outbox_pending where not parked").await, 1, "promoted");
        assert_eq!(hands.claim(10).await, [], "but not due");
        db.move_clock("1 hour").await;
        assert_eq!(numbers(&hands.claim(10).await), [2]);
    }

    async fn a_head_that_repair_ends_at_the_ceiling_promotes_the_next(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        hands.enqueue_many("p", 2).await;
        hands.attempts(19, &Answer::retry("BUSY")).await;
        hands.claim_one().await;
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await.len(), 1);
        assert_eq!(hands.claim_one().await.sequence_id, 2);
    }

    async fn switching_strict_order_takes_hold_of_a_queue_that_is_there(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 5).await;
        hands.order_strictly("p", true).await;
        assert_eq!(numbers(&hands.claim(10).await), [1], "from the next claim on");
        while hands.reconcile().await > 0 {}
        assert_eq!(hands.count("payment_outbox_pending where parked").await, 4);
        hands.order_strictly("p", false).await;
        while hands.reconcile().await > 0 {}
        assert_eq!(numbers(&hands.claim(10).await), [2, 3, 4, 5]);
    }

    async fn a_verdict_of_a_suspended_stream_promotes_only_after_it_is_reinstated(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        hands.enqueue_many("p", 2).await;
        let head = hands.claim_one().await;
        hands.operate("suspend_participant", "p").await;
        hands.complete(&head, &Answer::new("DISPATCHED")).await.expect("it is held");
        assert_eq!(hands.claim(10).await, []);
        hands.operate("reinstate_participant", "p").await;
        assert_eq!(hands.reconcile().await, 1);
        assert_eq!(hands.claim_one().await.sequence_id, 2);
    }

    async fn reconcile_heals_a_stranded_head(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        hands.enqueue_many("p", 3).await;
        run(&mut hands.owner, "update symphony.payment_outbox_pending set parked = true").await;
        assert_eq!(hands.claim(10).await, []);
        assert_eq!((hands.reconcile().await, hands.reconcile().await), (1, 0));
        assert_eq!(hands.claim_one().await.sequence_id, 1);
    }

    async fn a_callers_long_transaction_holds_up_no_verdict_and_strands_no_row(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        hands.enqueue("p", "k1").await;
        let head = hands.claim_one().await;
        let mut open = hands.ingest.begin().await.expect("a transaction");
        enqueue(&mut *open, &Request::new("p", "k2")).await.expect("a good payment");
        run(&mut hands.executor, "set lock_timeout = '2s'").await;
        complete(&mut hands.executor, WORKER, head.outbox_id, head.lease_token, &Answer::new("DISPATCHED"))
            .await
            .expect("it waits for nobody");
        open.commit().await.expect("it commits");
        assert_eq!(hands.claim_one().await.sequence_id, 2);
    }

    async fn a_payment_that_came_while_a_verdict_was_open_becomes_the_head(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        hands.enqueue("p", "k1").await;
        let head = hands.claim_one().await;
        let mut open = hands.executor.begin().await.expect("a transaction");
        complete(&mut *open, WORKER, head.outbox_id, head.lease_token, &Answer::new("DISPATCHED")).await.expect("it is held");
        enqueue(&mut hands.ingest, &Request::new("p", "k2")).await.expect("accepted");
        let mut other = db.connect(DbUser::Executor).await;
        assert_eq!(claim(&mut other, 10, "worker-2").await, [], "the verdict may still be taken back");
        open.commit().await.expect("it commits");
        assert_eq!(hands.claim_one().await.sequence_id, 2);
    }

    async fn a_claim_that_parks_the_next_row_before_the_verdict_commits_does_not_strand_it(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        hands.enqueue_many("p", 2).await;
        let head = hands.claim(1).await.remove(0);
        assert_eq!(head.sequence_id, 1);
        let mut other = db.connect(DbUser::Executor).await;
        let mut open = other.begin().await.expect("a transaction");
        assert_eq!(claim(&mut *open, 10, "worker-2").await, [], "it parks the second row");
        let verdict = spawn_complete(&db, &head);
        until_waiting(&db, 1).await;
        open.commit().await.expect("it commits");
        verdict.await.expect("no panic").expect("the verdict goes through");
        assert_eq!(hands.claim_one().await.sequence_id, 2);
    }

    async fn a_reconciliation_beside_verdicts_does_not_strand_the_next_rows(db: Db) {
        let mut hands = Hands::of(&db).await;
        let operator = db.pool(DbUser::Operator, 1);
        for round in 0..6 {
            let streams: Vec<String> = (0..40).map(|n| format!("p{round}-{n}")).collect();
            for stream in &streams {
                hands.enqueue(stream, &format!("{stream} first")).await;
            }
            let heads = verdicts_for(&hands.claim(100).await);
            for stream in &streams {
                hands.enqueue(stream, &format!("{stream} second")).await;
                hands.order_strictly(stream, true).await;
            }
            // One sees heads whose verdicts are not committed, the other sees seconds that are not parked yet.
            let (verdicts, parked) = tokio::join!(
                complete_batch(&mut hands.executor, WORKER, &heads),
                try_run(&operator, "select symphony.reconcile_parking()"),
            );
            verdicts.expect("they were held");
            parked.expect("it gets into nobody's way");
            let seconds = hands.claim(100).await;
            assert_eq!(seconds.len(), 40, "every second row is a head now");
            complete_batch(&mut hands.executor, WORKER, &verdicts_for(&seconds)).await.expect("they are held");
        }
    }

    async fn a_race_of_enqueue_claim_and_verdict_never_strands_a_row(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        hands.enqueue("p", "k0").await;
        let (ingest, executor) = (db.pool(DbUser::Ingest, 1), db.pool(DbUser::Executor, 2));
        for round in 1..=120 {
            let head = hands.claim_one().await;
            assert_eq!(head.sequence_id, round);
            let request = Request::new("p", &format!("k{round}"));
            let done = Answer::new("DISPATCHED");
            let (next, verdict, others) = tokio::join!(
                enqueue(&ingest, &request),
                complete(&executor, WORKER, head.outbox_id, head.lease_token, &done),
                claim(&executor, 10, "worker-2"),
            );
            next.expect("accepted");
            verdict.expect("it was held");
            for lease in others {
                // The third session may have been quick enough to lease the new head: hand it back.
                assert_eq!(lease.sequence_id, round + 1);
                release(&mut hands, "worker-2", &lease).await;
            }
        }
    }

    async fn verdicts_of_one_stream_do_not_deadlock(db: Db) {
        let mut hands = Hands::of(&db).await;
        for round in 0..6 {
            // Leased before the order became strict, so that two verdicts of one stream can meet.
            let streams: Vec<String> = (0..40).map(|n| format!("p{round}-{n}")).collect();
            for stream in &streams {
                hands.enqueue_many(stream, 2).await;
            }
            let leases = hands.claim(80).await;
            assert_eq!(leases.len(), 80);
            for stream in &streams {
                hands.order_strictly(stream, true).await;
            }
            let pool = db.pool(DbUser::Executor, 2);
            let verdicts = |number: i64| {
                let leases: Vec<Leased> = leases.iter().filter(|lease| lease.sequence_id == number).cloned().collect();
                let rows = verdicts_for(&leases);
                let pool = pool.clone();
                tokio::spawn(async move { complete_batch(&pool, WORKER, &rows).await })
            };
            let (heads, seconds) = (verdicts(1), verdicts(2));
            for batch in [heads, seconds] {
                let answers = batch.await.expect("no panic").expect("no deadlock");
                assert!(answers.iter().all(|row| row.refusal.is_none()));
            }
        }
    }
}

fn verdicts_for(leases: &[Leased]) -> Vec<(Uuid, Uuid, Answer)> {
    leases.iter().map(|lease| (lease.outbox_id, lease.lease_token, Answer::new("DISPATCHED"))).collect()
}

fn numbers(leases: &[Leased]) -> Vec<i64> {
    leases.iter().map(|lease| lease.sequence_id).collect()
}

/// Two due payments of `p`: the first was never tried, the second may have reached its rail.
async fn one_settled_one_unsettled(hands: &mut Hands) -> (Uuid, Uuid) {
    let ids = hands.enqueue_many("p", 2).await;
    let leases = hands.claim(2).await;
    assert_eq!(numbers(&leases), [1, 2]);
    release(hands, WORKER, &leases[0]).await;
    hands.complete(&leases[1], &Answer::retry("OUTCOME_UNKNOWN")).await.expect("it is held");
    (ids[0], ids[1])
}

async fn release(hands: &mut Hands, worker: &str, lease: &Leased) {
    let sql = format!(
        "select symphony.release_outbox_leases('{worker}', array['{}'::uuid], array['{}'::uuid])",
        lease.outbox_id, lease.lease_token
    );
    run(&mut hands.executor, &sql).await;
}

fn spawn_complete(db: &Db, lease: &Leased) -> tokio::task::JoinHandle<Result<(i32, String), sqlx::Error>> {
    let (pool, lease) = (db.pool(DbUser::Executor, 1), lease.clone());
    tokio::spawn(async move {
        complete(&pool, WORKER, lease.outbox_id, lease.lease_token, &Answer::new("DISPATCHED")).await
    })
}
