//! What a person may do about a payment: take it back, reissue one that moved no money, resolve one whose outcome is open.

use harness::on_each_postgres;
use harness::sql::{Answer, Hands, WORKER, column, refusal, run, scalar, try_run};
use uuid::Uuid;

on_each_postgres! {
    async fn a_payment_that_moved_no_money_is_reissued_once(db: Db) {
        let mut hands = Hands::of(&db).await;
        let failed = failed(&mut hands, "k1", Some("no")).await;
        let successor: Vec<Uuid> = column(&mut hands.operator, &reissue(failed, "again", "ops", "why")).await;
        assert_ne!(successor, [failed]);
        let same: Vec<Uuid> = column(&mut hands.operator, &reissue(failed, "again", "ops", "why")).await;
        assert_eq!(same, successor, "the same call again answers with the same successor");
        assert_eq!(refusal(try_run(&mut hands.operator, &reissue(failed, "third", "ops", "why")).await), "P7008");
        assert_eq!(hands.count("payment_outbox_pending").await, 1);
        assert_eq!(hands.count("sequence_gaps").await, 0);
    }

    async fn a_payment_is_not_its_own_successor_nor_is_a_stranger(db: Db) {
        let mut hands = Hands::of(&db).await;
        let failed = failed(&mut hands, "k1", Some("no")).await;
        hands.enqueue("p", "stranger").await;
        for key in ["k1", "stranger"] {
            assert_eq!(refusal(try_run(&mut hands.operator, &reissue(failed, key, "ops", "why")).await), "P7008", "{key}");
        }
        assert_eq!(hands.count("payment_outbox_reissues").await, 0);
    }

    async fn a_payment_whose_money_may_have_moved_is_not_reissued(db: Db) {
        let mut hands = Hands::of(&db).await;
        let pending = hands.enqueue("q", "pending").await;
        assert_eq!(refusal(try_run(&mut hands.operator, &reissue(pending, "n", "ops", "why")).await), "P7008");
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        assert_eq!(refusal(try_run(&mut hands.operator, &reissue(pending, "n", "ops", "why")).await), "P7008");

        let open = failed(&mut hands, "open", None).await;
        assert_eq!(refusal(try_run(&mut hands.operator, &reissue(open, "n", "ops", "why")).await), "P7008");
        run(&mut hands.operator, &format!("select symphony.resolve_payment('{open}', 'no', 'ops', 'why', 'statement')")).await;
        let twice = format!("select symphony.resolve_payment('{open}', 'yes', 'ops', 'why', 'statement')");
        assert_eq!(refusal(try_run(&mut hands.operator, &twice).await), "P7008", "a finding stands");
        run(&mut hands.operator, &reissue(open, "n", "ops", "why")).await;

        let heard = failed(&mut hands, "heard", Some("no")).await;
        let late = format!(
            "select symphony.record_late_answer('{heard}', gen_random_uuid(), 'w', 'DISPATCHED', null, null, null, null, 1, 'yes')"
        );
        run(&mut hands.executor, &late).await;
        assert_eq!(refusal(try_run(&mut hands.operator, &reissue(heard, "m", "ops", "why")).await), "P7008", "a late success");
    }

    async fn a_success_heard_after_the_finding_that_there_was_none_opens_the_case_again(db: Db) {
        let mut hands = Hands::of(&db).await;
        for money_moved in [None, Some("no")] {
            let key = format!("{money_moved:?}");
            let id = failed(&mut hands, &key, money_moved).await;
            if money_moved.is_some() {
                hear_success(&mut hands, id).await;
            }
            assert_eq!(reviews(&mut hands, id).await.len(), 1, "{key}");
            run(&mut hands.operator, &resolve(id, "no")).await;
            assert_eq!(reviews(&mut hands, id).await, Vec::<String>::new(), "{key}: who found it knew what had been heard");
            assert_eq!(refusal(try_run(&mut hands.operator, &resolve(id, "yes")).await), "P7008", "{key}: a finding stands");

            hear_success(&mut hands, id).await;
            assert_eq!(reviews(&mut hands, id).await, ["LATE_SUCCESS"], "{key}");
            let again = reissue(id, &format!("again {key}"), "ops", "why");
            assert_eq!(refusal(try_run(&mut hands.operator, &again).await), "P7008", "{key}");
            run(&mut hands.operator, &resolve(id, "yes")).await;
            hear_success(&mut hands, id).await;
            assert_eq!(reviews(&mut hands, id).await, Vec::<String>::new(), "{key}: it agrees with the finding");
            assert_eq!(refusal(try_run(&mut hands.operator, &resolve(id, "no")).await), "P7008", "{key}");
            let findings = format!("payment_timeline where outbox_id = '{id}' and event = 'RESOLVED'");
            assert_eq!(hands.count(&findings).await, 2, "{key}: both are kept");
        }
    }

    async fn a_payment_of_an_adapter_that_lied_is_looked_at_at_once_and_until_it_is_settled(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        for code in ["ADAPTER_VETO", "QUERY_FAILED"] {
            let lease = hands.claim_one().await;
            hands.complete(&lease, &Answer { unsettled: Some(true), ..Answer::retry(code) }).await.expect("it is held");
            assert_eq!(reviews(&mut hands, id).await, ["ADAPTER_VETO"], "after {code}");
        }
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        assert_eq!(reviews(&mut hands, id).await, Vec::<String>::new(), "the rail settled it");

        let last = hands.enqueue("p", "cannot be asked about").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer { error_code: Some("ADAPTER_VETO"), ..Answer::new("FAILED") }).await.expect("it is held");
        assert_eq!(reviews(&mut hands, last).await, ["ADAPTER_VETO"]);
    }

    async fn a_payment_that_did_not_leave_is_cancelled_and_its_stream_goes_on(db: Db) {
        let mut hands = Hands::of(&db).await;
        let first = hands.enqueue("p", "first").await;
        let second = hands.enqueue("p", "second").await;
        hands.order_strictly("p", true).await;
        hands.reconcile().await;
        run(&mut hands.operator, &cancel(first)).await;
        assert_eq!(hands.claim_one().await.outbox_id, second, "it is the head now");
        let verdict = format!(
            "payments where outbox_id = '{first}' and state = 'FAILED' and error_code = 'CANCELLED' and money_moved = 'no'"
        );
        assert_eq!(hands.count(&verdict).await, 1);
        assert_eq!(refusal(try_run(&mut hands.operator, &cancel(first)).await), "P7008", "it has its verdict");
        assert_eq!(refusal(try_run(&mut hands.operator, &cancel(Uuid::nil())).await), "P0002");
        assert_eq!(hands.count("sequence_gaps").await, 0);
        let again = try_run(&mut hands.operator, &reissue(first, "again", "ops", "why")).await;
        assert_eq!(refusal(again), "P7008", "what was withdrawn is enqueued anew, or not at all");
    }

    async fn a_payment_of_which_anything_may_have_left_is_not_cancelled(db: Db) {
        let mut hands = Hands::of(&db).await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        assert_eq!(refusal(try_run(&mut hands.operator, &cancel(id)).await), "P7008", "a host has it");
        hands.complete(&lease, &Answer { unsettled: Some(true), ..Answer::retry("LOST") }).await.expect("it is held");
        assert_eq!(refusal(try_run(&mut hands.operator, &cancel(id)).await), "P7008", "it may have left");
        assert_eq!(hands.count("payment_outbox_pending").await, 1);
    }

    async fn nothing_is_switched_under_a_name_that_no_payment_can_have(db: Db) {
        let mut hands = Hands::of(&db).await;
        for name in [" x", "x ", "\u{a0}x", "x\ty", "x\u{85}", ""] {
            for act in [
                format!("pause_rail('{name}', 'ops', 'why')"),
                format!("resume_rail('{name}', 'ops', 'why')"),
                format!("configure_rail('{name}', true, false, null, null, null, 'ops', 'why')"),
                format!("suspend_participant('{name}', 'ops', 'why', true)"),
                format!("set_strict_order('{name}', true, 'ops', 'why', true)"),
                format!("reinstate_participant('{name}', 'ops', 'why')"),
            ] {
                assert_eq!(refusal(try_run(&mut hands.operator, &format!("select symphony.{act}")).await), "22023", "{act}");
            }
        }
        for table in ["operator_acts", "rails", "participants"] {
            assert_eq!(hands.count(table).await, 0, "{table}");
        }
        run(&mut hands.operator, "select symphony.suspend_participant('Zoë & Co', 'ops', 'why', true)").await;
    }

    async fn a_rail_knows_its_open_payments_by_one_form_of_the_key(db: Db) {
        let mut hands = Hands::of(&db).await;
        let configure = |forms: &str| {
            format!("select symphony.configure_rail('mock', true, false, null, null, null, 'ops', 'why', {forms})")
        };
        run(&mut hands.operator, &configure("'uuid'")).await;
        let id = hands.enqueue("p", "k").await;
        run(&mut hands.operator, &configure("'hex32'")).await;
        let lease = hands.claim_one().await;
        assert_eq!(lease.outbox_id, id);
        assert_eq!(refusal(try_run(&mut hands.operator, &configure("'uuid'")).await), "55006", "a host has it");
        hands.complete(&lease, &Answer { unsettled: Some(true), ..Answer::retry("LOST") }).await.expect("it is held");
        assert_eq!(refusal(try_run(&mut hands.operator, &configure("'uuid'")).await), "55006", "the rail may know it");
        run(&mut hands.operator, &configure("'hex32'")).await;
        run(&mut hands.operator, &configure("null")).await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        run(&mut hands.operator, &configure("'uuid'")).await;
        let known: String = scalar(&mut hands.owner, "select key_forms from symphony.rails").await;
        assert_eq!(known, "uuid");
        // Turned away by the rail itself, and by us before it heard of it.
        for (digest, refused) in [("null", false), ("array[sha256('')]", true)] {
            hands.enqueue("p", &format!("held {refused}")).await;
            let lease = hands.claim_one().await;
            let hold = format!(
                "select symphony.hold_outbox_leases('{WORKER}', array['{}'::uuid], array['{}'::uuid], '{{0}}', null, null, null, {digest})",
                lease.outbox_id, lease.lease_token
            );
            run(&mut hands.executor, &hold).await;
            let done = try_run(&mut hands.operator, &configure("'hex'")).await;
            assert_eq!(done.is_err(), refused, "{digest}: {done:?}");
            run(&mut hands.operator, &configure("'uuid'")).await;
            let lease = hands.claim_one().await;
            hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
        }
        run(&mut hands.owner, "insert into symphony.relay_hosts (worker_id, rails, seen_at) values ('h', '{mock}', symphony.clock())").await;
        assert_eq!(refusal(try_run(&mut hands.operator, &configure("'hex32'")).await), "55006", "a host pays by the old file");
        run(&mut hands.owner, "update symphony.relay_hosts set seen_at = symphony.clock() - interval '61 seconds'").await;
        run(&mut hands.operator, &configure("'hex32'")).await;
    }

    async fn an_act_without_a_name_or_a_reason_is_refused(db: Db) {
        let mut hands = Hands::of(&db).await;
        let failed = failed(&mut hands, "k1", Some("no")).await;
        let pending = hands.enqueue("p", "k2").await;
        for (by, why) in [("null", "'why'"), ("''", "'why'"), ("'ops'", "null"), ("'ops'", "''"), ("repeat('x', 257)", "'why'")] {
            for act in [
                format!("pause_rail('mock', {by}, {why})"),
                format!("resume_rail('mock', {by}, {why})"),
                format!("suspend_participant('p', {by}, {why})"),
                format!("reinstate_participant('p', {by}, {why})"),
                format!("set_strict_order('p', true, {by}, {why})"),
                format!("configure_rail('mock', true, false, null, 5, 5, {by}, {why})"),
                format!("reissue_payment('{failed}', 'n', 'n', {by}, {why})"),
                format!("cancel_payment('{pending}', {by}, {why})"),
            ] {
                assert_eq!(refusal(try_run(&mut hands.operator, &format!("select symphony.{act}")).await), "22023", "{act}");
            }
        }
        for table in ["operator_acts", "rails", "participants", "payment_outbox_reissues"] {
            assert_eq!(hands.count(table).await, 0, "{table}");
        }
        hands.operate("pause_rail", "mock").await;
        assert_eq!(hands.count("operator_acts where act = 'pause_rail' and by_whom = 'tester' and target = 'mock'").await, 1);
    }
}

