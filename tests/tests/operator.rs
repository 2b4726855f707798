//! What a person may do about a payment: reissue one that moved no money, resolve one whose outcome is open.

use harness::on_each_postgres;
use harness::sql::{Answer, Hands, column, refusal, run, try_run};
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

    async fn an_act_without_a_name_or_a_reason_is_refused(db: Db) {
        let mut hands = Hands::of(&db).await;
        let failed = failed(&mut hands, "k1", Some("no")).await;
        for (by, why) in [("null", "'why'"), ("''", "'why'"), ("'ops'", "null"), ("'ops'", "''"), ("repeat('x', 257)", "'why'")] {
            for act in [
                format!("pause_rail('mock', {by}, {why})"),
                format!("resume_rail('mock', {by}, {why})"),
                format!("suspend_participant('p', {by}, {why})"),
                format!("reinstate_participant('p', {by}, {why})"),
                format!("set_strict_order('p', true, {by}, {why})"),
                format!("configure_rail('mock', true, false, null, 5, 5, {by}, {why})"),
                format!("reissue_payment('{failed}', 'n', 'n', {by}, {why})"),
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

/// A payment of `p` that ended as FAILED.
async fn failed(hands: &mut Hands, key: &str, money_moved: Option<&'static str>) -> Uuid {
    let id = hands.enqueue("p", key).await;
    let lease = hands.claim(10).await.into_iter().find(|lease| lease.outbox_id == id).expect("it is due");
    hands.complete(&lease, &Answer { money_moved, ..Answer::new("FAILED") }).await.expect("it is held");
    id
}
