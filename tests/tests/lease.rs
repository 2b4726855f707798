//! While a lease is held: the heartbeat, the hand-back, the hand-over mark.

use harness::on_each_postgres;
use harness::sql::{Answer, Hands, Leased, WORKER, column, refusal, run, scalar, try_run};
use uuid::Uuid;

on_each_postgres! {
    async fn a_heartbeat_extends_what_is_ours_and_names_nothing_else(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 2).await;
        let leases = hands.claim(2).await;
        db.move_clock("20 seconds").await;
        let extend = |worker: &str, lease: &Leased, token: Uuid| {
            format!(
                "select outbox_id from symphony.extend_outbox_leases('{worker}', array['{}'::uuid], array['{token}'::uuid], 30)",
                lease.outbox_id
            )
        };
        let sql = extend(WORKER, &leases[0], leases[0].lease_token);
        assert_eq!(column::<Uuid>(&mut hands.executor, &sql).await, [leases[0].outbox_id]);
        for sql in [
            extend("worker-2", &leases[0], leases[0].lease_token),
            extend(WORKER, &leases[0], Uuid::new_v4()),
        ] {
            assert_eq!(column::<Uuid>(&mut hands.executor, &sql).await, Vec::<Uuid>::new(), "{sql}");
        }
        db.move_clock("40 seconds").await;
        let sql = extend(WORKER, &leases[1], leases[1].lease_token);
        assert_eq!(column::<Uuid>(&mut hands.executor, &sql).await, Vec::<Uuid>::new(), "an expired lease is not revived");
        assert_eq!(hands.repair().await, [(leases[1].outbox_id, 1)], "the extended one is still held");
        hands.complete(&leases[0], &Answer::new("DISPATCHED")).await.expect("it is held");
    }

    async fn an_extended_lease_is_found_by_repair_when_it_too_runs_out(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        let sql = format!(
            "select symphony.extend_outbox_leases('{WORKER}', array['{id}'::uuid], array['{}'::uuid], 300)", lease.lease_token
        );
        run(&mut hands.executor, &sql).await;
        db.move_clock("60 seconds").await;
        assert_eq!(hands.repair().await, []);
        db.move_clock("299 seconds").await;
        assert_eq!(hands.repair().await, []);
        db.move_clock("310 seconds").await;
        assert_eq!(hands.repair().await, [(id, 1)]);
    }

    async fn a_released_row_is_due_at_once_and_has_no_attempt(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        assert_eq!(release(&mut hands, "worker-2", &lease).await, 0);
        assert_eq!(release(&mut hands, WORKER, &lease).await, 1);
        assert_eq!(release(&mut hands, WORKER, &lease).await, 0, "it is no longer ours");
        assert_eq!(refusal(hands.complete(&lease, &Answer::new("DISPATCHED")).await), "P7002");
        let again = hands.claim_one().await;
        assert_eq!((again.next_attempt_at, again.attempt_count), (lease.next_attempt_at, 0));
        assert_eq!(hands.count("payment_outbox_attempts").await, 0);
        db.move_clock("31 seconds").await;
        assert_eq!(release(&mut hands, WORKER, &again).await, 0, "an expired lease is for repair");
    }

    async fn a_row_that_was_handed_over_is_never_released(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        assert_eq!(mark(&mut hands, "worker-2", &lease).await, 0);
        assert_eq!(mark(&mut hands, WORKER, &lease).await, 1);
        let at: String = hands.scalar("select handed_over_at::text from symphony.payment_outbox_pending").await;
        assert_eq!(mark(&mut hands, WORKER, &lease).await, 1, "a mark made twice is one mark");
        assert_eq!(at, hands.scalar::<String>("select handed_over_at::text from symphony.payment_outbox_pending").await);
        assert_eq!(release(&mut hands, WORKER, &lease).await, 0);
        db.move_clock("31 seconds").await;
        assert_eq!(mark(&mut hands, WORKER, &lease).await, 0, "what must not be sent is not marked");
    }

    async fn a_lease_that_only_asks_is_released_although_an_earlier_one_handed_over(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.keep_marks("mock").await;
        hands.enqueue("p", "k").await;
        let sent = hands.claim_one().await;
        mark(&mut hands, WORKER, &sent).await;
        hands.complete(&sent, &Answer::retry("OUTCOME_UNKNOWN")).await.expect("it is held");
        let asks = hands.claim_one().await;
        assert!(asks.unsettled && asks.handed_over_at.is_some());
        assert_eq!(release(&mut hands, WORKER, &asks).await, 1);
        let again = hands.claim_one().await;
        assert_eq!((again.unsettled, again.handed_over_at), (true, asks.handed_over_at), "the mark stays");

        // Where a rail may be sent the same key again without being asked, this lease hands over too.
        mark(&mut hands, WORKER, &again).await;
        assert_eq!(release(&mut hands, WORKER, &again).await, 0);
    }

    async fn the_switches_say_what_must_not_be_handed_over_any_more(db: Db) {
        let mut hands = Hands::of(&db).await;
        let stopped = "select format('%s %s', rails, participants) from symphony.stopped()";
        assert_eq!(scalar::<String>(&mut hands.executor, stopped).await, "{} {}");
        for (act, target) in [("pause_rail", "b"), ("pause_rail", "a"), ("pause_rail", "c"), ("suspend_participant", "p")] {
            hands.operate(act, target).await;
        }
        hands.order_strictly("q", true).await;
        hands.operate("resume_rail", "c").await;
        assert_eq!(scalar::<String>(&mut hands.executor, stopped).await, "{a,b} {p}");
        hands.operate("reinstate_participant", "p").await;
        assert_eq!(scalar::<String>(&mut hands.executor, stopped).await, "{a,b} {}");
    }

    async fn on_a_rail_that_keeps_marks_only_a_marked_zombie_is_unsettled(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.keep_marks("mock").await;
        for (marked, by_claim) in [(false, false), (true, false), (false, true), (true, true)] {
            let id = hands.enqueue("p", &format!("{marked} {by_claim}")).await;
            let lease = hands.claim_one().await;
            if marked {
                assert_eq!(mark(&mut hands, WORKER, &lease).await, 1);
            }
            db.move_clock("31 seconds").await;
            if by_claim {
                assert_eq!(hands.claim_one().await.unsettled, marked);
            } else {
                assert_eq!(hands.repair().await, [(id, 1)]);
            }
            let as_agreed = format!(
                "payment_outbox_pending p join symphony.payment_outbox_attempts a using (outbox_id)
                  where outbox_id = '{id}' and unsettled = {marked} and a.money_moved = '{}'",
                if marked { "unknown" } else { "no" }
            );
            assert_eq!(hands.count(&as_agreed).await, 1, "marked {marked}, by claim {by_claim}");
            run(&mut hands.owner, "delete from symphony.payment_outbox_pending").await;
            run(&mut hands.owner, "delete from symphony.payment_outbox_claims").await;
            db.move_clock("0 seconds").await;
        }
    }

    async fn the_mark_of_an_attempt_that_was_settled_does_not_outlive_it(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.keep_marks("mock").await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        mark(&mut hands, WORKER, &lease).await;
        // The rail answered: not executed, key still free.
        hands.complete(&lease, &Answer::retry("BUSY")).await.expect("it is held");
        let next = hands.claim_one().await;
        assert_eq!((next.unsettled, next.handed_over_at), (false, None));
        assert_eq!(release(&mut hands, WORKER, &next).await, 1, "this lease handed nothing over");
        hands.claim_one().await;
        db.move_clock("31 seconds").await;
        assert_eq!(hands.repair().await, [(id, 2)]);
        assert_eq!(hands.count("payment_outbox_pending where not unsettled").await, 1);
    }

    async fn a_hint_brings_a_scheduled_question_forward_and_touches_nothing_else(db: Db) {
        let mut hands = Hands::of(&db).await;
        let later = |unsettled| Answer { delay_seconds: Some(600.0), unsettled: Some(unsettled), ..Answer::retry("LATER") };
        let mut waiting = Vec::new();
        for (key, unsettled) in [("asked", true), ("unsent", false)] {
            hands.enqueue("p", key).await;
            let lease = hands.claim_one().await;
            hands.complete(&lease, &later(unsettled)).await.expect("it is held");
            waiting.push(lease.outbox_id);
        }
        let fresh = hands.enqueue("p", "fresh").await;
        let hint = |rail: &str, id: Uuid| format!("select symphony.hint_payment('{rail}', '{id}')");
        for (rail, id) in [("mock", waiting[1]), ("mock", fresh), ("another", waiting[0]), ("mock", Uuid::nil())] {
            assert!(!scalar::<bool>(&mut hands.executor, &hint(rail, id)).await, "{rail} {id}");
        }
        assert_eq!(hands.claim_one().await.outbox_id, fresh, "nothing else is due");
        assert!(scalar::<bool>(&mut hands.executor, &hint("mock", waiting[0])).await);
        assert!(!scalar::<bool>(&mut hands.executor, &hint("mock", waiting[0])).await, "it is due already");
        let lease = hands.claim_one().await;
        assert_eq!((lease.outbox_id, lease.unsettled), (waiting[0], true));
        assert!(!scalar::<bool>(&mut hands.executor, &hint("mock", waiting[0])).await, "it is being called about");
        assert_eq!(hands.count("payment_outbox_attempts").await, 2, "a hint is no attempt");
        let mut heard = 1;
        hands.complete(&lease, &later(true)).await.expect("it is held");
        while scalar::<bool>(&mut hands.executor, &hint("mock", waiting[0])).await {
            let lease = hands.claim_one().await;
            hands.complete(&lease, &later(true)).await.expect("it is held");
            heard += 1;
        }
        assert_eq!(heard, 9, "however many come, half of the attempts are left to the schedule");
    }

    async fn leases_are_not_touched_by_arrays_of_different_lengths(db: Db) {
        let mut hands = Hands::of(&db).await;
        for call in [
            "extend_outbox_leases('w', array[gen_random_uuid()], '{}', 30)",
            "extend_outbox_leases('w', array[gen_random_uuid()], null, 30)",
            "extend_outbox_leases('w', array[gen_random_uuid()], array[gen_random_uuid()], 3601)",
            "extend_outbox_leases('', array[gen_random_uuid()], array[gen_random_uuid()], 30)",
            "release_outbox_leases('w', array[gen_random_uuid()], '{}')",
            "release_outbox_leases('w', null, array[gen_random_uuid()])",
            "mark_handed_over('w', array[gen_random_uuid()], '{}')",
            "hint_payment(null, gen_random_uuid())",
            "mark_handed_over(null, array[gen_random_uuid()], array[gen_random_uuid()])",
        ] {
            assert_eq!(refusal(try_run(&mut hands.executor, &format!("select symphony.{call}")).await), "22023", "{call}");
        }
    }
}

async fn release(hands: &mut Hands, worker: &str, lease: &Leased) -> i64 {
    let sql = format!(
        "select count(*) from symphony.release_outbox_leases('{worker}', array['{}'::uuid], array['{}'::uuid])",
        lease.outbox_id, lease.lease_token
    );
    scalar(&mut hands.executor, &sql).await
}

async fn mark(hands: &mut Hands, worker: &str, lease: &Leased) -> i64 {
    let sql = format!(
        "select count(*) from symphony.mark_handed_over('{worker}', array['{}'::uuid], array['{}'::uuid])",
        lease.outbox_id, lease.lease_token
    );
    scalar(&mut hands.executor, &sql).await
}