fn reissue(predecessor: Uuid, key: &str, by: &str, why: &str) -> String {
    format!(
        "select outbox_id from symphony.reissue_payment('{predecessor}', '{key}', '{key}', '{by}', '{why}')"
    )
}

fn cancel(id: Uuid) -> String {
    format!("select symphony.cancel_payment('{id}', 'ops', 'why')")
}

fn resolve(id: Uuid, money_moved: &str) -> String {
    format!("select symphony.resolve_payment('{id}', '{money_moved}', 'ops', 'why', 'statement')")
}

/// A holder that lost its lease learns that the rail paid.
async fn hear_success(hands: &mut Hands, id: Uuid) {
    let late = format!(
        "select symphony.record_late_answer('{id}', gen_random_uuid(), 'w', 'DISPATCHED', null, null, null, null, 1, 'yes')"
    );
    run(&mut hands.executor, &late).await;
}

/// Why a person has to look at it.
async fn reviews(hands: &mut Hands, id: Uuid) -> Vec<String> {
    let sql = format!("select reason from symphony.payments_needing_review where outbox_id = '{id}'");
    column(&mut hands.owner, &sql).await
}

/// A payment of `p` that ended as FAILED.
async fn failed(hands: &mut Hands, key: &str, money_moved: Option<&'static str>) -> Uuid {
    let id = hands.enqueue("p", key).await;
    let lease = hands.claim(10).await.into_iter().find(|lease| lease.outbox_id == id).expect("it is due");
    hands.complete(&lease, &Answer { money_moved, ..Answer::new("FAILED") }).await.expect("it is held");
    id
}
