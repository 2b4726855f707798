//! Payments that are not accepted: each refusal has a name, nothing is written, and the neighbours go in. And the notifications.

use harness::sql::{Answer, Hands, Request, enqueue, enqueue_batch, refusal, run, try_run};
use harness::{Db, DbUser, PATIENCE, on_each_postgres, sqlstate};
use outbox::enqueue::{Ingest, NewPayment};
use serde_json::Value;
use sqlx::Connection;
use sqlx::postgres::PgListener;

/// A part of a request, to be changed.
type Field = fn(&mut Request) -> &mut Option<String>;

on_each_postgres! {
    async fn bad_input_is_named_and_nothing_is_written(db: Db) {
        let mut hands = Hands::of(&db).await;
        for (what, request, code) in bad_requests() {
            assert_eq!(refusal(enqueue(&mut hands.ingest, &request).await), code, "{what}");
            // A value that the server cannot even read fails the call; any other is the answer of its row.
            match enqueue_batch(&mut hands.ingest, std::slice::from_ref(&request)).await {
                Ok(rows) => assert_eq!(rows[0].refusal.as_deref(), Some(code), "{what}"),
                Err(error) => assert_eq!((sqlstate(&error).as_str(), code == "22023"), (code, false), "{what}"),
            }
        }
        assert_nothing_written(&mut hands).await;
    }

    async fn an_identifier_with_white_space_around_it_or_a_control_character_in_it_is_refused_by_name(db: Db) {
        let mut hands = Hands::of(&db).await;
        let fields: [(&str, Field); 4] = [
            ("instruction_id", |r| &mut r.instruction_id),
            ("participant_id", |r| &mut r.participant_id),
            ("idempotency_key", |r| &mut r.idempotency_key),
            ("rail_type", |r| &mut r.rail_type),
        ];
        let (around, inside) = ("must not begin or end with white space", "must not contain control characters");
        for (name, field) in fields {
            for (value, wrong) in [
                (" x", around), ("x ", around), ("\tx", around), ("x\r\n", around), ("\u{a0}x", around), ("x\u{3000}", around),
                ("x\ty", inside), ("\u{1b}[2J", inside), ("x\u{85}y", inside), ("\u{7f}", inside),
            ] {
                let mut request = Request::new("p", "k");
                *field(&mut request) = Some(value.to_owned());
                let row = enqueue_batch(&mut hands.ingest, &[request]).await.expect("a good batch").remove(0);
                assert_eq!(row.refusal_detail, Some(format!("{name} {wrong}")), "{value:?}");
            }
        }
        assert_nothing_written(&mut hands).await;
        let request = Request { instruction_id: Some("order 66, 2nd\u{a0}try".to_owned()), ..Request::new("Zoë & Co", "k 1") };
        hands.enqueue_this(&request).await;
    }

    async fn a_caller_that_will_prepare_notifies_nobody(db: Db) {
        let mut hands = Hands::of(&db).await;
        run(&mut hands.executor, "select symphony.report_host('h', array['mock'], true)").await;
        let mut notifications = NotificationCount::listen(&db).await;
        let mut open = hands.ingest.begin().await.expect("a transaction");
        run(&mut *open, "set local symphony.will_prepare = on").await;
        enqueue(&mut *open, &Request::new("p", "prepared")).await.expect("accepted");
        open.commit().await.expect("it commits");
        assert_eq!(notifications.since_last(&mut hands).await, 0);
        hands.enqueue("p", "not prepared").await;
        assert_eq!(notifications.since_last(&mut hands).await, 1, "the setting ends with its transaction");
        assert_eq!(hands.claim(10).await.len(), 2, "the next poll finds both");
    }

    async fn a_bad_row_of_a_batch_fails_alone(db: Db) {
        let mut hands = Hands::of(&db).await;
        let mut requests: Vec<Request> = (0..20).map(|n| Request::new("p", &format!("k{n}"))).collect();
        let bad: Vec<Request> =
            bad_requests().into_iter().filter(|(_, _, code)| *code == "22023").map(|(_, request, _)| request).collect();
        let bad_count = bad.len();
        requests.splice(10..10, bad);
        let answers = enqueue_batch(&mut hands.ingest, &requests).await.expect("a good batch");
        let numbers: Vec<_> = answers.iter().filter_map(|row| row.sequence_id).collect();
        assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
        for (n, row) in answers.iter().enumerate() {
            let expected = (10..10 + bad_count).contains(&n).then_some("22023");
            assert_eq!(row.refusal.as_deref(), expected, "{row:?}");
            assert!(!row.replayed, "{row:?}");
        }
        assert_eq!(hands.count("sequence_gaps").await, 0);
    }

    async fn values_at_their_limits_are_accepted(db: Db) {
        let mut hands = Hands::of(&db).await;
        let longest = "é".repeat(256);
        let filler = "x".repeat(65_536 - r#"{"a": ""}"#.len());
        let request = Request {
            instruction_id: Some(longest.clone()),
            participant_id: Some(longest.clone()),
            ..Request::new("", &longest).rail(&"r".repeat(64)).payload(&format!(r#"{{"a": "{filler}"}}"#))
        };
        hands.enqueue_this(&request).await;
        hands.enqueue_this(&Request { instruction_id: Some("i".to_owned()), ..Request::new("p", "k").rail("r").payload("{}") }).await;
        assert_eq!(hands.count("payment_outbox_pending").await, 2);
        assert_eq!(hands.claim(2).await.len(), 2, "and leased");
    }

    async fn a_payload_is_measured_before_it_is_sent_as_the_database_measures_it(db: Db) {
        let mut owner = db.connect(DbUser::Superuser).await;
        for payload in [
            r#"{"bb":1,"a":2,"ab":3,"é":1,"":0,"nested":{"z":[],"y":{}}}"#,
            r#"[1,[2,{"a":null}],true,false,"a\u0001\u001f\u007f\b\f\n\r\t\"\\\/é\ud83d\ude00"]"#,
            "[0.10,12.500e1,1.50e1,1e2,1E+2,-0,-0.0,0e5,0.0e1,0e-5,-0e-3,1.5e-3,-1e-2,100e-2,9007199254740993.01,1e300]",
        ] {
            let printed: String = sqlx::query_scalar("select $1::text::jsonb::text")
                .bind(payload)
                .fetch_one(&mut owner)
                .await
                .expect("printed");
            assert_eq!(new_payment(payload).body(), Ok(printed), "{payload}");
        }
        let ingest = Ingest::new(&db.database(), 1);
        let around = r#"{"a": ""}"#.len();
        for (filler, fits) in [(65_536 - around, true), (65_537 - around, false)] {
            let payment = new_payment(&format!(r#"{{"a":"{}"}}"#, "x".repeat(filler)));
            assert_eq!(payment.violations().is_empty(), fits, "{:?}", payment.violations());
            assert_eq!(ingest.enqueue(&payment).await.is_ok(), fits);
        }
        for number in ["1e65530", "1e-16384", "1e131072"] {
            let payment = new_payment(&format!(r#"{{"a":{number}}}"#));
            assert_eq!(payment.violations().len(), 1, "{number}");
            assert!(ingest.enqueue(&payment).await.is_err(), "{number}");
        }
    }

    async fn of_two_members_of_one_name_sql_keeps_the_last_and_says_nothing(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.enqueue_this(&Request::new("p", "k").payload(r#"{"amount": "5.00", "amount": "900.00"}"#)).await;
        let kept: String = hands.scalar("select payload ->> 'amount' from symphony.payment_outbox_pending").await;
        assert_eq!(kept, "900.00", "the page for SQL callers says so");
    }

    async fn arrays_that_do_not_fit_are_refused(db: Db) {
        let mut hands = Hands::of(&db).await;
        for arguments in [
            "array['i'], array['p'], array['k'], array['r'], null",
            "null, array['p'], array['k'], array['r'], array['{}'::jsonb]",
            "null, null, null, null, null",
            "array['i', 'j'], array['p'], array['k'], array['r'], array['{}'::jsonb]",
            "array['i'], array['p', 'q'], array['k'], array['r'], array['{}'::jsonb]",
            "array['i'], array['p'], array['k'], array['r'], '{}'",
        ] {
            let sql = format!("select symphony.enqueue_payment_outbox_batch({arguments})");
            assert_eq!(refusal(try_run(&mut hands.ingest, &sql).await), "22023", "{arguments}");
        }
        assert_nothing_written(&mut hands).await;
        assert_eq!(enqueue_batch(&mut hands.ingest, &[]).await.expect("an empty batch is no error"), []);
    }

    async fn ten_thousand_rows_are_taken_and_one_more_is_refused(db: Db) {
        let mut hands = Hands::of(&db).await;
        let mut requests: Vec<Request> =
            (0..10_001).map(|n| Request::new(&format!("p{}", n % 10), &format!("k{n}")).payload("{}")).collect();
        assert_eq!(refusal(enqueue_batch(&mut hands.ingest, &requests).await), "22023");
        assert_nothing_written(&mut hands).await;
        requests.pop();
        let answers = enqueue_batch(&mut hands.ingest, &requests).await.expect("it fits");
        for (n, row) in answers.iter().enumerate() {
            assert_eq!((row.ordinal as usize, row.sequence_id), (n + 1, Some((n / 10 + 1) as i64)), "{row:?}");
        }
        assert_eq!(hands.count("payment_outbox_pending").await, 10_000);
        assert_eq!(hands.count("sequence_gaps").await, 0);
    }

    async fn a_suspended_participant_is_refused_but_its_replay_is_answered(db: Db) {
        let mut hands = Hands::of(&db).await;
        let request = Request::new("p", "k");
        let first = hands.enqueue_this(&request).await;
        hands.operate("suspend_participant", "p").await;
        assert_eq!(refusal(enqueue(&mut hands.ingest, &Request::new("p", "new")).await), "P7006");
        assert_eq!(refusal(enqueue(&mut hands.ingest, &request.clone().payload("{}")).await), "P7004");
        assert_eq!(hands.enqueue_this(&request).await, first);
        hands.enqueue("q", "of another").await;
        hands.operate("reinstate_participant", "p").await;
        assert_eq!(hands.enqueue_this(&Request::new("p", "new")).await.sequence_id, 2);
        assert_eq!(hands.count("sequence_gaps").await, 0);
    }

    async fn a_payment_that_no_partition_would_take_is_refused(db: Db) {
        let mut hands = Hands::of(&db).await;
        for offset in ["3 years", "-90 days"] {
            db.move_clock(offset).await;
            assert_eq!(refusal(enqueue(&mut hands.ingest, &Request::new("p", "k")).await), "P7007", "{offset}");
            let batch = enqueue_batch(&mut hands.ingest, &[Request::new("p", "k")]).await;
            assert_eq!(refusal(batch), "P7007", "{offset}");
        }
        assert_nothing_written(&mut hands).await;
        db.move_clock("3 years").await;
        run(&mut hands.executor, "select symphony.create_attempt_partitions(1)").await;
        let id = hands.enqueue("p", "k").await;
        let lease = hands.claim_one().await;
        hands.complete(&lease, &harness::sql::Answer::new("DISPATCHED")).await.expect("its verdict has a place");
        let months: bool = hands
            .scalar(&format!("select symphony.uuidv7_time('{id}') > now() + interval '2 years 11 months'"))
            .await;
        assert!(months, "the id carries the time of the outbox's clock");
    }

    async fn the_last_minute_of_the_last_partition_is_not_used(db: Db) {
        let mut hands = Hands::of(&db).await;
        let until = |seconds: i32| {
            format!("select (max(until_at) - clock_timestamp() - interval '{seconds} s')::text from symphony.payment_outbox_partitions")
        };
        let offset: String = hands.scalar(&until(50)).await;
        db.move_clock(&offset).await;
        assert_eq!(refusal(enqueue(&mut hands.ingest, &Request::new("p", "k")).await), "P7007");
        let offset: String = hands.scalar(&until(300)).await;
        db.move_clock(&offset).await;
        hands.enqueue("p", "k").await;
    }

    async fn an_enqueue_inside_a_failed_transaction_leaves_nothing(db: Db) {
        let mut hands = Hands::of(&db).await;
        let mut open = hands.ingest.begin().await.expect("a transaction");
        enqueue(&mut *open, &Request::new("p", "k")).await.expect("a good payment");
        enqueue(&mut *open, &Request::new("p", "k").payload("{}")).await.expect_err("the key is taken");
        open.rollback().await.expect("it rolls back");
        assert_nothing_written(&mut hands).await;
    }

    async fn hosts_are_notified_once_per_call_and_only_while_a_host_sleeps(db: Db) {
        let mut hands = Hands::of(&db).await;
        let mut notifications = NotificationCount::listen(&db).await;
        hands.enqueue("p", "nobody").await;
        assert_eq!(notifications.since_last(&mut hands).await, 0, "no host is known");

        run(&mut hands.executor, "select symphony.report_host('h', array['mock'], false)").await;
        hands.enqueue("p", "awake").await;
        assert_eq!(notifications.since_last(&mut hands).await, 0, "the host is awake");

        run(&mut hands.executor, "select symphony.report_host('h', array['mock'], true)").await;
        hands.enqueue("p", "asleep").await;
        assert_eq!(notifications.since_last(&mut hands).await, 1);
        hands.enqueue("p", "asleep").await;
        assert_eq!(notifications.since_last(&mut hands).await, 0, "a replay is no work");
        hands.enqueue_many("p", 100).await;
        assert_eq!(notifications.since_last(&mut hands).await, 1, "once per call, not per row");

        db.move_clock("2 minutes").await;
        hands.enqueue("p", "dead").await;
        assert_eq!(notifications.since_last(&mut hands).await, 0, "a host that was not heard of for a minute does not sleep");

        run(&mut hands.executor, "select symphony.report_host('h', array['mock'], true)").await;
        run(&mut hands.executor, "select symphony.retire_host('h')").await;
        hands.enqueue("p", "gone").await;
        assert_eq!(notifications.since_last(&mut hands).await, 0, "the host has left");
    }

    async fn a_verdict_notifies_for_the_next_payment_of_a_strict_stream_and_for_nothing_else(db: Db) {
        let mut hands = Hands::of(&db).await;
        hands.order_strictly("p", true).await;
        hands.enqueue_many("p", 2).await;
        run(&mut hands.executor, "select symphony.report_host('h', array['mock'], true)").await;
        let mut notifications = NotificationCount::listen(&db).await;
        for wanted in [1, 0] {
            let lease = hands.claim_one().await;
            hands.complete(&lease, &Answer::new("DISPATCHED")).await.expect("it is held");
            assert_eq!(notifications.since_last(&mut hands).await, wanted);
        }
    }
}

/// As the host hands it in.
fn new_payment(payload: &str) -> NewPayment {
    NewPayment {
        instruction_id: "i".to_owned(),
        participant_id: "p".to_owned(),
        idempotency_key: "k".to_owned(),
        rail_type: "mock".to_owned(),
        payload: serde_json::from_str::<Value>(payload).expect("JSON").into(),
    }
}

/// What is wrong, the request, and the SQLSTATE that names it.
fn bad_requests() -> Vec<(&'static str, Request, &'static str)> {
    let good = Request::new("p", "k");
    let set = |field: fn(&mut Request) -> &mut Option<String>, value: Option<String>| {
        let mut request = good.clone();
        *field(&mut request) = value;
        request
    };
    let too_large = format!(r#"{{"a": "{}"}}"#, "x".repeat(65_536));
    vec![
        ("no instruction", set(|r| &mut r.instruction_id, None), "22023"),
        ("empty instruction", set(|r| &mut r.instruction_id, Some(String::new())), "22023"),
        ("long instruction", set(|r| &mut r.instruction_id, Some("i".repeat(257))), "22023"),
        ("no participant", set(|r| &mut r.participant_id, None), "22023"),
        ("empty participant", set(|r| &mut r.participant_id, Some(String::new())), "22023"),
        ("long participant", set(|r| &mut r.participant_id, Some("p".repeat(257))), "22023"),
        ("no key", set(|r| &mut r.idempotency_key, None), "22023"),
        ("empty key", set(|r| &mut r.idempotency_key, Some(String::new())), "22023"),
        ("long key", set(|r| &mut r.idempotency_key, Some("k".repeat(257))), "22023"),
        ("no rail", set(|r| &mut r.rail_type, None), "22023"),
        ("empty rail", set(|r| &mut r.rail_type, Some(String::new())), "22023"),
        ("long rail", set(|r| &mut r.rail_type, Some("r".repeat(65))), "22023"),
        ("space before the instruction", set(|r| &mut r.instruction_id, Some(" i".to_owned())), "22023"),
        ("tab in the participant", set(|r| &mut r.participant_id, Some("p\tq".to_owned())), "22023"),
        ("line end after the key", set(|r| &mut r.idempotency_key, Some("k\n".to_owned())), "22023"),
        ("space after the rail", set(|r| &mut r.rail_type, Some("r ".to_owned())), "22023"),
        ("no payload", set(|r| &mut r.payload, None), "22023"),
        ("payload null", good.clone().payload("null"), "22023"),
        ("payload an array", good.clone().payload("[{}]"), "22023"),
        ("payload a string", good.clone().payload(r#""{}""#), "22023"),
        ("payload a number", good.clone().payload("7"), "22023"),
        ("payload too large", good.clone().payload(&too_large), "22023"),
        ("NUL in the payload", good.clone().payload(r#"{"a": "\u0000"}"#), "22P05"),
        ("NUL in a key", set(|r| &mut r.idempotency_key, Some("k\0".to_owned())), "22021"),
        ("payload not JSON", good.clone().payload("{"), "22P02"),
    ]
}

async fn assert_nothing_written(hands: &mut Hands) {
    for table in ["payment_outbox_pending", "payment_outbox_records", "participant_outbox_sequences"] {
        assert_eq!(hands.count(table).await, 0, "{table}");
    }
}

/// A session that listens as a host does.
struct NotificationCount(PgListener);

impl NotificationCount {
    async fn listen(db: &Db) -> Self {
        let mut listener =
            PgListener::connect_with(&db.pool(DbUser::Executor, 1)).await.expect("it connects");
        listener.listen("outbox_pending").await.expect("anyone may listen");
        Self(listener)
    }

    /// How many came since the last look. One of our own marks the end: they arrive in the order of commits.
    async fn since_last(&mut self, hands: &mut Hands) -> usize {
        run(&mut hands.owner, "select pg_notify('outbox_pending', 'the end')").await;
        for came in 0.. {
            let notification = tokio::time::timeout(PATIENCE, self.0.recv())
                .await
                .expect("in time")
                .expect("still connected");
            match notification.payload() {
                "the end" => return came,
                payload => assert_eq!(payload, "new_work"),
            }
        }
        unreachable!("the loop has no end of its own")
    }
}
