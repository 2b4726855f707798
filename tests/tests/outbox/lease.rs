//! While a lease is held: the heartbeat, the hand-back, the hand-over mark.

use chrono::{DateTime, TimeDelta, Utc};
use harness::sql::{
    Answer, Hands, Leased, Request, WORKER, claim_with, column, refusal, run, scalar, try_run, until_waiting,
};
use harness::{DbUser, on_each_postgres};
use sqlx::Connection;
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

    async fn what_was_captured_is_told_to_the_next_holder_and_may_only_be_used_by_the_present_one(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        let keep_if = |token: Uuid, values: &str, late: bool| {
            format!(
                "select outbox_id from symphony.keep_captured('{WORKER}', array['{id}'::uuid], array['{token}'::uuid], array['{values}'::jsonb], {late})"
            )
        };
        let keep = |token: Uuid, values: &str| keep_if(token, values, false);
        let sql = keep(lease.lease_token, r#"{"quote": "q-1", "recipient": "r-1"}"#);
        for _ in 0..2 {
            assert_eq!(column::<Uuid>(&mut hands.executor, &sql).await, [id], "again is no error");
        }
        db.move_clock("60 seconds").await;
        let stale = keep(lease.lease_token, r#"{"quote": "q-0", "wallet": "w-0"}"#);
        assert_eq!(column::<Uuid>(&mut hands.executor, &stale).await, Vec::<Uuid>::new(), "it is no longer ours");
        let late = keep_if(lease.lease_token, r#"{"transfer": "t-1"}"#, true);
        assert_eq!(column::<Uuid>(&mut hands.executor, &late).await, Vec::<Uuid>::new(), "it is no longer ours");
        let next = hands.claim_one().await;
        let captured = |lease: &Leased| lease.past.as_ref().expect("it has a past")["captured"].clone();
        let known = serde_json::json!({ "quote": "q-1", "recipient": "r-1", "transfer": "t-1" });
        assert_eq!(captured(&next), known, "what a payment brought is true also after the lease was lost, what was prepared is not");
        run(&mut hands.executor, &keep(next.lease_token, r#"{"quote": "q-2"}"#)).await;
        assert_eq!(release(&mut hands, WORKER, &next).await, 1);
        assert_eq!(captured(&hands.claim_one().await)["quote"], "q-2", "the last one counts");
        for odd in ["[1]", "null", r#"{"a": ""}"#] {
            assert!(matches!(refusal(try_run(&mut hands.executor, &keep_if(next.lease_token, odd, true)).await).as_str(), "22023" | "23514"), "{odd}");
        }
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

    async fn rows_are_locked_in_the_order_of_their_ids_whatever_order_they_are_named_in(db: Db) {
        let mut hands = Hands::of(&db).await;
        let ids = hands.enqueue_many("p", 2).await;
        let (low, high) = (ids[0].min(ids[1]), ids[0].max(ids[1]));
        let token = hands.claim(2).await[0].lease_token;
        let held = format!("'{WORKER}', array['{high}', '{low}']::uuid[], array['{token}', '{token}']::uuid[]");
        for call in [
            format!("extend_outbox_leases({held}, 30)"),
            format!("mark_handed_over({held})"),
            format!("hold_outbox_leases({held}, '{{0, 0}}', null, null, null)"),
            format!("release_outbox_leases({held})"),
            format!("hand_back_unknown_leases('{WORKER}', '{{}}')"),
        ] {
            // As after the claim, whatever the last call did.
            let leased = format!(
                "update symphony.payment_outbox_pending
                    set lease_token = '{token}', claimed_by = '{WORKER}', claimed_at = symphony.clock(), handed_over_at = null,
                        lease_expires_at = symphony.clock() + interval '30 s'"
            );
            run(&mut hands.owner, &leased).await;
            let row = |id: Uuid| format!("select 1 from symphony.payment_outbox_pending where outbox_id = '{id}' for update nowait");
            let mut other = db.connect(DbUser::Superuser).await;
            let mut open = other.begin().await.expect("a transaction");
            run(&mut *open, &row(low)).await;
            let mut executor = db.connect(DbUser::Executor).await;
            let sql = format!("select symphony.{call}");
            let waiting = tokio::spawn(async move { try_run(&mut executor, &sql).await });
            until_waiting(&db, 1).await;
            try_run(&mut *open, &row(high)).await.unwrap_or_else(|error| panic!("{call} holds the second row first: {error}"));
            open.rollback().await.expect("it rolls back");
            waiting.await.expect("no panic").expect("it goes on");
        }
    }

    async fn a_claim_whose_answer_never_came_is_handed_back_without_an_attempt(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.keep_marks("mock").await;
        hands.enqueue_many("p", 3).await;
        let (known, marked, lost) = (hands.claim_one_of(3).await, hands.claim_one_of(2).await, hands.claim_one_of(1).await);
        assert_eq!(mark(&mut hands, WORKER, &marked).await, 1);
        let back = |worker: &str| {
            format!("select outbox_id from symphony.hand_back_unknown_leases('{worker}', array['{}'::uuid])", known.lease_token)
        };
        assert_eq!(column::<Uuid>(&mut hands.executor, &back("worker-2")).await, Vec::<Uuid>::new(), "not its own");
        assert_eq!(column::<Uuid>(&mut hands.executor, &back(WORKER)).await, [lost.outbox_id], "neither the known nor the marked one");
        assert_eq!(hands.count("payment_outbox_attempts").await, 0);
        let again = hands.claim_one().await;
        assert_eq!((again.outbox_id, again.attempt_count), (lost.outbox_id, 0));
        let late = format!(
            "select symphony.record_late_answer('{}', '{}', '{WORKER}', 'RETRYABLE', null, null, 'OUTCOME_UNKNOWN', null, null)",
            again.outbox_id, again.lease_token
        );
        run(&mut hands.executor, &late).await;
        assert_eq!(
            column::<Uuid>(&mut hands.executor, &back(WORKER)).await,
            Vec::<Uuid>::new(),
            "a lease of which an answer was kept was given to a rail"
        );
        hands.complete(&known, &Answer::new("DISPATCHED")).await.expect("it is still held");
        let nothing_said = format!("select symphony.hand_back_unknown_leases('{WORKER}', null)");
        assert_eq!(refusal(try_run(&mut hands.executor, &nothing_said).await), "22023");
    }

    async fn a_payment_on_hold_uses_up_no_attempt(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        for _ in 1..=25 {
            let lease = hands.claim_one().await;
            assert_eq!(hold(&mut hands, &lease, 0).await, 1);
            assert_eq!(hold(&mut hands, &lease, 0).await, 0, "it is no longer ours");
        }
        assert_eq!(hands.count("payment_outbox_attempts").await, 0);
        assert_eq!(hands.count("payment_outbox_pending where attempt_count = 0 and lease_token is null").await, 1);
        let kept: String = hands
            .scalar(&format!(
                "select format('%s %s %s', detail ->> 'times', detail ->> 'error_code', detail ->> 'rail_code')
                   from symphony.payment_timeline where outbox_id = '{id}' and event = 'HELD'"
            ))
            .await;
        assert_eq!(kept, "25 CREDENTIALS 60019");

        let lease = hands.claim_one().await;
        assert_eq!(mark(&mut hands, WORKER, &lease).await, 1);
        assert_eq!(hold(&mut hands, &lease, 60).await, 1);
        assert_eq!(hands.count("payment_outbox_pending where handed_over_at is null").await, 1, "a settled row has no mark");
        assert_eq!(hands.claim(1).await, [], "it waits for its delay");
        db.move_clock("61 seconds").await;
        let lease = hands.claim_one().await;
        db.move_clock("2 minutes").await;
        assert_eq!(hold(&mut hands, &lease, 0).await, 0, "a lease that ran out is lost");
    }

    async fn after_the_clock_went_back_a_payment_that_was_never_tried_is_due_at_once(db: Db) {
        let mut hands = Hands::of(&db).await;
        for (step, rail) in [("10 minutes", "a"), ("1 hour", "b")] {
            db.move_clock(step).await;
            for n in 1..=3 {
                hands.enqueue_this(&Request::new("p", &format!("{rail}{n}")).rail(rail)).await;
            }
            db.move_clock("0").await;
            assert_eq!(hands.claim(10).await, [], "they are {step} ahead");
            assert_eq!(reconcile_clock(&mut hands, 2).await, 2);
            assert_eq!(reconcile_clock(&mut hands, 2).await, 1);
            assert_eq!(reconcile_clock(&mut hands, 2).await, 0, "all is in line");
            let leases = hands.claim(10).await;
            assert_eq!(leases.len(), 3, "after {step}");
            for lease in leases {
                hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
            }
        }
    }

    async fn after_the_clock_went_back_leases_and_delays_are_as_long_as_they_were_meant(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 3).await;
        let now: DateTime<Utc> = hands.scalar("select symphony.clock()").await;
        db.hold_clock(now).await;
        let early = hands.claim_one_of(3).await;
        db.hold_clock(now + TimeDelta::minutes(10)).await;
        run(&mut hands.executor, "select symphony.report_host('h', '{}', false)").await;
        assert_eq!(hands.repair().await, [(early.outbox_id, 1)], "due again ten minutes too late");
        let held = claim_with(&mut hands.executor, "1, 'holder', 30, array['mock'], p_takeovers => 0").await.expect("a good claim").remove(0);
        let tried = claim_with(&mut hands.executor, &format!("1, '{WORKER}', 30, array['mock'], p_takeovers => 0")).await.expect("a good claim").remove(0);
        let later = Answer { delay_seconds: Some(900.0), ..Answer::retry("BUSY") };
        hands.complete(&tried, &later).await.expect("it is held");
        db.hold_clock(now).await;
        assert_eq!(reconcile_clock(&mut hands, 100).await, 3);
        assert_eq!(reconcile_clock(&mut hands, 100).await, 0, "once each");
        let lengths = "select format('%s %s', round(extract(epoch from lease_expires_at - claimed_at)),
                                     lease_expires_at - symphony.clock() between interval '20 s' and interval '30 s')
                         from symphony.payment_outbox_pending where lease_token is not null";
        assert_eq!(column::<String>(&mut hands.owner, lengths).await, ["30 t"], "the lease of the holder");
        let delays = "select round(extract(epoch from next_attempt_at - symphony.clock()) / 60)::int
                        from symphony.payment_outbox_pending where lease_token is null order by 1";
        assert_eq!(column::<i32>(&mut hands.owner, delays).await, [0, 15]);
        db.hold_clock(now + TimeDelta::seconds(31)).await;
        assert_eq!(hands.repair().await, [(held.outbox_id, 1)], "it runs out in time");
    }

    async fn a_look_at_a_clock_that_never_moved_changes_nothing(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_many("p", 3).await;
        let lease = hands.claim_one_of(3).await;
        hands.complete(&lease, &Answer { delay_seconds: Some(3600.0), ..Answer::retry("BUSY") }).await.expect("it is held");
        hands.claim(1).await;
        let rows = "select md5(string_agg(p::text, ';' order by p.outbox_id)) from symphony.payment_outbox_pending p";
        let before: String = hands.scalar(rows).await;
        assert_eq!(reconcile_clock(&mut hands, 100).await, 0);
        assert_eq!(hands.scalar::<String>(rows).await, before);
        assert_eq!(refusal(try_run(&mut hands.executor, "select symphony.reconcile_clock(0)").await), "22023");
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

async fn reconcile_clock(hands: &mut Hands, rows: i32) -> i32 {
    scalar(&mut hands.executor, &format!("select symphony.reconcile_clock({rows})")).await
}

async fn hold(hands: &mut Hands, lease: &Leased, delay_seconds: i32) -> i64 {
    let sql = format!(
        "select count(*) from symphony.hold_outbox_leases('{WORKER}', array['{}'::uuid], array['{}'::uuid],
           array[{delay_seconds}]::float8[], array['CREDENTIALS'], array['60019'], array['wrong PIN'])",
        lease.outbox_id, lease.lease_token
    );
    scalar(&mut hands.executor, &sql).await
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
